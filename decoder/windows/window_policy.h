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

  // ---- Silence. Speech is in doubt if the no-speech probability is above `doubtful_share` of the
  // user's threshold, and improbable if it is above the threshold.

  // Share of no_speech_threshold. Measured: speech has up to 0.25 (0.30 if faint, 0.51 in windows
  // without previous text), sounds have 0.33 and more; the threshold is 0.6.
  double doubtful_share = 0.5;
  // If speech is in doubt, text without a letter or digit is silence.
  bool reject_wordless_text = true;
  // If speech is in doubt, text that repeats like inventions is silence.
  bool reject_repetitive_text = true;
  // Such a text is a loop, or `one_loop_share` of its tokens are a run that comes `one_loop_rounds`
  // times (of tokens, so that "No, no, no." is such a text), or it compresses too well.
  size_t one_loop_rounds = 3;
  double one_loop_share = 0.75;
  // Up to this multiple of compression_ratio_threshold a probable text may be what somebody said
  // several times (measured: 2.43 to 2.46; the threshold is 2.4).
  double said_again_share = 1.5;
  // If speech is in doubt, text is silence if its mean log-probability is below
  // `doubtful_logprob_share` of logprob_threshold, or, if speech is improbable, below
  // `improbable_logprob_share` of it.
  bool reject_improbable_text = true;
  double doubtful_logprob_share = 0.9;
  double improbable_logprob_share = 0.3;

  // ---- The attempt at a window that counts.

  // A loop (at least `loop_rounds` repetitions and `loop_tokens` tokens) is a failure, like a high
  // compression ratio.
  bool fail_loops = true;
  size_t loop_rounds = 4;  // somebody may say a sentence three times
  size_t loop_tokens = 20;
  // A window that fails with previous text is decoded again without it before the temperature
  // rises. Silence with previous text must also be silence without it.
  bool retry_without_prompt = true;
  // If all attempts fail, the best one counts, not the last one.
  bool keep_best_attempt = true;
  // Repetitive text of a window whose speech is in doubt, but not improbable, is decoded at higher
  // temperatures before the window is silence. Then only text above `convincing_logprob_share` of
  // logprob_threshold counts.
  bool retry_doubtful_loops = true;
  double convincing_logprob_share = 0.5;
  // A less probable attempt at a higher temperature does not turn accepted text that failed into
  // silence.
  bool keep_believed_text = true;
  // An attempt without doubt confirms an earlier one that only the no-speech probability rejected.
  bool confirm_doubted_text = true;
  // Text that omits most of the speech is decoded again without previous text: a segment of at
  // least `sparse_segment_s` seconds with fewer than `sparse_tokens_per_second` (speech has 3, slow
  // speech 2). The second text counts if it has `sparse_gain` times as many tokens.
  bool retry_sparse_text = true;
  double sparse_segment_s = 10;
  double sparse_tokens_per_second = 1.2;
  double sparse_gain = 1.5;
  // A faint window is decoded once more at usual loudness before it is silence. Log10 mel energy:
  // the maximum of a faint window is below `faint_level`; speech close to a microphone reaches
  // `usual_level` (measured: -0.7 to 1.9).
  bool amplify_faint_speech = true;
  double faint_level = 0;
  double usual_level = 1;

  // ---- From one window to the next.

  // Text that loops in every attempt is dropped, unless every attempt ends with an end token
  // (people chant). Text of more than `loop_retry_s` seconds before the loop is kept, and a new
  // window begins after it.
  bool drop_loops = true;
  double loop_retry_s = 5;
  // After a window without text the next one begins at least this much later. Frames of 10 ms.
  bool advance_past_silence = true;
  uint32_t least_advance_frames = 100;
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
inline constexpr std::array<WindowRule, 18> kWindowRules = {{
    {"skip-uniform-silence", &WindowPolicy::skip_uniform_silence},
    {"reject-wordless-text", &WindowPolicy::reject_wordless_text},
    {"reject-repetitive-text", &WindowPolicy::reject_repetitive_text},
    {"reject-improbable-text", &WindowPolicy::reject_improbable_text},
    {"fail-loops", &WindowPolicy::fail_loops},
    {"retry-without-prompt", &WindowPolicy::retry_without_prompt},
    {"keep-best-attempt", &WindowPolicy::keep_best_attempt},
    {"retry-doubtful-loops", &WindowPolicy::retry_doubtful_loops},
    {"keep-believed-text", &WindowPolicy::keep_believed_text},
    {"confirm-doubted-text", &WindowPolicy::confirm_doubted_text},
    {"retry-sparse-text", &WindowPolicy::retry_sparse_text},
    {"amplify-faint-speech", &WindowPolicy::amplify_faint_speech},
    {"drop-loops", &WindowPolicy::drop_loops},
    {"advance-past-silence", &WindowPolicy::advance_past_silence},
    {"require-speech-for-language", &WindowPolicy::require_speech_for_language},
    {"hold-until-speech-ends", &WindowPolicy::hold_until_speech_ends},
    {"extend-guesses", &WindowPolicy::extend_guesses},
    {"delay-doubtful-words", &WindowPolicy::delay_doubtful_words},
}};

// Switches a rule off. Throws Error(kUsage) that lists all rules if there is none of this name.
void disable_rule(WindowPolicy& policy, std::string_view name);

}  // namespace vesper
