// Decodes one window of audio and advances the cursor: all rules for windows.
//
// In: an encoded window, its cursor and the state of the recording. Out: the window's text with its
// evidence (WindowResult), its segments, the cursor of the next window and notes of dropped text.
// Called by the three drivers: recording_transcriber (sequential), batch_transcriber (batches) and
// live_transcriber (streams).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audio/mel/mel.h"
#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/attempts/hallucinations.h"
#include "decoder/windows/attempts/window_attempts.h"
#include "decoder/windows/languages/mixed_languages.h"
#include "decoder/windows/window_cursor.h"
#include "decoder/windows/window_segments.h"

namespace vesper {

// Called for each final segment, in order.
using EmitSegment = std::function<void(const Segment& segment)>;

// The search settings for a temperature.
Search search_of(const DecodingSettings& settings, double temperature);
// Sampling seeds: of a window from the user's seed and its first frame, of an attempt from its
// number.
uint32_t window_seed(uint32_t seed, uint64_t seek);
uint32_t attempt_seed(uint32_t window_seed, size_t attempt);

// A decoded window before its words are timed.
struct CutWindow {
  std::vector<Segment> segments;
  bool is_silent = false;              // no segments
  uint64_t next_seek = 0;              // start of the next window by timestamps, in frames
  bool to_the_end = false;             // whether that is the end of this window
  double temperature = 0;              // of the decoded text
  std::optional<AlignmentTask> words;  // if words are timed and there are some
};

class WindowDecoder {
 public:
  // Sets the model's suppressed tokens. Both must outlive this object. Throws Error(kUsage) for
  // settings that the model does not support, such as an unknown language, and for an invalid
  // grammar.
  WindowDecoder(WhisperModel& model, const DecodingSettings& settings);

  WhisperModel& model() const { return model_; }
  const DecodingSettings& settings() const { return settings_; }

  // A recording before decoding, with its language if settings or model determine it.
  RecordingState begin(uint64_t n_content_frames) const;
  WindowCursor cursor(const RecordingState& state, uint64_t begin, uint64_t end) const;

  // ---- Before a window

  // Memory for a window.
  AudioWindow audio_window() const;
  // Whether the window is silent and need not be decoded.
  bool is_uniform_silence(const AudioWindow& window) const;
  // Amplifies a window of a recording whose maximum log10 mel energy is `maximum`, if that is
  // faint.
  void amplify(AudioWindow& window, float maximum) const;

  // Whether windows follow changes of the language.
  bool follows_languages() const;
  // Detects the language of an encoded window in a free slot of a running batch, or without a slot
  // of window 0, and sets the recording's if it is unknown. Returns its probability.
  double detect_language(RecordingState& state, WindowCursor& cursor,
                         std::optional<uint32_t> slot = std::nullopt, uint32_t window = 0) const;
  // The probability of each language in frames of a log-mel, at most a window; empty for silence.
  // Encodes it as window 0.
  std::vector<float> language_probabilities(const MelSpectrogram& mel, const MelFrames& frames,
                                            AudioWindow& window) const;
  // Finds the language of the next window, and limits the window to it. `seek` is the window's
  // first frame in the log-mel of `languages`.
  void follow_language(RecordingState& state, WindowCursor& cursor, MixedLanguages& languages,
                       uint64_t seek) const;

  // ---- One window

  // Prompt and limits of the next window. Valid while this object is.
  DecodeTask task(const WindowCursor& cursor) const;
  // Whether a VAD model finds speech in the next window; absent: none has listened.
  std::optional<bool> has_speech(const RecordingState& state, const WindowCursor& cursor) const;
  // Decodes window 0, at as many temperatures as needed.
  WindowResult decode(const RecordingState& state, const WindowCursor& cursor) const;
  // One attempt at a task, and its judgement. `has_speech`: by a VAD model.
  WindowResult attempt(const DecodeTask& task, double temperature,
                       std::optional<bool> has_speech) const;
  WindowResult judge(DecodeResult decoded, double temperature,
                     std::optional<bool> has_speech) const;

  // ---- After a window

  // Cuts a decoded window, which has the index `encoded`, into segments. Adds dropped text to the
  // transcript.
  CutWindow cut(RecordingState& state, WindowCursor& cursor, const WindowResult& result,
                uint32_t encoded) const;
  // The segments of a cut window. Moves the cursor to the next window. `found` is required if there
  // are words to align.
  std::vector<Segment> advance(const RecordingState& state, WindowCursor& cursor, CutWindow cut,
                               const TokenAlignment* found) const;
  // Both.
  std::vector<Segment> advance(RecordingState& state, WindowCursor& cursor,
                               const WindowResult& result, uint32_t encoded) const;
  // Moves the cursor past a window of uniform silence.
  void skip(WindowCursor& cursor) const;
  // Adds a segment to the transcript, cut by settings.max_segment_length.
  void emit_segment(Transcript& transcript, Segment segment, const EmitSegment& on_segment) const;
  // The transcript after the last window.
  Transcript finish(RecordingState state) const;

  // ---- Tokens

  // Start of transcript, language, task, and no-timestamps without timestamps.
  std::vector<int32_t> start_sequence(const std::string& language) const;
  // Start sequence and text tokens of `ids`, with `n_frames` frames of audio.
  AlignmentTask alignment_task(const std::string& language, std::span<const int32_t> ids,
                               uint32_t n_frames) const;
  std::vector<int32_t> text_tokens(std::span<const int32_t> ids) const;
  std::string text_of(std::span<const int32_t> ids) const;

 private:
  // The code of a language given by code or name. Throws Error(kUsage) if the model does not know
  // it.
  std::string known_language(const std::string& name) const;
  // The bytes of each text token.
  std::vector<std::string_view> token_bytes(std::span<const int32_t> ids) const;
  Segment segment_of(const WindowSegment& part, const WindowResult& result,
                     const WindowCursor& cursor) const;
  // Times the words of the segments in a cut window.
  AfterWindow time_words(CutWindow& cut, const WindowPlace& window,
                         const TokenAlignment* found) const;

  WhisperModel& model_;
  const DecodingSettings& settings_;
  std::optional<GrammarConstraint> grammar_;  // of a window's text
};

}  // namespace vesper
