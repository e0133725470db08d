// Transcribes a live stream: samples in as they come, words out as soon as they are final.
//
// In: 16 kHz samples. Out: captions (LiveEvents) and, in the end, the transcript. A full window is
// decoded and cut by the same rules as in a recording (decoder/windows/window_decoder.h), whatever
// was shown of it. Until it is full, its beginning is decoded again and again; words that
// successive guesses agree on are final (decoder/windows/live_captions.h), and the text of the full
// window continues behind them. Called by session/, which has the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "audio/mel.h"
#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/live_captions.h"
#include "decoder/windows/window_decoder.h"

namespace vesper {

class LiveTranscriber {
 public:
  // `model` must outlive this. Throws Error(kUsage) for settings that the model cannot follow.
  LiveTranscriber(WhisperModel& model, const DecodingSettings& settings, LiveEvents events);
  LiveTranscriber(const LiveTranscriber&) = delete;
  LiveTranscriber& operator=(const LiveTranscriber&) = delete;

  // Takes the next samples, [n], 16 kHz.
  void push(const float* samples, size_t n);
  // Decodes the windows that are full and have 0.1 s of sound behind them, so that they are those
  // of the recording. Returns whether there were any.
  bool transcribe_whole_windows();
  // Decodes the beginning of the next window, if it is long enough.
  void transcribe_beginning();
  // Decodes the rest when the stream has ended. Call once.
  Transcript finish();

  // Seconds that were pushed.
  double received_s() const;

 private:
  uint64_t frames_received() const;
  // The log-mel of `n_frames` from the window's start on and of the `n_before` frames before it.
  MelSpectrogram log_mel(uint32_t n_frames, uint64_t& n_before);
  // Encodes the window with `n_frames` of audio. Returns false if it is uniform silence.
  bool encode(uint32_t n_frames);
  // Detects the language of the window that was encoded last: of a full window once, of a beginning
  // until something is final. Returns whether the language is clear.
  bool detect_language(uint32_t n_frames, bool is_whole);
  // With settings_.multilingual: finds the language of the window and the frames that have it.
  uint32_t follow_language(uint32_t n_frames);
  // The task of a guess, which begins with the final tokens.
  DecodeTask guess_task() const;
  // Decodes the beginning of the window, of which `n_frames` have come.
  WindowResult guess(uint32_t n_frames);
  // Decodes a window as a whole, as far as it has one language.
  void transcribe_window(uint32_t n_frames);
  // The words of a guess at the window from `seek` on. `n_given`: tokens after which a word ends.
  std::vector<CaptionWord> words_of(std::span<const int32_t> guess, double end_s, size_t n_given,
                                    uint64_t seek) const;
  // Sets times and probabilities of a guess's words by the cross-attention.
  void time_words(std::span<CaptionWord> words, std::span<const int32_t> guess, uint32_t n_frames);
  // Emits the segments of the window. Words that were shown stay as they were shown.
  void emit_window(const std::vector<Segment>& segments, uint64_t seek, double end_s);
  void emit_segment(Segment segment);
  // The final tokens from `begin` on start the next window, which is `advance_frames` later.
  void carry_over(size_t begin, uint64_t advance_frames);
  // Emits the final words when no window has them.
  void emit_final_words(uint64_t seek, double end_s);
  // Emits the words that may still change.
  void emit_partial(std::span<const CaptionWord> words);

  WhisperModel& model_;
  const DecodingSettings settings_;
  const DecodingSettings guess_settings_;  // without retries, which would cost too much time
  const WindowDecoder decoder_;
  LiveEvents events_;
  LocalAgreement agreement_{settings_.policy};
  RecordingState state_;
  WindowCursor cursor_;
  AudioWindow window_;  // that was encoded last
  // Probabilities of the languages, by first and last frame.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<float>> frame_languages_;

  std::vector<float> samples_;   // from first_sample_ on
  uint64_t first_sample_ = 0;    // a whole number of frames
  uint64_t n_received_ = 0;      // samples
  uint64_t decoded_frames_ = 0;  // of the stream, at the last guess
  float maximum_;                // of all log-mel values so far
  uint32_t end_of_sound_ = 0;    // frames of the window that was encoded last
  std::vector<int32_t> final_;   // tokens that the window's guesses begin with
  double final_end_s_ = 0;       // when they were said, about
  bool has_partial_ = false;     // words that may change were emitted
};

}  // namespace vesper
