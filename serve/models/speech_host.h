// A Whisper model of the server. In: recordings of many connections. Out: segments and transcripts.
// Recordings with equal temperatures are decoded in one call, in batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "serve/models/event_queue.h"
#include "serve/models/model_thread.h"
#include "serve/models/text_host.h"
#include "session/speech/speech_session.h"

namespace vesper {

struct SegmentDone {
  Segment segment = {};
};
struct TranscriptDone {
  Transcript transcript = {};
};
using SpeechEvent = std::variant<SegmentDone, TranscriptDone, JobFailed>;

// One recording.
struct RecordingJob {
  std::shared_ptr<UniqueFd> file = {};  // read from its beginning
  ReaderOptions reader = {};
  std::shared_ptr<const SpeechOptions> options = {};
  EventSender<SpeechEvent> sender;
};

class SpeechHost {
 public:
  SpeechHost(const HostedModel& model, const SpeechSessionOptions& session,
             const HostOptions& options);

  const HostedModel& hosted() const { return thread_->model(); }
  ModelThread<SpeechSession, RecordingJob>& thread() { return *thread_; }
  // false: the queue is full.
  bool push(const std::string& client, RecordingJob job);

  std::atomic<uint64_t> n_audio_ms = 0;  // of finished recordings
  // Rounds of a few steps that decode windows together, and the windows of each.
  std::atomic<uint64_t> n_rounds = 0, n_round_windows = 0;

 private:
  void run_jobs(SpeechSession& session, JobQueue<RecordingJob>& queue, RecordingJob first);

  std::unique_ptr<ModelThread<SpeechSession, RecordingJob>> thread_;
};

}  // namespace vesper
