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
  const uint64_t ticket = budget_.next_ticket_++;
  budget_.waiting_.push_back({ticket, Clock::now()});
  budget_.changed_.wait(lock, [&] {
    return budget_.waiting_.front().ticket == ticket &&
           budget_.n_bytes_ - budget_.n_used_ >= n_bytes_;
  });
  budget_.waiting_.pop_front();
  budget_.n_used_ += n_bytes_;
  lock.unlock();
  budget_.changed_.notify_all();  // the next one may fit, too
}

MemoryBudget::Share::~Share() {
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.n_used_ -= n_bytes_;
  }
  budget_.changed_.notify_all();
}

bool MemoryBudget::Share::is_wanted() const {
  const std::lock_guard lock(budget_.mutex_);
  return !budget_.waiting_.empty();
}

bool MemoryBudget::Share::must_end() const {
  const std::lock_guard lock(budget_.mutex_);
  return !budget_.waiting_.empty() &&
         Clock::now() - budget_.waiting_.front().since >= budget_.patience_;
}

}  // namespace vesper
