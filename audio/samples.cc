#include "audio/samples.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "audio/block_worker.h"

namespace vesper {

struct SampleReader::State {
  struct Block {
    std::vector<float> samples;    // 16 kHz
    uint64_t n_frames_so_far = 0;  // read from the recording, with this block
  };

  State(AudioReader from, size_t most_frames)
      : reader(std::move(from)), resampler(reader.sample_rate_hz()), block_frames(most_frames) {}

  ~State() {
    {
      const std::lock_guard lock(mutex);
      is_abandoned = true;
      changed.notify_all();
    }
    if (thread.joinable()) thread.join();
  }

  // Reads the next frames at the rate of the recording; fewer than block_frames only at the end.
  size_t read_frames(std::vector<float>& to) {
    to.resize(block_frames);
    return reader.read(to.data(), to.size());
  }

  void start_next_frames() {
    if (block_frames < kBlockFrames) return;  // takes less time than the start of a thread
    try {
      n_next = std::async(std::launch::async, [this] { return read_frames(next_frames); });
    } catch (const std::system_error&) {
      // There can be no thread. The next call reads.
    }
  }

  // Reads until there are samples, or to the end. The following frames are read meanwhile.
  void read(Block& block) {
    block.samples.clear();
    while (block.samples.empty() && !has_ended) {
      const size_t n = n_next.valid() ? n_next.get() : read_frames(next_frames);
      std::swap(frames, next_frames);
      n_frames_read += n;
      has_ended = n < block_frames;
      if (!has_ended) start_next_frames();
      resampler.push(frames.data(), n, block.samples);
      if (has_ended) resampler.finish(block.samples);
    }
    block.n_frames_so_far = n_frames_read;
  }

  // On the thread.
  void read_all() {
    try {
      while (true) {
        Block block;
        read(block);
        const bool is_end = block.samples.empty();
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return n_ahead < kMostSamplesAhead || is_abandoned; });
        if (is_abandoned) return;
        n_ahead += block.samples.size();
        ahead.push_back(std::move(block));
        changed.notify_all();
        if (is_end) return;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }

  // The next block that the thread has read.
  void take_ahead() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !ahead.empty() || error; });
    if (ahead.empty()) std::rethrow_exception(error);
    current = std::move(ahead.front());
    if (current.samples.empty()) return;  // The end stays for later calls.
    ahead.pop_front();
    n_ahead -= current.samples.size();
    changed.notify_all();
  }

  AudioReader reader;
  Resampler resampler;
  const size_t block_frames;
  uint64_t n_frames_read = 0;
  bool has_ended = false;
  Block current;                           // of the last next()
  std::vector<float> frames, next_frames;  // of the recording
  std::future<size_t> n_next;              // read into next_frames; invalid: nothing is being read

  std::mutex mutex;  // of everything below, while the thread runs
  std::condition_variable changed;
  std::deque<Block> ahead;
  size_t n_ahead = 0;  // samples in it
  bool is_abandoned = false;
  std::exception_ptr error;  // of the thread, after the blocks in `ahead`
  std::thread thread;
};

SampleReader::SampleReader(AudioReader reader, size_t block_frames)
    : state_(std::make_unique<State>(std::move(reader), block_frames)) {}
SampleReader::SampleReader(SampleReader&&) noexcept = default;
SampleReader& SampleReader::operator=(SampleReader&&) noexcept = default;
SampleReader::~SampleReader() = default;

void SampleReader::read_ahead() {
  if (state_->thread.joinable()) return;
  try {
    state_->thread = std::thread([state = state_.get()] { state->read_all(); });
  } catch (const std::system_error&) {
    // next() reads.
  }
}

std::span<const float> SampleReader::next() {
  if (state_->thread.joinable()) {
    state_->take_ahead();
  } else {
    state_->read(state_->current);
  }
  return state_->current.samples;
}

std::optional<double> SampleReader::duration_s() const {
  const AudioReader& reader = state_->reader;
  const std::optional<uint64_t> n_frames = reader.frames_if_known();
  if (!n_frames) return std::nullopt;
  return static_cast<double>(*n_frames) / reader.sample_rate_hz();
}

double SampleReader::progress() const {
  const auto frames = state_->reader.frames_if_known();
  if (!frames || *frames == 0) return 0.0;
  return std::min(
      1.0, static_cast<double>(state_->current.n_frames_so_far) / static_cast<double>(*frames));
}

std::optional<SampleReader> begin_reading(const AudioInput& input) {
  if (!is_recorded(input)) return std::nullopt;
  try {
    SampleReader reader(open_audio(input));
    reader.read_ahead();
    return reader;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::vector<float> read_samples(const std::string& path, ReaderOptions options) {
  return read_samples(SampleReader(AudioReader(path, options)));
}

std::vector<float> read_samples(SampleReader blocks) {
  std::vector<float> samples;
  for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
    samples.insert(samples.end(), block.begin(), block.end());
  }
  return samples;
}

MelSpectrogram read_log_mel(SampleReader blocks, int n_mels, std::span<const float> filters,
                            const std::function<void(double)>& on_progress) {
  MelSpectrogram mel(n_mels, filters);
  BlockWorker transform([&](auto block) { mel.push(block.data(), block.size()); });
  for (auto block = blocks.next(); !block.empty(); block = blocks.next()) {
    transform.push(block);
    if (on_progress) on_progress(blocks.progress());
  }
  transform.finish();
  mel.finish();
  return mel;
}

}  // namespace vesper
