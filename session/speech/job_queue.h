// The recordings of SpeechSession::transcribe_many. While one is decoded, the next is read, and its
// speech is extracted if the VAD model can work beside the decoder.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "audio/samples.h"
#include "session/speech/speech_session.h"
#include "vad/extract_speech.h"

namespace vesper {

// Extracts the speech of a recording. Calls `on_progress` after each block, as extract_speech()
// does.
using Extract = std::function<ExtractedSpeech(SampleReader reader,
                                              const std::function<void(double)>& on_progress)>;

// The speech of a recording, extracted on a thread of its own.
class SpeechAhead {
 public:
  // Throws std::system_error if the system refuses a thread.
  SpeechAhead(Extract extract, SampleReader reader);
  // Stops the extraction, and waits until its thread has ended.
  ~SpeechAhead() { is_abandoned_ = true; }
  SpeechAhead(const SpeechAhead&) = delete;
  SpeechAhead& operator=(const SpeechAhead&) = delete;

  // Waits for the speech; once. Calls `check` every 50 ms meanwhile, and throws what it throws.
  // Throws what the extraction has thrown.
  ExtractedSpeech get(const std::function<void()>& check);

 private:
  std::atomic<bool> is_abandoned_ = false;
  std::future<ExtractedSpeech> speech_;
};

// A job. If its recording is read ahead, it has a reader or the speech.
struct OpenedJob {
  SpeechJob job;
  std::optional<SampleReader> reader = {};
  std::unique_ptr<SpeechAhead> speech = {};
};

class JobQueue {
 public:
  // `extract` runs on another thread. Without it, recordings are only read ahead.
  explicit JobQueue(const std::function<std::optional<SpeechJob>()>& next, Extract extract = {})
      : next_(next), extract_(std::move(extract)) {}

  // The next job; none at the end.
  std::optional<OpenedJob> take();
  // Begins to read the next recording, once for each take().
  void read_ahead();

 private:
  std::optional<OpenedJob> open_next();

  const std::function<std::optional<SpeechJob>()>& next_;
  const Extract extract_;
  std::optional<OpenedJob> ahead_;  // none at the end
  bool is_ahead_ = false;           // ahead_ is what take() returns next
  bool has_ended_ = false;
};

}  // namespace vesper
