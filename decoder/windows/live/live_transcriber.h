// Transcribes a live stream: words are emitted as soon as they are final.
//
// In: 16 kHz samples. Out: captions (LiveEvents) and finally the transcript. A full window is
// decoded and cut by the rules of recordings (decoder/windows/window_decoder.h), independently of
// the shown words. Before that, its beginning is decoded repeatedly; words that successive guesses
// share are final (decoder/windows/live/live_captions.h), and the text of the full window continues
// after them. Called by session/, which has the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "audio/mel/mel.h"
#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/live/live_captions.h"
#include "decoder/windows/window_decoder.h"

namespace vesper {

// Frames in which a VAD model finds speech, of samples [n], 16 kHz.
using FindSpeech = std::function<std::vector<SpeechSegment>(std::span<const float> samples)>;

class LiveTranscriber {
 public:
  // `model` must outlive this object. Throws Error(kUsage) for settings that the model does not
  // support.
  LiveTranscriber(WhisperModel& model, const DecodingSettings& settings, LiveEvents events,
                  FindSpeech find_speech = {});
  LiveTranscriber(const LiveTranscriber&) = delete;
  LiveTranscriber& operator=(const LiveTranscriber&) = delete;

  // Appends samples, [n], 16 kHz.
  void push(const float* samples, size_t n);
  // Decodes full windows with 0.1 s of audio after them, so that their log-mel equals that of a
  // recording. Returns whether there were any.
  bool transcribe_whole_windows();
  // Decodes the beginning of the next window if it is long enough.
  void transcribe_beginning();
  // Decodes the rest at the end of the stream. Call once.
  Transcript finish();

  // Seconds of all pushed samples.
  double received_s() const;

 private:
  uint64_t frames_received() const;
  // The log-mel of `n_frames` from the start of the window, and of the `n_before` frames before it.
  MelSpectrogram log_mel(uint32_t n_frames, uint64_t& n_before);
  // Encodes the window with `n_frames` of audio. Returns false for uniform silence.
  bool encode(uint32_t n_frames);
  // Detects the language of the last encoded window: of a full window once, of a beginning until a
  // word is final. Returns whether the language is certain.
  bool detect_language(uint32_t n_frames, bool is_whole);
  // With settings_.multilingual: finds the language of the window and its end.
  uint32_t follow_language(uint32_t n_frames);
  // The task of a guess, which begins with the final tokens.
  DecodeTask guess_task() const;
  // Decodes the beginning of the window, of which `n_frames` are available.
  WindowResult guess(uint32_t n_frames);
  // Decodes a full window up to the end of its language.
  void transcribe_window(uint32_t n_frames);
  // The words of a guess at the window from `seek` on. `n_given`: forced tokens, which end with a
  // word.
  std::vector<CaptionWord> words_of(std::span<const int32_t> guess, double end_s, size_t n_given,
                                    uint64_t seek) const;
  // Sets times and probabilities of a guess's words from cross-attention.
  void time_words(std::span<CaptionWord> words, std::span<const int32_t> guess, uint32_t n_frames);
  // Emits the segments of the window. Shown words do not change.
  void emit_window(const std::vector<Segment>& segments, uint64_t seek, double end_s);
  void emit_segment(Segment segment);
  // Emits final words that no window contains.
  void emit_final_words(uint64_t seek, double end_s);
  // Emits words that may still change.
  void emit_partial(std::span<const CaptionWord> words);

  WhisperModel& model_;
  const DecodingSettings settings_;
  const WindowDecoder decoder_;
  LiveEvents events_;
  const FindSpeech find_speech_;
  LocalAgreement agreement_{settings_.policy};
  RecordingState state_;
  WindowCursor cursor_;
  AudioWindow window_;  // the last encoded one
  // Language probabilities, by first and last frame.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<float>> frame_languages_;

  std::vector<float> samples_;   // from first_sample_ on
  uint64_t first_sample_ = 0;    // a multiple of the hop
  uint64_t n_received_ = 0;      // samples
  uint64_t decoded_frames_ = 0;  // of the stream, at the last guess
  float maximum_;                // of all log-mel values
  uint32_t end_of_sound_ = 0;    // frames of the last encoded window
  std::vector<int32_t> final_;   // forced tokens of the window's guesses
  double final_end_s_ = 0;       // their approximate end
  bool has_partial_ = false;     // words that may change were emitted
};

}  // namespace vesper
