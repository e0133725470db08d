// The memory that the loaded models of a server may take together. A model that needs room waits
// until others have been unloaded: those without jobs at once, those with jobs when it has waited
// for a while.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace vesper {

// Thread-safe.
class MemoryBudget {
 public:
  // `patience`: how long a model waits before busy ones begin no further job. Loading takes time,
  // so that models which take turns should not do so for every request.
  explicit MemoryBudget(uint64_t n_bytes,
                        std::chrono::milliseconds patience = std::chrono::seconds(3))
      : n_bytes_(n_bytes), patience_(patience) {}

  // The part of one model, for its lifetime.
  class Share {
   public:
    // Waits until there is room and no other model has waited for longer. Throws Error(kModel) if
    // there is none even without other models.
    Share(MemoryBudget& budget, const std::string& name, uint64_t n_bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    // Whether another model waits for this memory: unload if there is no job.
    bool is_wanted() const;
    // Whether it has waited for so long that no further job may begin.
    bool must_end() const;

   private:
    MemoryBudget& budget_;
    uint64_t n_bytes_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  const uint64_t n_bytes_;
  const std::chrono::milliseconds patience_;
  uint64_t n_used_ = 0;
  uint64_t next_ticket_ = 0;
  struct Waiting {
    uint64_t ticket;
    Clock::time_point since;
  };
  std::deque<Waiting> waiting_;  // models that wait for room, the first one first
  mutable std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace vesper
