// Sound in as it comes, words out as soon as they are certain: captions of a live stream.
//
// The walk over windows is that of decoder/windows/transcriber: a window that is full is decoded
// and cut as there, whatever was shown of it, so that what was misheard in haste leads no later
// window astray. Before it is full, its beginning is decoded again and again, and what successive
// guesses agree on is final (decoder/windows/live_captions): later guesses have to begin with it,
// and the text of the full window goes on where it ends. Called by the engine of cli/, which has
// the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "audio/mel.h"
#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/live_captions.h"
#include "decoder/windows/prompt_history.h"
#include "decoder/windows/transcriber.h"

namespace vesper {

class LiveTranscriber {
 public:
  // Throws Error(kUsage) for settings that the model cannot follow.
  LiveTranscriber(WhisperModel& model, Transcriber& transcriber, const DecodingSettings& settings,
                  LiveEvents events);

  // Takes the next samples, [n], 16 kHz.
  void push(const float* samples, size_t n);
  // Decodes the windows that are full. Returns whether there were any.
  bool transcribe_whole_windows();
  // Decodes the beginning of the next one, if it is long enough to say anything.
  void transcribe_beginning();
  // The stream has ended: decodes the rest. Call once.
  Transcript finish();

  // Seconds that were pushed.
  double received_s() const;

 private:
  uint64_t frames_received() const;
  // The log-mel of `n_frames` from seek_ on and a little before them, of which it says how much.
  MelSpectrogram log_mel(uint32_t n_frames, uint64_t& n_before);
  // Encodes the window that begins at seek_ with `n_frames` of sound.
  void encode(uint32_t n_frames);
  // What is spoken in the window that was encoded last. Of a whole one that is the recording's, if
  // none was before; of its beginning it may still change while nothing is final. Returns whether
  // it is clear.
  bool find_language(uint32_t n_frames, bool is_whole);
  // With settings_.multilingual: finds out what is spoken from seek_ on, and for how many of so
  // many frames.
  uint32_t follow_languages(uint32_t n_frames);
  // Of a guess, which begins with what is final.
  DecodeTask task() const;
  // What the window, of which `n_frames` have come, seems to say.
  Transcriber::Decoded guess(uint32_t n_frames);
  // Decodes a window that has come as a whole, as far as it holds one language.
  void transcribe_window(uint32_t n_frames);
  // `n_given`: tokens after which a word ends.
  std::vector<CaptionWord> words_of(std::span<const int32_t> guess, double end_s,
                                    size_t n_given) const;
  // Gives the words of a guess the times at which the model heard them, and how sure it is of them.
  void time_words(std::span<CaptionWord> words, std::span<const int32_t> guess, uint32_t n_frames);
  // What is said of the window in hand: its segments, in the words that are final already as far as
  // there are any.
  void say_window(const WindowSegments& cut, const Transcriber::Decoded& decoded, double end_s);
  void say_segment(Segment segment);
  // What is final from that token on begins the next window, which is so many frames later.
  void carry_over(size_t begin, uint32_t advance_frames);
  // Of final words that no window says again.
  void say_final_alone(double end_s);
  // Says those after the first n_final_ tokens' words.
  void say_partial(std::span<const CaptionWord> words);

  WhisperModel& model_;
  Transcriber& transcriber_;
  DecodingSettings settings_;
  LiveEvents events_;
  PromptHistory history_;
  LocalAgreement agreement_;
  Transcript transcript_;
  std::string language_;  // of the window
  bool language_is_given_ = false;
  bool language_is_found_ = false;  // a whole window said something in language_
  bool is_mixed_ = false;           // the language is followed where it changes
  // What the model says of parts, by their first and last frames.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<float>> part_languages_;

  std::vector<float> samples_;   // from first_sample_ on
  uint64_t first_sample_ = 0;    // a whole number of frames
  uint64_t n_received_ = 0;      // samples
  uint64_t seek_ = 0;            // frame that the window begins with
  bool is_first_ = true;         // no window was decoded as a whole yet
  uint64_t decoded_frames_ = 0;  // of the stream, when its beginning was decoded last
  float maximum_;                // of all log-mel values so far
  uint32_t end_of_sound_ = 0;    // frames from seek_ on, in the window that was encoded last
  std::vector<int32_t> final_;   // tokens that the window's guesses begin with
  double final_end_s_ = 0;       // when they were said, about
  std::vector<float> window_;    // [n_frames, n_mels]
  bool has_partial_ = false;     // something was said that may change
};

}  // namespace vesper
