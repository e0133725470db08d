#include "session/speech/speech_extractor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "error/error.h"
#include "session/speech/speech_options.h"

namespace vesper {

struct SpeechExtractor::Recording {
  Recording(const AudioInput& given, std::optional<SampleReader> given_reader,
            std::shared_ptr<const SpeechOptions> given_options)
      : input(given), reader(std::move(given_reader)), options(std::move(given_options)) {}

  // Throws the errors of open_audio().
  void open() {
    if (reader) return;
    check_samples(input);
    reader.emplace(open_audio(input));
  }

  bool is_short() {
    try {
      open();
    } catch (const std::exception&) {
      return false;  // Its turn throws it again.
    }
    const std::optional<double> duration_s = reader->duration_s();
    return duration_s && *duration_s <= kShortS;
  }

  const AudioInput input;
  std::optional<SampleReader> reader;
  const std::shared_ptr<const SpeechOptions> options;
  std::promise<ExtractedSpeech> speech;
  std::atomic<bool> is_abandoned = false;
};

SpeechExtractor::SpeechExtractor(ExtractFrom extract, size_t n_together)
    : extract_(std::move(extract)), n_together_(n_together) {
  next_.reserve(n_together);
  thread_ = std::thread([this] { run(); });
}

SpeechExtractor::~SpeechExtractor() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::unique_ptr<SpeechExtractor::Speech> SpeechExtractor::add(
    const AudioInput& input, std::optional<SampleReader> reader,
    std::shared_ptr<const SpeechOptions> options) {
  auto recording = std::make_shared<Recording>(input, std::move(reader), std::move(options));
  auto speech = std::make_unique<Speech>(*this, recording);
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(recording));
  }
  changed_.notify_one();
  return speech;
}

void SpeechExtractor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return has_ended_ || (!waiting_.empty() && ahead_s_ < kMostAheadS); });
    if (has_ended_) return;
    const auto n_most = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), n_together_));
    next_.assign(waiting_.begin(), waiting_.begin() + n_most);
    lock.unlock();
    const auto n_short = std::ranges::find_if_not(next_, &Recording::is_short) - next_.begin();
    next_.resize(static_cast<size_t>(std::max<std::ptrdiff_t>(n_short, 1)));
    const double duration_s = extract(next_);
    lock.lock();
    waiting_.erase(waiting_.begin(), waiting_.begin() + std::ssize(next_));
    next_.clear();
    ahead_s_ += duration_s;
  }
}

double SpeechExtractor::extract(std::span<const std::shared_ptr<Recording>> recordings) const {
  const auto check = [&] {
    if (std::ranges::any_of(recordings, [](const auto& each) { return each->is_abandoned.load(); }))
      throw_stopped();
  };
  double duration_s = 0;
  try {
    check();
    std::vector<OpenRecording> open;
    for (const auto& recording : recordings) {
      recording->open();
      open.push_back({*std::exchange(recording->reader, std::nullopt), recording->options});
    }
    std::vector<ExtractedSpeech> extracted = extract_(std::move(open), check);
    for (size_t i = 0; i < recordings.size(); ++i) {
      duration_s += extracted[i].duration_s;
      recordings[i]->speech.set_value(std::move(extracted[i]));
    }
  } catch (...) {
    if (recordings.size() == 1) {
      recordings.front()->speech.set_exception(std::current_exception());
    } else {
      // One has failed.
      for (const auto& recording : recordings) duration_s += extract({&recording, 1});
    }
  }
  return duration_s;
}

void SpeechExtractor::take(double duration_s) {
  {
    const std::lock_guard lock(mutex_);
    ahead_s_ -= duration_s;
  }
  changed_.notify_one();
}

SpeechExtractor::Speech::Speech(SpeechExtractor& extractor, std::shared_ptr<Recording> recording)
    : extractor_(extractor),
      recording_(std::move(recording)),
      speech_(recording_->speech.get_future()) {}

SpeechExtractor::Speech::~Speech() {
  if (!speech_.valid()) return;
  recording_->is_abandoned = true;
  try {
    get([] {});
  } catch (...) {
    // Nobody needs it.
  }
}

bool SpeechExtractor::Speech::is_ready() const {
  return speech_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

ExtractedSpeech SpeechExtractor::Speech::get(const std::function<void()>& check) {
  while (speech_.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) check();
  ExtractedSpeech speech = speech_.get();
  extractor_.take(speech.duration_s);
  return speech;
}

}  // namespace vesper
