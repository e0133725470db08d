// The seam between the program and what transcribes: `transcribe` works against this interface, so
// that everything around the engine can be tested without one.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/windows/language_detection.h"
#include "decoder/windows/live_captions.h"
#include "session/channel_transcription.h"
#include "session/live_passes.h"
#include "vad/speech_segments.h"

namespace vesper {

// What is decided once, when the model is loaded.
struct EngineSettings {
  std::filesystem::path model;   // an existing file or folder
  std::string device = "auto";   // "auto", "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // "auto", "f32", "f16", "bf16" or "int8"
  unsigned threads = 0;          // of the CPU device; 0 takes all cores
  unsigned n_candidates = 1;     // sequences that a window may be decoded with at once
  unsigned batch_size = 1;       // stretches that are decoded at once; above 1 `vad` cuts them
  // Only speech is transcribed: what counts as speech, and the model that finds it.
  std::optional<SpeechSettings> vad;
  std::filesystem::path vad_model;  // an existing file or folder, if `vad` is given
};

// A recording of many, and who is told of it.
struct TranscriptionJob {
  AudioInput input;
  OnSegment on_segment;
  OnProgress on_progress;
  std::function<void(const Transcript& transcript)> on_done;
  // Instead of on_done: a recording that cannot be transcribed leaves the others alone.
  std::function<void(const std::exception& error)> on_failure;
};
// The next one, or none.
using NextJob = std::function<std::optional<TranscriptionJob>()>;

// What a live stream was transcribed to.
struct Captions {
  Transcript transcript;
  std::exception_ptr error = {};  // why the stream could not be read on, if it could not
};

class TranscriptionEngine {
 public:
  virtual ~TranscriptionEngine() = default;

  // One line for --verbose: model, device, precision, threads.
  virtual std::string description() const = 0;

  // Transcribes a recording. Calls on_segment for each
  // segment as soon as it is final, in order, and on_progress with the seconds done and in total
  // (0 if not known yet). Both are called on the calling thread and may throw, which ends the
  // transcription. Throws Error of any kind.
  virtual Transcript transcribe(
      const AudioInput& input, const DecodingSettings& settings,
      const std::function<void(const Segment& segment)>& on_segment,
      const std::function<void(double done_s, double total_s)>& on_progress) = 0;

  // Transcribes many recordings, with the same settings. Asks for the next one when there is room
  // for it, and tells of them in this order, of one after the other: each as transcribe() does.
  // What a callback throws ends all. Throws Error of any kind where no single recording is at
  // fault.
  virtual void transcribe_many(const NextJob& next, const DecodingSettings& settings) {
    while (const std::optional<TranscriptionJob> job = next()) {
      Transcript transcript;
      try {
        transcript = transcribe(job->input, settings, job->on_segment, job->on_progress);
      } catch (const std::exception& error) {
        job->on_failure(error);
        continue;
      }
      job->on_done(transcript);
    }
  }

  // Transcribes a stream while it comes. Throws Error of any kind; but if reading fails after the
  // stream has begun, what came before is transcribed to the end and the error is returned.
  virtual Captions caption(const AudioInput& input, const DecodingSettings& settings,
                           const LiveOptions& options, const LiveEvents& events) = 0;

  // The languages that it may be in, likeliest first. Throws Error of any kind.
  virtual std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                            const DecodingSettings& settings) = 0;
};

// Loads a model. Throws Error(kModel or kDevice).
using EngineLoader =
    std::function<std::unique_ptr<TranscriptionEngine>(const EngineSettings& settings)>;

}  // namespace vesper
