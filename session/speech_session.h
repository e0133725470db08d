// SpeechSession: speech to text, the layer that programs, the C API and other users build on.
//
// In: a Whisper model, then recordings as files, pipes, descriptors or samples, and live streams.
// Out: segments, captions and progress by callback, and a Transcript as plain data.
// Called by cli/transcribe and capi/. Calls audio/ (sound), vad/ (speech), decoder/windows (text).
// Every setting and its default is in session/speech_options.h.
//
//   SpeechSession session("models/tiny.en");
//   Transcript transcript = session.transcribe({.path = "talk.wav"});
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

#include "audio/input.h"
#include "decoder/transcript/transcript.h"
#include "decoder/windows/languages/language_detection.h"
#include "decoder/windows/live/live_captions.h"
#include "session/channels.h"
#include "session/live_stream.h"
#include "session/speech_options.h"

namespace vesper {

class WeightProvider;

// Called on the thread that called the session. Each may be absent. What one throws ends the
// transcription, and passes through.
struct SpeechEvents {
  // A segment, as soon as it is final, in order.
  OnSegment on_segment = {};
  // Seconds of the recording: done, and in total.
  OnProgress on_progress = {};
  // Asked between windows, and while sound is read. True ends the transcription by
  // Error(kStopped).
  std::function<bool()> is_cancelled = {};

  // Live captions only. `received_s`: how much of the stream had come by then.
  // Words that stay as they are, in order.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_final = {};
  // Words that may follow the final ones; they replace those of the call before.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_partial = {};
};

// One recording of many.
struct SpeechJob {
  AudioInput input;
  SpeechEvents events = {};
  // The first event of a recording. The last one is on_done, or on_failure for a recording that
  // could not be transcribed, which leaves the others alone.
  std::function<void()> on_start = {};
  std::function<void(const Transcript& transcript)> on_done = {};
  std::function<void(const std::exception& error)> on_failure = {};
};

// What became of a live stream.
struct LiveTranscript {
  Transcript transcript;
  std::exception_ptr error = {};  // why the stream could not be read to its end, if it could not
};

// A recording or a live stream whose samples the caller has piece by piece. It uses its session,
// which must outlive it and transcribes nothing else until finish().
class SpeechStream {
 public:
  struct State;
  explicit SpeechStream(std::unique_ptr<State> state);
  SpeechStream(SpeechStream&&) noexcept;
  ~SpeechStream();

  // Takes the next samples, [n_frames, channels], full scale +-1, any number of frames. With
  // captions the new sound is decoded when a step of it has come. Throws Error(kInput) for samples
  // that are not numbers, or no whole number of frames.
  void push(std::span<const float> interleaved);
  // The stream has ended: decodes the rest. Call once.
  Transcript finish();

 private:
  std::unique_ptr<State> state_;
};

// All functions throw Error(kUsage) naming the setting, what was expected and what was found;
// Error(kInput) for recordings that cannot be read; Error(kDevice).
class SpeechSession {
 public:
  struct State;
  // `model`: a file or folder of any format that llm/weights reads. Throws Error(kModel), too.
  explicit SpeechSession(const std::filesystem::path& model,
                         const SpeechSessionOptions& options = {});
  // The same of files that are open.
  explicit SpeechSession(std::shared_ptr<const WeightProvider> weights,
                         const SpeechSessionOptions& options = {});
  ~SpeechSession();
  SpeechSession(const SpeechSession&) = delete;
  SpeechSession& operator=(const SpeechSession&) = delete;

  // Loads a VAD model, instead of the one before. Throws Error(kModel).
  void load_vad(const std::filesystem::path& model);

  // Device and precision in one line: "cpu (Intel Xeon), bf16".
  std::string description() const;

  Transcript transcribe(const AudioInput& input, const SpeechOptions& options = {},
                        const SpeechEvents& events = {});

  // Transcribes many recordings with the same options. `next` gives the next one, or none, when
  // there is room for it. Events come in this order: all of one recording, then those of the next.
  // A recording's transcript is independent of the others.
  void transcribe_many(const std::function<std::optional<SpeechJob>()>& next,
                       const SpeechOptions& options = {});

  // Transcribes a stream while it comes: with captions of each new word. If reading fails after the
  // stream has begun, what came before is decoded to the end, and the error is returned.
  LiveTranscript transcribe_live(const AudioInput& input, const SpeechOptions& options = {},
                                 const SpeechEvents& events = {}, const LiveOptions& live = {});
  // The same of samples that the caller pushes: with captions every `step_s` seconds of sound, as
  // LiveOptions has it. Without `step_s` the samples are kept (64 KB a second at 16 kHz mono), and
  // finish() does what transcribe() does.
  SpeechStream open_stream(const PcmFormat& format, const SpeechOptions& options = {},
                           const SpeechEvents& events = {}, std::optional<double> step_s = {});

  // The languages that a recording may be in, likeliest first.
  std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                    const SpeechOptions& options = {});

 private:
  std::unique_ptr<State> state_;
};

}  // namespace vesper
