// Decodes one window of audio, and moves the cursor behind it: all the rules for windows.
//
// In: a window that was encoded, the cursor before it and what is known of the recording. Out: the
// window's text with the evidence for it (WindowResult), then its segments, the cursor of the next
// window and notes of dropped text. Called by the three drivers: recording_transcriber (one window
// after the other), batch_transcriber (many at once) and live_transcriber (a stream).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audio/mel.h"
#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/hallucinations.h"
#include "decoder/windows/mixed_languages.h"
#include "decoder/windows/window_attempts.h"
#include "decoder/windows/window_cursor.h"
#include "decoder/windows/window_segments.h"

namespace vesper {

// Called for each segment when it is final, in order.
using EmitSegment = std::function<void(const Segment& segment)>;

// The search at that temperature.
Search search_of(const DecodingSettings& settings, double temperature);
// Seeds of the draws: of a window by the user's seed and its first frame, of an attempt by its
// number.
uint32_t window_seed(uint32_t seed, uint64_t seek);
uint32_t attempt_seed(uint32_t window_seed, size_t attempt);

class WindowDecoder {
 public:
  // Tells the model which tokens are never chosen. Both must outlive this. Throws Error(kUsage) for
  // settings that the model cannot follow, such as a language that it does not know.
  WindowDecoder(WhisperModel& model, const DecodingSettings& settings);

  WhisperModel& model() const { return model_; }
  const DecodingSettings& settings() const { return settings_; }

  // A recording of which nothing was decoded; its language, if settings or model say it.
  RecordingState begin(uint64_t n_content_frames) const;
  WindowCursor cursor(const RecordingState& state, uint64_t begin, uint64_t end) const;

  // ---- Before a window

  // Room for a window.
  AudioWindow audio_window() const;
  // Whether there is nothing to hear in the window: it is not to be decoded.
  bool is_uniform_silence(const AudioWindow& window) const;
  // Whether the second look at faint speech would change the window.
  bool is_faint(const AudioWindow& window) const;
  void encode(const AudioWindow& window, uint32_t slot) const;

  // Whether the language is followed where it changes.
  bool follows_languages() const;
  // Makes the language of the window in a free slot of a running batch, or without a slot that of
  // the window in slot 0, the recording's, if it is not found yet. Returns its probability.
  double detect_language(RecordingState& state, WindowCursor& cursor,
                         std::optional<uint32_t> slot = std::nullopt) const;
  // The probability of each language in frames of a log-mel, at most a window; empty if there is
  // nothing to hear. Encodes to slot 0.
  std::vector<float> language_probabilities(const MelSpectrogram& mel, const MelFrames& frames,
                                            AudioWindow& window) const;
  // Finds the language of the next window, and where the window ends, by what is spoken in its
  // frames. `seek`: the window's first frame in the log-mel of `languages`.
  void follow_language(RecordingState& state, WindowCursor& cursor, MixedLanguages& languages,
                       uint64_t seek) const;

  // ---- One window

  // Prompt and limits of the next window.
  DecodeTask task(const WindowCursor& cursor) const;
  // Decodes the window that was encoded to slot 0, with as many attempts as the rules ask for.
  WindowResult decode(AudioWindow& window, RecordingState& state, WindowCursor& cursor) const;
  // The same of a task, without the rules that look at the audio again.
  WindowResult decode(DecodeTask task, const DecodingSettings& settings, uint32_t seed) const;
  WindowResult attempt(const DecodeTask& task, double temperature) const;
  WindowResult judge(DecodeResult decoded, double temperature) const;
  // The state machine of a window's attempts. `settings` must outlive it.
  WindowAttempts attempts(const DecodeTask& task, const DecodingSettings& settings,
                          bool is_faint) const;

  // ---- Behind a window

  // The segments of a decoded window, which is in `slot` if words are timed. Moves the cursor to
  // the next window and notes dropped text in the transcript.
  std::vector<Segment> advance(RecordingState& state, WindowCursor& cursor,
                               const WindowResult& result, uint32_t slot) const;
  // Moves the cursor over a window of uniform silence.
  void skip(WindowCursor& cursor) const;
  // Adds a segment to the transcript, in pieces if settings.max_segment_length asks for it.
  void emit_segment(Transcript& transcript, Segment segment, const EmitSegment& on_segment) const;
  // The transcript when all windows are decoded.
  Transcript finish(RecordingState state) const;

  // ---- Tokens

  // Start of transcript, language, task, and no-timestamps if there are to be none.
  std::vector<int32_t> start_sequence(const std::string& language) const;
  // The start sequence and text tokens of `ids`, of which `n_frames` frames hold audio.
  AlignmentTask alignment_task(const std::string& language, std::span<const int32_t> ids,
                               uint32_t n_frames) const;
  std::vector<int32_t> text_tokens(std::span<const int32_t> ids) const;
  std::string text_of(std::span<const int32_t> ids) const;

 private:
  // The code of a language by its code or name. Throws Error(kUsage) if the model does not know it.
  std::string known_language(const std::string& name) const;
  // The bytes of each text token.
  std::vector<std::string_view> token_bytes(std::span<const int32_t> ids) const;
  // Takes looping text from a window: the next window begins before it, or it is noted as dropped.
  void drop_loop(WindowSegments& window, uint64_t seek, Transcript& transcript) const;
  Segment segment_of(const WindowSegment& part, const WindowResult& result,
                     const WindowCursor& cursor) const;
  // Times the words of the window's segments. `seek`: where the next window begins by timestamps.
  AfterWindow time_words(std::vector<Segment>& segments, const WindowPlace& window, uint32_t slot,
                         uint64_t seek, bool to_the_end) const;

  WhisperModel& model_;
  const DecodingSettings& settings_;
};

}  // namespace vesper
