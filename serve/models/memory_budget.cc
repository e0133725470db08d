#include "serve/models/memory_budget.h"

#include "error/error.h"
#include "error/number_text.h"

namespace vesper {

MemoryBudget::Share::Share(MemoryBudget& budget, const std::string& name, uint64_t n_bytes)
    : budget_(budget), n_bytes_(n_bytes) {
  std::unique_lock lock(budget_.mutex_);
  if (n_bytes_ > budget_.n_bytes_) {
    throw Error(ErrorKind::kModel, "memory",
                "expected at least " + bytes_text(n_bytes_) + " for " + name + ", found " +
                    bytes_text(budget_.n_bytes_));
  }
  ++budget_.n_waiting_;
  budget_.freed_.wait(lock, [&] { return budget_.n_bytes_ - budget_.n_used_ >= n_bytes_; });
  --budget_.n_waiting_;
  budget_.n_used_ += n_bytes_;
}

MemoryBudget::Share::~Share() {
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.n_used_ -= n_bytes_;
  }
  budget_.freed_.notify_all();
}

bool MemoryBudget::Share::is_wanted() const {
  const std::lock_guard lock(budget_.mutex_);
  return budget_.n_waiting_ > 0;
}

}  // namespace vesper
