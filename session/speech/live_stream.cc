#include "session/speech/live_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "audio/samples.h"
#include "error/error.h"

namespace vesper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostAhead = size_t{60} * kSampleRateHz;

SampleReader in_short_blocks(AudioReader reader) {
  constexpr int kBlocksPerSecond = 20;
  const auto block_frames = static_cast<size_t>(reader.sample_rate_hz() / kBlocksPerSecond);
  return SampleReader(std::move(reader), block_frames);
}

}  // namespace

struct LiveSource::State {
  State(AudioReader source, bool recorded)
      : reader(in_short_blocks(std::move(source))), is_recorded(recorded) {}

  SampleReader reader;  // used by the thread only
  const bool is_recorded;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<float> samples;
  uint64_t n_received = 0;  // samples in all
  Clock::time_point first_came;
  bool has_ended = false;     // no more samples will come
  bool is_abandoned = false;  // no more samples are taken
  std::exception_ptr error;

  void read_to_the_end() {
    for (auto block = reader.next(); !block.empty(); block = reader.next()) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return samples.size() < kMostAhead || is_abandoned; });
      if (is_abandoned) return;  // also while it was read
      if (n_received == 0) first_came = Clock::now();
      n_received += block.size();
      samples.insert(samples.end(), block.begin(), block.end());
      changed.notify_all();
    }
  }
};

LiveSource::LiveSource(AudioReader reader, bool is_recorded)
    : state_(std::make_shared<State>(std::move(reader), is_recorded)) {
  const auto read = [state = state_] {
    std::exception_ptr error;
    try {
      state->read_to_the_end();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(state->mutex);
    if (!state->is_abandoned) state->error = error;
    state->has_ended = true;
    state->changed.notify_all();
  };
  try {
    std::thread(read).detach();
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kDevice,
                std::string("cannot start a thread that reads the stream: ") + error.what());
  }
}

LiveSource::~LiveSource() {
  const std::lock_guard lock(state_->mutex);
  state_->is_abandoned = true;
  state_->changed.notify_all();
}

std::vector<float> LiveSource::take(size_t n, const std::function<bool()>& is_stopped) {
  constexpr std::chrono::milliseconds kUntilAsked{100};
  std::unique_lock lock(state_->mutex);
  n = std::min(n, kMostAhead);
  while (state_->samples.size() < n && !state_->has_ended) {
    if (is_stopped && is_stopped()) {
      state_->is_abandoned = state_->has_ended = true;
    } else {
      state_->changed.wait_for(lock, kUntilAsked);
    }
  }
  if (state_->samples.empty() && state_->error) std::rethrow_exception(state_->error);
  state_->changed.notify_all();
  const auto end =
      state_->samples.begin() + static_cast<std::ptrdiff_t>(std::min(n, state_->samples.size()));
  std::vector<float> taken(state_->samples.begin(), end);
  state_->samples.erase(state_->samples.begin(), end);
  return taken;
}

bool LiveSource::has_more(size_t n) const {
  if (state_->is_recorded) return true;
  constexpr std::chrono::milliseconds kUntilGiven{30};
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, kUntilGiven, [&] {
    return state_->samples.size() >= std::min(n, kMostAhead) || state_->has_ended;
  });
}

bool LiveSource::is_paced() const {
  // A sender may deliver buffered audio at once, and clocks differ.
  constexpr double kKeptSeconds = 2, kFastest = 1.5;
  if (state_->is_recorded) return false;
  const std::lock_guard lock(state_->mutex);
  const std::chrono::duration<double> since = Clock::now() - state_->first_came;
  const double received_s = static_cast<double>(state_->n_received) / kSampleRateHz;
  return received_s <= kKeptSeconds + kFastest * since.count();
}

size_t LiveSource::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->samples.size();
}

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
    const auto start = Clock::now();
    const bool had_window = passes.whole_windows();
    // If more audio is available, the next pass decodes more of the window.
    const bool is_worth_a_look = !source.has_more(step);
    if (is_worth_a_look) passes.beginning();
    if (!is_worth_a_look && !had_window) continue;
    const std::chrono::duration<double> took = Clock::now() - start;
    if (took.count() > options.step_s && options.on_slow && source.is_paced()) {
      const double behind_s = static_cast<double>(source.waiting()) / kSampleRateHz;
      options.on_slow({took.count(), behind_s, had_window});
    }
  }
}

}  // namespace vesper
