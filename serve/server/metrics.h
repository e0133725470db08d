// Counts of requests, and the state of the models, in the text format of Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace vesper {

class ModelRegistry;

// Thread-safe.
class Metrics {
 public:
  // `route`: of the table of routes, not what a client sent, so that the number of series is
  // bounded.
  void add_request(const std::string& route, unsigned status, double seconds);
  // The exposition format, version 0.0.4.
  std::string text(ModelRegistry& models, size_t n_connections) const;

 private:
  // Upper bounds in seconds.
  static constexpr std::array<double, 10> kBuckets = {0.005, 0.02, 0.1, 0.5, 1, 2, 5, 20, 60, 300};
  struct Times {
    std::array<uint64_t, kBuckets.size()> counts{};  // of requests up to the bound
    uint64_t n = 0;
    double sum_s = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, unsigned>, uint64_t> requests_;  // by route and status
  std::map<std::string, Times> times_;                             // by route
};

}  // namespace vesper
