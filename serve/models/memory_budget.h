// The memory that the loaded models of a server may take together. A model that needs room waits
// until others, which have no job, have been unloaded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

namespace vesper {

// Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t n_bytes) : n_bytes_(n_bytes) {}

  // The part of one model, for its lifetime.
  class Share {
   public:
    // Waits until there is room. Throws Error(kModel) if there is none even without other models.
    Share(MemoryBudget& budget, const std::string& name, uint64_t n_bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    // Whether another model waits for this memory: unload as soon as there is no job.
    bool is_wanted() const;

   private:
    MemoryBudget& budget_;
    uint64_t n_bytes_;
  };

 private:
  uint64_t n_bytes_, n_used_ = 0;
  uint32_t n_waiting_ = 0;  // models that wait for room
  mutable std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace vesper
