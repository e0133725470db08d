// Extracts the speech of recordings in order, on a thread of its own. Called by JobQueue, while the
// session decodes previous recordings.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "audio/samples.h"
#include "audio/sources/input.h"
#include "vad/extract_speech.h"

namespace vesper {

struct SpeechOptions;

struct OpenRecording {
  SampleReader reader;
  std::shared_ptr<const SpeechOptions> options;  // its own; null: those of the call
};

// The speech of one recording, or of several short ones. Calls `check` between parts of the work;
// it throws if the speech is no longer needed.
using ExtractFrom = std::function<std::vector<ExtractedSpeech>(
    std::vector<OpenRecording> recordings, const std::function<void()>& check)>;

class SpeechExtractor {
 public:
  // The thread waits while the speech of recordings of this length has not been taken: it may be in
  // temporary files, 115 MB an hour.
  static constexpr double kMostAheadS = 1800;
  // Recordings up to this length, 4 MB of samples, are extracted together.
  static constexpr double kShortS = 60;

  class Speech;

  // `n_together`: short recordings that `extract` takes at once. Throws std::system_error if the
  // system refuses a thread.
  SpeechExtractor(ExtractFrom extract, size_t n_together);
  // No Speech may be left.
  ~SpeechExtractor();
  SpeechExtractor(const SpeechExtractor&) = delete;
  SpeechExtractor& operator=(const SpeechExtractor&) = delete;

  // Extracts the speech of `input` after that of all previous inputs. Samples and descriptors of
  // the input must stay while the Speech exists. `reader`: reads `input` already.
  std::unique_ptr<Speech> add(const AudioInput& input, std::optional<SampleReader> reader = {},
                              std::shared_ptr<const SpeechOptions> options = {});

 private:
  struct Recording;

  void run();
  // Extracts the speech of the recordings. Returns their length in seconds.
  double extract(std::span<const std::shared_ptr<Recording>> recordings) const;
  // Speech of this length no longer waits.
  void take(double duration_s);

  const ExtractFrom extract_;
  const size_t n_together_;
  // That are extracted now. Only the thread uses it; its memory is allocated before.
  std::vector<std::shared_ptr<Recording>> next_;
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Recording>> waiting_;
  double ahead_s_ = 0;  // length of the recordings whose speech has not been taken
  bool has_ended_ = false;
  std::thread thread_;
};

class SpeechExtractor::Speech {
 public:
  Speech(SpeechExtractor& extractor, std::shared_ptr<Recording> recording);
  // Stops the extraction of this recording, and waits for that.
  ~Speech();
  Speech(const Speech&) = delete;
  Speech& operator=(const Speech&) = delete;

  // Whether get() does not wait.
  bool is_ready() const;
  // Waits for the speech; once. Calls `check` every 50 ms meanwhile, and throws what it throws.
  // Throws what the extraction has thrown.
  ExtractedSpeech get(const std::function<void()>& check);

 private:
  SpeechExtractor& extractor_;
  const std::shared_ptr<Recording> recording_;
  std::future<ExtractedSpeech> speech_;
};

}  // namespace vesper
