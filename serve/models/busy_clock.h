// The time that a thread was busy.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

namespace vesper {

// One thread starts and stops it, any thread reads it.
class BusyClock {
 public:
  void start() {
    const std::lock_guard lock(mutex_);
    since_ = Clock::now();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    if (since_) total_ += Clock::now() - *since_;
    since_.reset();
  }
  // With the time since start() if it is running.
  double seconds() const {
    const std::lock_guard lock(mutex_);
    return std::chrono::duration<double>(
               total_ + (since_ ? Clock::now() - *since_ : Clock::duration::zero()))
        .count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  Clock::duration total_{};
  std::optional<Clock::time_point> since_;
};

}  // namespace vesper
