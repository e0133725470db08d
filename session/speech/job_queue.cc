#include "session/speech/job_queue.h"

#include <chrono>
#include <exception>

#include "audio/sources/input.h"
#include "error/error.h"

namespace vesper {

SpeechAhead::SpeechAhead(Extract extract, SampleReader reader)
    : speech_(std::async(std::launch::async, std::move(extract), std::move(reader), [this](double) {
        if (is_abandoned_) throw_stopped();
      })) {}

ExtractedSpeech SpeechAhead::get(const std::function<void()>& check) {
  while (speech_.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) check();
  return speech_.get();
}

std::optional<OpenedJob> JobQueue::take() {
  if (!is_ahead_) ahead_ = open_next();
  is_ahead_ = false;
  return std::exchange(ahead_, {});
}

void JobQueue::read_ahead() {
  if (std::exchange(is_ahead_, true)) return;
  ahead_ = open_next();
  if (!ahead_ || !is_recorded(ahead_->job.input)) return;
  try {
    check_samples(ahead_->job.input);
    SampleReader reader(open_audio(ahead_->job.input));
    if (extract_) {
      ahead_->speech = std::make_unique<SpeechAhead>(extract_, std::move(reader));
    } else {
      reader.read_ahead();
      ahead_->reader = std::move(reader);
    }
  } catch (const std::exception&) {
    // Its turn opens it again, and reports the failure.
  }
}

std::optional<OpenedJob> JobQueue::open_next() {
  std::optional<SpeechJob> job = has_ended_ ? std::nullopt : next_();
  has_ended_ = !job;
  if (!job) return std::nullopt;
  return OpenedJob{.job = std::move(*job)};
}

}  // namespace vesper
