#include "session/speech/job_queue.h"

#include <system_error>
#include <utility>

#include "audio/sources/input.h"

namespace vesper {
namespace {

bool is_read_ahead(const OpenedJob& job) { return job.reader || job.speech; }

}  // namespace

JobQueue::JobQueue(const std::function<std::optional<SpeechJob>()>& next, bool in_order,
                   ExtractFrom extract, size_t n_together)
    : next_(next), in_order_(in_order) {
  if (!extract) return;
  try {
    extractor_ = std::make_unique<SpeechExtractor>(std::move(extract), n_together);
  } catch (const std::system_error&) {
    // There can be no thread. Recordings are only read ahead.
  }
}

std::optional<OpenedJob> JobQueue::take() {
  if (extractor_) {
    read_ahead();
  } else if (ahead_.empty()) {
    pull();
  }
  if (ahead_.empty()) return std::nullopt;
  OpenedJob job = std::move(ahead_.front());
  ahead_.pop_front();
  return job;
}

bool JobQueue::is_ready() {
  if (!extractor_) return true;
  read_ahead();
  return ahead_.empty() || (ahead_.front().speech && ahead_.front().speech->is_ready());
}

void JobQueue::read_ahead() {
  const size_t n_most = extractor_ ? kMostAhead : 1;
  // The extractor must be idle when the caller reads a live recording.
  while (ahead_.size() < n_most && (ahead_.empty() || is_read_ahead(ahead_.back())) && pull()) {
    read(ahead_.back());
  }
}

bool JobQueue::pull() {
  if (has_ended_ && in_order_) return false;
  std::optional<SpeechJob> job = next_();
  has_ended_ = !job;
  if (has_ended_) return false;
  std::optional<SampleReader> reader = std::exchange(job->reader, std::nullopt);
  ahead_.push_back({.job = std::move(*job), .reader = std::move(reader)});
  return true;
}

void JobQueue::read(OpenedJob& job) {
  const AudioInput& input = job.job.input;
  if (!extractor_) {
    if (!job.reader) job.reader = begin_reading(input);
  } else if (is_recorded(input)) {
    job.speech = extractor_->add(input, std::exchange(job.reader, std::nullopt), job.job.options);
  }
}

}  // namespace vesper
