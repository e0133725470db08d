// The rules that decide which text of a window is kept, and their numbers.
//
// One struct with a switch for every rule beyond openai-whisper, and the numbers of these rules.
// DecodingSettings holds it; window_attempts.h, window_decoder.h and the drivers read it. The
// user's thresholds (no speech, log-probability, compression ratio) are openai-whisper's and are in
// DecodingSettings. docs/decisions/0025, 0027 and 0032 have the measurements behind the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vesper {

struct WindowPolicy {
  // ---- Before a window is decoded.

  // A window with a constant log-mel (digital silence, or 80 dB below the loudest) is not decoded.
  bool skip_uniform_silence = true;
  // A recording whose loudest log10 mel energy is below `faint_level` is amplified to
  // `usual_level`. Speech close to a microphone has -0.7 to 1.9. Measured on 16 announcements 60 dB
  // softer with base: 9 word errors of 210 instead of 42, which is why there is this rule.
  bool amplify_faint_recordings = true;
  double faint_level = -4;
  double usual_level = 1;

  // ---- Silence. Speech is in doubt if the no-speech probability is above `doubtful_share` of the
  // user's threshold, and improbable if it is above the threshold.

  // Share of no_speech_threshold. Measured: speech has up to 0.25 (0.30 if faint, 0.51 in windows
  // without previous text), sounds have 0.33 and more; the threshold is 0.6.
  double doubtful_share = 0.5;
  // If speech is in doubt and the recording has speech segments of a VAD model, they decide: text
  // in a window without speech is silence, other text is only subject to openai-whisper's rule. The
  // rules below are for recordings without a VAD model.
  bool ask_vad = true;
  // If speech is in doubt, repetitive text is silence.
  bool reject_repetitive_text = true;
  // Text is repetitive if `one_loop_share` of its tokens are a run that occurs `one_loop_rounds`
  // times ("No, no, no." is one), or if it compresses too well.
  size_t one_loop_rounds = 3;
  double one_loop_share = 0.75;
  // Up to this multiple of compression_ratio_threshold, probable text may be repeated speech
  // (measured: 2.43 to 2.46; the threshold is 2.4).
  double said_again_share = 1.5;
  // If speech is in doubt, text is silence if its mean log-probability is below
  // `doubtful_logprob_share` of logprob_threshold, or, if speech is improbable, below
  // `improbable_logprob_share` of it.
  bool reject_improbable_text = true;
  double doubtful_logprob_share = 0.9;
  double improbable_logprob_share = 0.3;

  // ---- The attempt at a window that counts.

  // If all attempts fail, the best one counts, not the last one. Text that failed is better than
  // silence at a higher temperature, which makes text less probable.
  bool keep_best_attempt = true;

  // ---- From one window to the next.

  // A recording without speech has no language.
  bool require_speech_for_language = true;
  // A window cut by voice activity does not end more than `speech_end_slack_frames` before its
  // speech. Frames of 10 ms.
  bool hold_until_speech_ends = true;
  uint32_t speech_end_slack_frames = 100;

  // ---- Text between silences (DecodingSettings::hallucination_silence_threshold_s). The rule and
  // its numbers are openai-whisper's, so that they have no switch.

  // The first `anomalous_words` words of a segment have a score: 1 for a word less probable than
  // `improbable_word_probability`, `short_word_weight` for each second that it is shorter than
  // `short_word_s`, and 1 for each second that it is longer than `long_word_s`. Words of a score of
  // `anomalous_score`, or of 1 each, are anomalous.
  size_t anomalous_words = 8;
  double improbable_word_probability = 0.15;
  double short_word_s = 0.133;
  double short_word_weight = 15;
  double long_word_s = 2;
  double anomalous_score = 3;
  // Text that begins or ends less than this from the edge of its window has silence on that side.
  double window_edge_s = 2;

  // ---- Live captions, which openai-whisper does not have.

  // A guess that ends `guess_gap_frames` before the audio is decoded again and has to continue.
  bool extend_guesses = true;
  uint32_t guess_gap_frames = 200;
  // Words with a token less probable than `doubtful_word_probability` are final
  // `doubtful_word_delay_s` seconds later. Measured: 7 of 16 words that changed later had one, of
  // the others one in twenty.
  bool delay_doubtful_words = true;
  double doubtful_word_probability = 0.35;
  double doubtful_word_delay_s = 2;

  // openai-whisper's rules: every rule is off.
  static WindowPolicy reference();
};

// A rule and its name for experiments.
struct WindowRule {
  std::string_view name;
  bool WindowPolicy::*is_on;
};
inline constexpr std::array<WindowRule, 10> kWindowRules = {{
    {"skip-uniform-silence", &WindowPolicy::skip_uniform_silence},
    {"amplify-faint-recordings", &WindowPolicy::amplify_faint_recordings},
    {"ask-vad", &WindowPolicy::ask_vad},
    {"reject-repetitive-text", &WindowPolicy::reject_repetitive_text},
    {"reject-improbable-text", &WindowPolicy::reject_improbable_text},
    {"keep-best-attempt", &WindowPolicy::keep_best_attempt},
    {"require-speech-for-language", &WindowPolicy::require_speech_for_language},
    {"hold-until-speech-ends", &WindowPolicy::hold_until_speech_ends},
    {"extend-guesses", &WindowPolicy::extend_guesses},
    {"delay-doubtful-words", &WindowPolicy::delay_doubtful_words},
}};

// Switches a rule off. Throws Error(kUsage) that lists all rules if there is none of this name.
void disable_rule(WindowPolicy& policy, std::string_view name);

}  // namespace vesper
