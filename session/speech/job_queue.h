// The recordings of SpeechSession::transcribe_many: the next one is read while one is decoded.
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

// The speech of a recording, extracted on a thread of its own.
class SpeechAhead {
 public:
  // `extract` throws what its argument throws, which it calls after each block. Throws
  // std::system_error if there can be no thread.
  using Extract = std::function<ExtractedSpeech(const std::function<void(double)>& on_progress)>;
  explicit SpeechAhead(Extract extract);
  // Waits until the thread has ended.
  ~SpeechAhead() { is_abandoned_ = true; }
  SpeechAhead(const SpeechAhead&) = delete;
  SpeechAhead& operator=(const SpeechAhead&) = delete;

  // Once. Throws what the extraction has thrown, and what `check` throws, which is called on this
  // thread while it waits.
  ExtractedSpeech get(const std::function<void()>& check);

 private:
  std::atomic<bool> is_abandoned_ = false;
  std::future<ExtractedSpeech> speech_;
};

// A job, and its recording if that is read ahead: as samples or as its speech.
struct OpenedJob {
  SpeechJob job;
  std::optional<SampleReader> reader = {};
  std::unique_ptr<SpeechAhead> speech = {};
};

// The jobs of transcribe_many. The next recording is read while one is decoded.
class JobQueue {
 public:
  using Extract = std::function<ExtractedSpeech(SampleReader reader,
                                                const std::function<void(double)>& on_progress)>;
  // With `extract`, which runs on another thread, the speech of the next recording is extracted.
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
