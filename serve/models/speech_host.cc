#include "serve/models/speech_host.h"

#include <utility>

namespace vesper {

SpeechHost::SpeechHost(const HostedModel& model, const SpeechSessionOptions& session,
                       const HostOptions& options)
    : thread_(std::make_unique<ModelThread<SpeechSession, RecordingJob>>(
          model, options,
          [path = model.path, session] { return std::make_unique<SpeechSession>(path, session); },
          [this](SpeechSession& loaded, JobQueue<RecordingJob>& queue, RecordingJob first) {
            run_jobs(loaded, queue, std::move(first));
          },
          [](RecordingJob& job, const std::exception&) {
            job.sender.push(JobFailed{std::current_exception()});
          })) {}

bool SpeechHost::push(const std::string& client, RecordingJob job) {
  return thread_->push(client, std::move(job));
}

void SpeechHost::run_jobs(SpeechSession& session, JobQueue<RecordingJob>& queue,
                          RecordingJob first) {
  SpeechOptions options;
  options.decoding.temperatures = first.options->decoding.temperatures;
  std::optional<RecordingJob> next = std::move(first);
  const auto next_job = [&]() -> std::optional<SpeechJob> {
    for (;;) {
      std::optional<RecordingJob> job =
          next ? std::exchange(next, std::nullopt) : queue.pop_if([&](const RecordingJob& waiting) {
            return waiting.options->decoding.temperatures == options.decoding.temperatures;
          });
      if (!job) return std::nullopt;
      if (job->sender.is_cancelled()) continue;
      SpeechJob run;
      run.input = {.path = "the upload", .reader = job->reader, .descriptor = job->file->get()};
      run.options = job->options;
      run.events.on_segment = [sender = job->sender](const Segment& segment) {
        sender.push(SegmentDone{segment});
      };
      run.events.is_cancelled = [sender = job->sender] { return sender.is_cancelled(); };
      // Keeps the file open until the end.
      run.on_done = [this, file = job->file, sender = job->sender](const Transcript& transcript) {
        n_audio_ms += static_cast<uint64_t>(transcript.duration_s * 1000);
        sender.push(TranscriptDone{transcript});
      };
      run.on_failure = [file = job->file, sender = job->sender](const std::exception&) {
        sender.push(JobFailed{std::current_exception()});
      };
      return run;
    }
  };
  try {
    session.transcribe_many(next_job, options,
                            {.in_order = false, .on_round = [this](uint32_t n_windows) {
                               ++n_rounds;
                               n_round_windows += n_windows;
                             }});
  } catch (const std::exception&) {
    // Options that the model refuses: the recording that has them is not started.
    if (!next) throw;
    next->sender.push(JobFailed{std::current_exception()});
  }
}

}  // namespace vesper
