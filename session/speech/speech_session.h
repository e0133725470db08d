// SpeechSession: speech to text. The programs, the C API and other users build on this layer.
//
// Input: a Whisper model, then recordings (files, pipes, descriptors, samples) and live streams.
// Output: segments, captions and progress by callback, and a Transcript.
// Called by cli/transcribe and capi/. Calls audio/, vad/ and decoder/windows/.
// session/speech/speech_options.h has every setting and its default.
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

#include "audio/samples.h"
#include "audio/sources/input.h"
#include "decoder/transcript/transcript.h"
#include "decoder/windows/languages/language_detection.h"
#include "decoder/windows/live/live_captions.h"
#include "session/speech/channels.h"
#include "session/speech/live_stream.h"
#include "session/speech/speech_options.h"

namespace vesper {

class WeightProvider;

// Called on the thread that called the session. Each may be absent. An exception from a callback
// ends the transcription and is passed to the caller.
struct SpeechEvents {
  // The language of the recording and its probability, 1 if it was given: once, before the first
  // segment; not without segments. With Channels::kSplit those of the first segment's channel.
  std::function<void(const std::string& language, double probability)> on_language = {};
  // A segment, as soon as it is final, in order.
  OnSegment on_segment = {};
  // Seconds of the recording that are done, and its duration.
  OnProgress on_progress = {};
  // Called between windows and while audio is read. If it returns true, the transcription ends with
  // Error(kStopped).
  std::function<bool()> is_cancelled = {};

  // Live captions only. `received_s`: seconds of the stream received so far.
  // Words that will not change, in order.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_final = {};
  // Words that may still change. They replace those of the previous call.
  std::function<void(std::span<const CaptionWord> words, double received_s)> on_partial = {};
};

// One recording of many.
struct SpeechJob {
  AudioInput input;
  // A reader of `input` that has begun to read, for example while the session was loaded. Not with
  // split channels.
  std::optional<SampleReader> reader = {};
  // Its own options; null: those of the call. They must equal those of the call in temperatures,
  // search, suppressed tokens, language detection segments and channels, and have no clips. Wrong
  // ones are a failure of this recording.
  std::shared_ptr<const SpeechOptions> options = {};
  SpeechEvents events = {};
  // Called before all other events of a recording. The last event is on_done, or on_failure if the
  // recording could not be transcribed. A failure does not affect other recordings.
  std::function<void()> on_start = {};
  std::function<void(const Transcript& transcript)> on_done = {};
  std::function<void(const std::exception& error)> on_failure = {};
};

struct ManyOptions {
  // All events of a recording come before those of the next. Otherwise recordings that are decoded
  // together take turns, each ends as soon as it can, and the session asks for others while there
  // is room, even after there was none.
  bool in_order = true;
  // Called before every few steps with the number of windows that are decoded together in them.
  std::function<void(uint32_t n_windows)> on_round = {};
};

// The result of a live stream.
struct LiveTranscript {
  Transcript transcript;
  std::exception_ptr error = {};  // the error that ended reading early, if any
};

// Seconds from the start of a recording.
struct TimeRange {
  double start_s = 0, end_s = 0;
};

// A recording or live stream whose samples the caller pushes. It uses its session, which must
// outlive it and cannot transcribe anything else until finish().
class SpeechStream {
 public:
  struct State;
  explicit SpeechStream(std::unique_ptr<State> state);
  SpeechStream(SpeechStream&&) noexcept;
  ~SpeechStream();

  // Adds samples, [n_frames, channels], full scale +-1; any number of frames. With captions,
  // decodes after each step of audio. Throws Error(kInput) for NaN, infinity and incomplete frames:
  // then none of these samples are used. After another error of a stream with captions, push() and
  // finish() throw Error(kUsage).
  void push(std::span<const float> interleaved);
  // Ends the stream and decodes the rest. Call it once.
  Transcript finish();

 private:
  std::unique_ptr<State> state_;
};

// All functions throw Error(kUsage) with the setting, what was expected and what was found,
// Error(kInput) for recordings that cannot be read, and Error(kDevice).
class SpeechSession {
 public:
  struct State;
  // `model`: a file or folder in any format that llm/weights reads. Also throws Error(kModel).
  explicit SpeechSession(const std::filesystem::path& model,
                         const SpeechSessionOptions& options = {});
  // For files that are already open.
  explicit SpeechSession(std::shared_ptr<const WeightProvider> weights,
                         const SpeechSessionOptions& options = {});
  ~SpeechSession();
  SpeechSession(const SpeechSession&) = delete;
  SpeechSession& operator=(const SpeechSession&) = delete;

  // Loads a VAD model and replaces the previous one; empty: removes it. Throws Error(kModel).
  void load_vad(const std::filesystem::path& model);

  // Device and precision in one line: "cpu (Intel Xeon), bf16".
  std::string description() const;
  // Whether the model knows several languages.
  bool is_multilingual() const;

  Transcript transcribe(const AudioInput& input, const SpeechOptions& options = {},
                        const SpeechEvents& events = {});

  // Transcribes many recordings. `next` is called when there is room for another recording, and
  // returns none at the end; a file is read while the previous recordings are decoded, and on a GPU
  // the speech of up to 32 files of a batch is extracted. With a batch size above 1, windows of
  // several recordings are decoded together, with VAD also of several speech segments of one,
  // unless channels are split or there are clips without VAD. A transcript does not depend on the
  // other recordings; without ManyOptions::in_order the last bits of its probabilities may.
  void transcribe_many(const std::function<std::optional<SpeechJob>()>& next,
                       const SpeechOptions& options = {}, const ManyOptions& many = {});

  // Transcribes a stream as it arrives, with captions. If reading fails in the middle of the
  // stream, decodes what was read and returns the error.
  LiveTranscript transcribe_live(const AudioInput& input, const SpeechOptions& options = {},
                                 const SpeechEvents& events = {}, const LiveOptions& live = {});
  // For samples that the caller pushes. With `step_s`, decodes captions after each `step_s` seconds
  // of audio (see LiveOptions). Without it, keeps all samples (64 KB/s at 16 kHz mono), and
  // finish() does what transcribe() does. `reader`: only the channel counts.
  SpeechStream open_stream(const PcmFormat& format, const SpeechOptions& options = {},
                           const SpeechEvents& events = {}, std::optional<double> step_s = {},
                           const ReaderOptions& reader = {});

  // The possible languages of a recording, the most likely first.
  std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                    const SpeechOptions& options = {},
                                                    const SpeechEvents& events = {});

  // The speech in a recording, by the VAD model. Throws Error(kUsage) if none is loaded. Of the
  // events only is_cancelled is called.
  std::vector<TimeRange> find_speech(const AudioInput& input, const SpeechSettings& settings = {},
                                     const SpeechEvents& events = {});

 private:
  std::unique_ptr<State> state_;
};

}  // namespace vesper
