// What each client uses, held to its quota.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "serve/access/api_keys.h"

namespace vesper {

// Thread-safe.
class ClientLimits {
 public:
  using Clock = std::chrono::steady_clock;

  // A running request, for its lifetime.
  class Running {
   public:
    Running(ClientLimits& limits, std::string name) : limits_(&limits), name_(std::move(name)) {}
    Running(Running&& other) noexcept
        : limits_(std::exchange(other.limits_, nullptr)), name_(std::move(other.name_)) {}
    Running& operator=(Running&&) = delete;
    ~Running() {
      if (limits_ != nullptr) limits_->end(name_);
    }

   private:
    ClientLimits* limits_;
    std::string name_;
  };

  // None: the client's quota is used up; then `retry_after` is set.
  std::optional<Running> begin(const Client& client, Clock::time_point now,
                               std::chrono::seconds& retry_after);

 private:
  struct Use {
    uint32_t n_running = 0;
    std::deque<Clock::time_point> begun;  // in the last minute; empty without that quota
  };
  void end(const std::string& name);

  std::mutex mutex_;
  std::map<std::string, Use> uses_;  // by the name of the client, which the file of keys bounds
};

}  // namespace vesper
