// The recordings of SpeechSession::transcribe_many. While some are decoded, the next ones are read,
// and their speech is extracted if the VAD model can work beside the decoder.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "audio/samples.h"
#include "session/speech/speech_extractor.h"
#include "session/speech/speech_session.h"

namespace vesper {

// A job. If its recording is read ahead, it has a reader or the speech.
struct OpenedJob {
  SpeechJob job;
  std::optional<SampleReader> reader = {};
  std::unique_ptr<SpeechExtractor::Speech> speech = {};
};

class JobQueue {
 public:
  // Recordings whose speech is extracted ahead: as many as the slots of a large batch.
  static constexpr size_t kMostAhead = 32;

  // `in_order`: `next` is not called again after it returned none. `extract` runs on another
  // thread, with up to `n_together` short recordings. Without it, only one recording is read ahead.
  JobQueue(const std::function<std::optional<SpeechJob>()>& next, bool in_order,
           ExtractFrom extract = {}, size_t n_together = 1);

  // The next job; none if there is none.
  std::optional<OpenedJob> take();
  // Whether the speech of the next job is there, or there is no other job.
  bool is_ready();
  // Begins to read the next recordings.
  void read_ahead();

 private:
  // Appends the next job to ahead_; false if there is none.
  bool pull();
  // Begins to read the recording of a job, unless it is live.
  void read(OpenedJob& job);

  const std::function<std::optional<SpeechJob>()>& next_;
  const bool in_order_;
  std::unique_ptr<SpeechExtractor> extractor_;  // null: recordings are only read ahead
  std::deque<OpenedJob> ahead_;                 // only the last one may be live, and is not read
  bool has_ended_ = false;                      // the last call of next_ returned none
};

}  // namespace vesper
