// A recording's log-mel in, its segments out: the walk over 30 s windows of openai-whisper's
// transcribe.py, which says nothing where nothing was said.
//
// Each window is decoded with the text before it as a prompt; its timestamps say which segments it
// has and where the next window begins. Called by the programs; of what one window yields,
// decoder/windows/window_segments.h makes segments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
#include "decoder/windows/language_detection.h"
#include "decoder/windows/mixed_languages.h"
#include "decoder/windows/prompt_history.h"
#include "decoder/windows/speech_evidence.h"
#include "decoder/windows/window_segments.h"
#include "vad/speech_segments.h"

namespace vesper {

// One recording of many, in stretches that do not know of one another.
struct BatchRecording {
  std::shared_ptr<const MelSpectrogram> mel;  // finished; let go when no window is left
  std::vector<SpeechSegment> stretches;       // rising, not overlapping
  // Called in the order of the recordings: of one, nothing before the end of the one before it.
  std::function<void(const Segment&)> on_segment;
  std::function<void(double done_s, double total_s)> on_progress;
  std::function<void(Transcript)> on_end;
};
using NextRecording = std::function<std::optional<BatchRecording>()>;

// What a window is searched with at that temperature.
Search search_of(const DecodingSettings& settings, double temperature);
// Of the draws: by the user's seed and the window's place among the recording's, and by the
// attempt.
uint32_t window_seed(uint32_t seed, uint64_t seek);
uint32_t attempt_seed(uint32_t window_seed, size_t attempt);

class Transcriber {
 public:
  explicit Transcriber(WhisperModel& model) : model_(model) {}

  // `mel` is finished and has the model's number of mels. Calls on_segment for each segment as soon
  // as it is final, in order, and on_progress with the seconds done and in total. Throws
  // Error(kUsage) for settings that the model cannot follow (a language it does not know).
  Transcript transcribe(const MelSpectrogram& mel, const DecodingSettings& settings,
                        const std::function<void(const Segment&)>& on_segment,
                        const std::function<void(double done_s, double total_s)>& on_progress);

  // The same of stretches that do not know of one another, as many at once as the model has room
  // for: each is transcribed as if it were all there is, with its own text before each window, so
  // that its segments do not depend on the others. They rise and do not overlap; segments are
  // handed on in order.
  Transcript transcribe_stretches(
      const MelSpectrogram& mel, std::span<const SpeechSegment> stretches,
      const DecodingSettings& settings, const std::function<void(const Segment&)>& on_segment,
      const std::function<void(double done_s, double total_s)>& on_progress);

  // The same of recordings that come one after the other: the next is asked for when no window of
  // those before it waits, until there is none. What is found in one does not depend on the others.
  void transcribe_batch(const DecodingSettings& settings, const NextRecording& next);

  // The languages that the recording may be in, likeliest first, by up to
  // settings.language_detection_segments windows from its beginning or its first clip's on. Throws
  // Error(kUsage) if the model knows English only.
  std::vector<LanguageProbability> detect_languages(const MelSpectrogram& mel,
                                                    const DecodingSettings& settings);

 private:
  // The same walk over a recording that has not come yet.
  friend class LiveTranscriber;
  class Batch;

  // A prompt that came from a window decoded above this temperature does more harm than good.
  static constexpr double kTrustworthyTemperature = 0.5;

  struct Language {
    std::string code;
    double probability;
  };
  // What was found in a window.
  struct Decoded {
    DecodeResult result;
    double temperature = 0;
    WindowEvidence evidence;
    bool is_silent = false;  // by is_silent of decoder/windows/speech_evidence.h
    bool is_alone = false;   // decoded without the text before the window
    bool is_chant = false;   // it loops however it is decoded: somebody does say it many times
  };

  // What is transcribed, and what is known of it.
  struct Recording {
    const MelSpectrogram& mel;
    const DecodingSettings& settings;
    Transcript transcript;
    bool language_is_found = false;
    bool is_mixed = false;                         // no window goes on where the language changes
    std::vector<float> window = {};                // [n_frames, n_mels], as it was encoded last
    std::optional<MixedLanguages> languages = {};  // of the stretch in hand, if it is mixed
  };
  // Where the walk over a stretch of it is.
  struct Walk {
    uint64_t seek, end;  // frames: of the next window, of the stretch
    PromptHistory history;
    std::string language;
    double last_speech_s = 0;  // where the speech before ended, if words are timed
    bool is_first = false;     // nothing of the recording was decoded yet
    uint64_t limit = 0;        // frame: the next window ends there at the latest
  };

  // Throws Error(kUsage) for a language that the model does not know.
  Recording begin(const MelSpectrogram& mel, const DecodingSettings& settings);
  Walk walk_of(const Recording& recording, uint64_t begin, uint64_t end, bool is_first) const;
  uint32_t n_frames(const Walk& walk) const;
  // Makes what was found of the next window's language that of a walk: of the transcript too, where
  // no language was found before.
  static void go_on_in(const MixedLanguages::Spoken& spoken, bool language_is_found,
                       std::string& language, PromptHistory& history, Transcript& transcript);
  // Finds out what is spoken from the walk's next window on, and for how long.
  void follow_languages(Recording& recording, Walk& walk);
  // Encodes the walk's next window to `place`. False if there was nothing in it: the walk has gone
  // on, past it.
  bool encode_window(Recording& recording, Walk& walk, uint32_t place);
  // The task of the window that was encoded last, whose language is detected if none is found: in
  // the free place of a running batch that it was encoded to, or with the decoder at rest.
  DecodeTask task_of_window(Recording& recording, Walk& walk,
                            std::optional<uint32_t> place = std::nullopt);
  // Decodes the window that was encoded last, to place 0, with every means.
  Decoded decode_window(Recording& recording, Walk& walk, const DecodeTask& task);
  // What a decoded window says. The walk goes on behind it.
  std::vector<Segment> finish_window(Recording& recording, Walk& walk, const Decoded& decoded,
                                     uint32_t place);
  // Says that nothing is found in a window; the walk goes on behind it.
  void skip_window(Recording& recording, Walk& walk, const Decoded& decoded) const;
  // Hands a segment on, in pieces if that is wanted.
  void hand_on(Recording& recording, Segment segment,
               const std::function<void(const Segment&)>& on_segment) const;

  // The language of the window in a free place of a running batch; without a place, of the window
  // in place 0, with the decoder at rest.
  Language detect_language(std::optional<uint32_t> place = std::nullopt);
  // What the model says of the languages in a part of a log-mel, at most a window of it; empty if
  // it is uniform there. `window`: room for a window. With the decoder at rest.
  std::vector<float> languages_in(const MelSpectrogram& mel, const MelFrames& part,
                                  std::vector<float>& window);
  // The place of a language among whisper_languages().
  static size_t number_of_language(const std::string& code);
  // Throws Error(kUsage) if languages are to be followed and the model knows one.
  void require_languages(const DecodingSettings& settings) const;
  // The code of a language by its code or name. Throws Error(kUsage) if the model knows it not.
  std::string known_language(const std::string& name) const;
  // Start of transcript, language and task, and no-timestamps if there are to be none.
  std::vector<int32_t> start_sequence(const std::string& language,
                                      const DecodingSettings& settings) const;

  // Prompt and limits of a window.
  DecodeTask task_for(const PromptHistory& history, const std::string& language, bool is_first,
                      const DecodingSettings& settings) const;
  // Decodes the window that was encoded last, and once more without the text before it if it seems
  // to be left out for the most part. `seed` is the window's own.
  Decoded decode(const DecodeTask& task, const DecodingSettings& settings, uint32_t seed);
  // Decodes it at one temperature after another until the result passes the thresholds; after the
  // first without the text before it. If none passes, the result is the best of all (in the
  // reference the last).
  Decoded decode_until_passed(DecodeTask task, const DecodingSettings& settings, uint32_t seed);
  Decoded attempt(const DecodeTask& task, double temperature, const DecodingSettings& settings);
  // Judges what a search at that temperature has found.
  Decoded judge(DecodeResult result, double temperature, const DecodingSettings& settings) const;
  // Whether something was said and no threshold speaks against what was found.
  static bool passes(const Decoded& decoded, const DecodingSettings& settings);
  // Takes from a window's segments what only goes round: its rest becomes the next window's, or is
  // noted as dropped.
  void drop_loop(WindowSegments& window, uint64_t seek, Transcript& transcript) const;
  // The tokens that are text.
  std::vector<int32_t> spoken(const std::vector<int32_t>& ids) const;
  // Tells the decoder which tokens it may not choose.
  void suppress(const DecodingSettings& settings);
  // A window's place among the recording's, and the user's seed, in one number.
  static uint32_t window_seed(const DecodingSettings& settings, uint64_t seek);
  // A part of a window as a segment, without what the window knows of itself: id, seek, language.
  Segment segment_of(const WindowSegment& part, const Decoded& decoded) const;
  std::string text_of(const std::vector<int32_t>& ids) const;
  // The bytes of each text token.
  std::vector<std::string_view> spelled(const std::vector<int32_t>& ids) const;
  // Gives the words to the segments of the window in that place.
  void add_word_times(std::vector<Segment>& segments, const WindowPlace& window, uint32_t place,
                      const DecodingSettings& settings);
  // Does that, and takes out what was made up if that is wanted. `seek` is where the next window
  // begins as far as timestamps tell.
  AfterWindow time_window(std::vector<Segment>& segments, const WindowPlace& window, uint32_t place,
                          uint64_t seek, bool to_the_end, const DecodingSettings& settings);
  // The segment, cut up if that is wanted.
  std::vector<Segment> pieces_of(Segment segment, const DecodingSettings& settings) const;

  WhisperModel& model_;
};

}  // namespace vesper
