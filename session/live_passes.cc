#include "session/live_passes.h"

#include <chrono>
#include <cstddef>
#include <vector>

#include "audio/resample.h"

namespace vesper {

std::exception_ptr follow(LiveSource& source, const LiveOptions& options,
                          const LivePasses& passes) {
  const auto step = static_cast<size_t>(options.step_s * kSampleRateHz);
  while (true) {
    std::vector<float> samples;
    try {
      samples = source.take(step, options.is_stopped);
    } catch (const std::exception&) {
      return std::current_exception();
    }
    if (samples.empty()) return nullptr;
    passes.push(samples);
    const auto start = std::chrono::steady_clock::now();
    const bool had_window = passes.whole_windows();
    // More has come already, or nothing will: there is no need to guess.
    const bool is_worth_a_look = source.waiting() < step && !source.is_over();
    if (is_worth_a_look) passes.beginning();
    if (!is_worth_a_look && !had_window) continue;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    // What is read as fast as it can be is behind on any machine.
    if (took.count() > options.step_s && options.on_slow && source.is_paced()) {
      const double behind_s = static_cast<double>(source.waiting()) / kSampleRateHz;
      options.on_slow({took.count(), behind_s, had_window});
    }
  }
}

}  // namespace vesper
