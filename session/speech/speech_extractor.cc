#include "session/speech/speech_extractor.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "error/error.h"

namespace vesper {

struct SpeechExtractor::Recording {
  const AudioInput input;
  std::promise<ExtractedSpeech> speech = {};
  std::atomic<bool> is_abandoned = false;
};

SpeechExtractor::SpeechExtractor(ExtractFrom extract) : extract_(std::move(extract)) {
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

std::unique_ptr<SpeechExtractor::Speech> SpeechExtractor::add(const AudioInput& input) {
  auto recording = std::make_shared<Recording>(input);
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
    const std::shared_ptr<Recording> recording = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const auto check = [&](double) {
      if (recording->is_abandoned) throw_stopped();
    };
    try {
      check(0);
      ExtractedSpeech speech = extract_(recording->input, check);
      lock.lock();
      ahead_s_ += speech.duration_s;
      recording->speech.set_value(std::move(speech));
    } catch (...) {
      recording->speech.set_exception(std::current_exception());
      lock.lock();
    }
  }
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
