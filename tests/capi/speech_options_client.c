/* Every option of a transcription: its range, its effect, and structs of other sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "speech_client.h"

static const double kFallback[] = {0, 1}, kSampled[] = {1};

/* Whether the options are refused with an error about this setting. */
static int is_refused(vesper_whisper* whisper, const char* stereo,
                      const vesper_transcribe_options* options, const char* setting) {
  vesper_transcript* transcript;
  const vesper_status status =
      vesper_whisper_transcribe_file(whisper, stereo, options, NULL, NULL, &transcript);
  return status == VESPER_ERROR_USAGE && strcmp(vesper_last_error_setting(), setting) == 0 &&
         strstr(vesper_last_error(), setting) == vesper_last_error() && transcript == NULL;
}

#define CHECK_REFUSED(field, value)                                    \
  do {                                                                 \
    tiny_transcribe_options(&options);                                 \
    options.vad = strncmp(#field, "vad_", 4) == 0;                     \
    options.field = value;                                             \
    CHECK(is_refused(whisper, stereo, &options, #field) && #field[0]); \
  } while (0)

const char* check_option_ranges(vesper_whisper* whisper, const char* stereo) {
  static const double falling[] = {2, 1};
  static const char* const rules[] = {"no-such-rule"};
  vesper_transcribe_options options;
  CHECK_REFUSED(language, "klingon");
  CHECK_REFUSED(language_detection_segments, 0);
  CHECK_REFUSED(language_detection_threshold, 1.5);
  CHECK_REFUSED(multilingual, 1); /* with a language */
  CHECK_REFUSED(task, (vesper_task)7);
  CHECK_REFUSED(beam_size, 0);
  CHECK_REFUSED(beam_size, 4000000000u);
  CHECK_REFUSED(patience, NAN);
  CHECK_REFUSED(best_of, 0);
  CHECK_REFUSED(length_penalty, 2);
  CHECK_REFUSED(repetition_penalty, -1);
  CHECK_REFUSED(no_repeat_ngram_size, 1000);
  CHECK_REFUSED(top_k, 4000000000u);
  CHECK_REFUSED(top_p, NAN);
  CHECK_REFUSED(min_p, -0.1);
  CHECK_REFUSED(suppress_regex, "(");
  CHECK_REFUSED(grammar_notation, 5);
  CHECK_REFUSED(max_initial_timestamp_s, INFINITY);
  CHECK_REFUSED(max_new_tokens, 1000);
  CHECK_REFUSED(hallucination_silence_threshold_s, 2); /* without word_timestamps */
  CHECK_REFUSED(max_segment_length, 20);               /* without word_timestamps */
  CHECK_REFUSED(split_on_word, 1);                     /* without max_segment_length */
  CHECK_REFUSED(vad, 1);                               /* without a model */
  CHECK_REFUSED(vad_threshold, 0);
  CHECK_REFUSED(vad_neg_threshold, 2);
  CHECK_REFUSED(vad_min_speech_ms, -1);
  CHECK_REFUSED(vad_min_silence_ms, NAN);
  CHECK_REFUSED(vad_pad_ms, INFINITY);
  CHECK_REFUSED(vad_max_speech_s, 0);
  CHECK_REFUSED(channels, (vesper_channels)3);
  CHECK_REFUSED(channel, 257);
  CHECK_REFUSED(raw_encoding, "u8");

  tiny_transcribe_options(&options);
  options.raw_encoding = "s16le";
  options.raw_sample_rate_hz = 0;
  CHECK(is_refused(whisper, stereo, &options, "raw_sample_rate_hz"));
  options.raw_sample_rate_hz = 16000;
  options.raw_channels = 0;
  CHECK(is_refused(whisper, stereo, &options, "raw_channels"));

  /* Lists */
  tiny_transcribe_options(&options);
  options.clip_timestamps = falling;
  options.n_clip_timestamps = 2;
  CHECK(is_refused(whisper, stereo, &options, "clip_timestamps"));
  options.clip_timestamps = NULL;
  CHECK(is_refused(whisper, stereo, &options, "clip_timestamps"));
  options.n_clip_timestamps = (size_t)-1;
  CHECK(is_refused(whisper, stereo, &options, "clip_timestamps"));
  tiny_transcribe_options(&options);
  options.n_suppress_tokens = 1;
  CHECK(is_refused(whisper, stereo, &options, "suppress_tokens"));
  tiny_transcribe_options(&options);
  options.n_temperatures = 0;
  CHECK(is_refused(whisper, stereo, &options, "temperatures"));
  options.n_temperatures = 2;
  options.temperatures = falling + 0;
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL) == VESPER_OK);
  tiny_transcribe_options(&options);
  options.disabled_rules = rules;
  options.n_disabled_rules = 1;
  CHECK(is_refused(whisper, stereo, &options, "disabled_rules"));
  options.disabled_rules = NULL;
  CHECK(is_refused(whisper, stereo, &options, "disabled_rules"));
  return NULL;
}

/* The transcript as JSON, or NULL. */
static char* json_of(vesper_whisper* whisper, const char* stereo,
                     const vesper_transcribe_options* options) {
  vesper_transcript* transcript;
  char* json = NULL;
  if (vesper_whisper_transcribe_file(whisper, stereo, options, NULL, NULL, &transcript) !=
      VESPER_OK) {
    return NULL;
  }
  if (vesper_transcript_format(transcript, "json", NULL, &json) != VESPER_OK) json = NULL;
  vesper_transcript_free(transcript);
  return json;
}

/* Whether the two options give different transcripts. */
static int differ(vesper_whisper* whisper, const char* stereo, const vesper_transcribe_options* one,
                  const vesper_transcribe_options* other) {
  char* const a = json_of(whisper, stereo, one);
  char* const b = json_of(whisper, stereo, other);
  const int result = a && b && strcmp(a, b) != 0;
  vesper_string_free(a);
  vesper_string_free(b);
  return result;
}

#define CHECK_EFFECT(field, value)                                                \
  do {                                                                            \
    changed = options;                                                            \
    changed.field = value;                                                        \
    CHECK(differ(whisper, stereo, &options, &changed) && #field[0] /* effect */); \
  } while (0)

#define CHECK_EFFECT_FOR_A_SEED(field, value)                                  \
  do {                                                                         \
    int has_effect = 0;                                                        \
    for (options.seed = 0; options.seed < 20 && !has_effect; ++options.seed) { \
      changed = options;                                                       \
      changed.field = value;                                                   \
      has_effect = differ(whisper, stereo, &options, &changed);                \
    }                                                                          \
    CHECK(has_effect&& #field[0]);                                             \
  } while (0)

const char* check_option_effects(vesper_whisper* whisper, const char* stereo) {
  static const char* const rules[] = {"keep-best-attempt"};
  static const double clip[] = {0, 1};
  static char words[4096];
  vesper_transcribe_options options, changed;
  vesper_transcript* transcript;
  int32_t token;
  size_t i;

  /* check_option_ranges() covers patience and length_penalty, which this model does not need. */
  tiny_transcribe_options(&options);
  CHECK(!differ(whisper, stereo, &options, &options));
  CHECK_EFFECT(language, "fr");
  CHECK_EFFECT(task, VESPER_TASK_TRANSLATE);
  CHECK_EFFECT(beam_size, 3);
  CHECK_EFFECT(initial_prompt, "some words");
  CHECK_EFFECT(hotwords, "some words");
  CHECK_EFFECT(prefix, "some words");
  CHECK_EFFECT(suppress_model_tokens, 0);
  CHECK_EFFECT(suppress_regex, ".*e.*");
  CHECK_EFFECT(suppress_numerals, 1);
  CHECK_EFFECT(max_initial_timestamp_s, 0);
  CHECK_EFFECT(without_timestamps, 1);
  CHECK_EFFECT(max_new_tokens, 5);
  CHECK_EFFECT(word_timestamps, 1);
  CHECK_EFFECT(repetition_penalty, 50);
  CHECK_EFFECT(channels, VESPER_CHANNELS_SPLIT);
  CHECK_EFFECT(channels, VESPER_CHANNELS_DIARIZE);
  CHECK_EFFECT(channel, 1);
  CHECK_EFFECT(raw_encoding, "s16le");

  /* Two windows; with timestamps, which are random, the first one ends after the recording. */
  options.without_timestamps = 1;
  CHECK_EFFECT(condition_on_previous_text, 0);
  changed = options;
  changed.clip_timestamps = clip;
  changed.n_clip_timestamps = 2;
  CHECK(differ(whisper, stereo, &options, &changed));
  options.initial_prompt = "some words";
  options.condition_on_previous_text = 0;
  CHECK_EFFECT(carry_initial_prompt, 1);

  /* The tokens of the first window are suppressed. */
  tiny_transcribe_options(&options);
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  token = vesper_transcript_segment(transcript, 0)->tokens[1];
  vesper_transcript_free(transcript);
  changed = options;
  changed.suppress_tokens = &token;
  changed.n_suppress_tokens = 1;
  CHECK(differ(whisper, stereo, &options, &changed));
  changed = options;
  changed.temperatures = kSampled;
  CHECK(differ(whisper, stereo, &options, &changed));

  options.raw_encoding = "s16le";
  options.raw_channels = 2;
  CHECK_EFFECT(raw_sample_rate_hz, 8000);
  CHECK_EFFECT(raw_channels, 1);

  /* Sampling */
  tiny_transcribe_options(&options);
  options.temperatures = kSampled;
  CHECK_EFFECT(seed, 1);
  CHECK_EFFECT(top_k, 1);
  CHECK_EFFECT(top_p, 0.001);
  CHECK_EFFECT(min_p, 0.9);
  /* Which of several samples is best; often it is the same one. */
  options.max_new_tokens = 24;
  CHECK_EFFECT_FOR_A_SEED(best_of, 5);

  /* Fallback to the second temperature */
  tiny_transcribe_options(&options);
  options.temperatures = kFallback;
  options.n_temperatures = 2;
  CHECK_EFFECT(logprob_threshold, -0.001);
  CHECK_EFFECT(compression_ratio_threshold, 0.001);
  options.logprob_threshold = -0.001;
  CHECK_EFFECT(no_speech_threshold, 1e-9);
  CHECK_EFFECT(reference_rules, 0);
  options.reference_rules = 0;
  changed = options;
  changed.disabled_rules = rules;
  changed.n_disabled_rules = 1;
  CHECK(differ(whisper, stereo, &options, &changed));

  /* Words */
  tiny_transcribe_options(&options);
  options.word_timestamps = 1;
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  for (i = 0; i < vesper_transcript_segment(transcript, 0)->n_words; ++i) {
    strcat(words, vesper_transcript_segment(transcript, 0)->words[i].text);
  }
  vesper_transcript_free(transcript);
  CHECK_EFFECT(prepend_punctuations, words);
  CHECK_EFFECT(append_punctuations, words);
  CHECK_EFFECT(max_segment_length, 4);
  CHECK_EFFECT(hallucination_silence_threshold_s, 0.001);
  options.max_segment_length = 4;
  CHECK_EFFECT(split_on_word, 1);

  /* Languages */
  tiny_transcribe_options(&options);
  options.language = "auto";
  CHECK_EFFECT(multilingual, 1);
  CHECK_EFFECT(language_detection_segments, 2);
  options.language_detection_segments = 2;
  CHECK_EFFECT(language_detection_threshold, 0);
  return NULL;
}

/* ---- Structs of other versions */

const char* check_option_sizes(vesper_whisper* whisper, const char* stereo) {
  struct {
    vesper_transcribe_options options;
    uint64_t later[4];
  } newer;
  vesper_transcribe_options options;
  size_t older = offsetof(vesper_transcribe_options, beam_size) / 8 * 8;

  /* An older caller: the rest of its memory is not read or written. */
  memset(&options, 0x5a, sizeof options);
  vesper_transcribe_options_init(&options, older);
  CHECK(options.size == older && options.language_detection_segments == 1);
  CHECK(options.vad == 0x5a5a5a5a);
  options.language = "en";
  options.task = (vesper_task)7;
  CHECK(is_refused(whisper, stereo, &options, "task"));

  /* A newer caller, whose other fields are not set, and then are. */
  memset(&newer, 0x5a, sizeof newer);
  vesper_transcribe_options_init(&newer.options, sizeof newer);
  CHECK(newer.options.size == sizeof newer && newer.later[0] == 0 && newer.later[3] == 0);
  newer.options.language = "klingon";
  CHECK(is_refused(whisper, stereo, &newer.options, "language"));
  newer.later[3] = 1;
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_file(whisper, stereo, &newer.options, NULL, NULL, NULL));
  CHECK(strstr(vesper_last_error(), "vesper_whisper_transcribe_file: options: expected only"));

  /* Sizes that cannot be */
  tiny_transcribe_options(&options);
  options.size = 0;
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL));
  CHECK(strstr(vesper_last_error(), "found the size 0"));
  options.size = sizeof options - 1;
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL));
  options.size = (size_t)-8;
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL));
  memset(&options, 0x5a, sizeof options);
  vesper_transcribe_options_init(&options, 0);
  CHECK(options.vad == 0x5a5a5a5a && strstr(vesper_last_error(), "found 0"));
  vesper_transcribe_options_init(NULL, sizeof options);
  CHECK(strstr(vesper_last_error(), "vesper_transcribe_options_init: options"));
  return NULL;
}
