/* Every function, and bad arguments. The options are in speech_options_client.c. */
#include "speech_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const double kGreedy[] = {0};

void tiny_transcribe_options(vesper_transcribe_options* options) {
  vesper_transcribe_options_init(options, sizeof *options);
  options->language = "en";
  options->max_new_tokens = 12;
  options->temperatures = kGreedy;
  options->n_temperatures = 1;
  options->beam_size = 1;
  options->best_of = 1;
  options->no_speech_threshold = options->logprob_threshold = NAN;
  options->compression_ratio_threshold = NAN;
  options->reference_rules = 1;
}

void tiny_whisper_options(vesper_whisper_options* options) {
  vesper_whisper_options_init(options, sizeof *options);
  options->load.device = "cpu";
  options->load.compute = "f32";
  options->load.threads = 1;
  options->vad_model = "";
}

/* ---- What callbacks got */

struct Heard {
  int n_segments, n_progress, n_languages, n_final, n_partial, n_transcripts, n_failures;
  int stop_after; /* segments or transcripts; 0: never */
  double last_done_s, total_s;
  size_t n_tokens;
  char language[8];
  double probability;
};

/* Comes once, before the first segment. */
static void on_language(const char* language, double probability, void* user) {
  struct Heard* heard = user;
  heard->n_languages += heard->n_segments == 0 ? 1 : 100;
  strncpy(heard->language, language, sizeof heard->language - 1);
  heard->probability = probability;
}

static int on_segment(const vesper_segment* segment, void* user) {
  struct Heard* heard = user;
  if (segment->id != heard->n_segments || segment->end_s < segment->start_s) return 99;
  if (strcmp(segment->language, "en") != 0) return 99;
  heard->n_tokens += segment->n_tokens;
  return ++heard->n_segments == heard->stop_after;
}

static void on_progress(double done_s, double total_s, void* user) {
  struct Heard* heard = user;
  ++heard->n_progress;
  heard->last_done_s = done_s;
  heard->total_s = total_s;
}

static void on_final(const vesper_caption_word* words, size_t n_words, double received_s,
                     void* user) {
  struct Heard* heard = user;
  if (n_words > 0 && words[0].end_s >= words[0].start_s && received_s > 0) ++heard->n_final;
}

static void on_partial(const vesper_caption_word* words, size_t n_words, double received_s,
                       void* user) {
  struct Heard* heard = user;
  (void)words, (void)n_words;
  if (received_s > 0) ++heard->n_partial;
}

static int on_transcript(size_t index, vesper_transcript* transcript, vesper_status status,
                         const char* message, void* user) {
  struct Heard* heard = user;
  const size_t expected = (size_t)heard->n_transcripts + (size_t)heard->n_failures;
  if (index != expected || (transcript != NULL) != (status == VESPER_OK)) return 99;
  if ((message[0] == '\0') != (status == VESPER_OK)) return 99;
  if (transcript) {
    ++heard->n_transcripts;
  } else {
    ++heard->n_failures;
  }
  vesper_transcript_free(transcript);
  return heard->n_transcripts + heard->n_failures == heard->stop_after;
}

/* ---- Every function */

static const char* check_transcript(const vesper_transcript* transcript) {
  const vesper_segment* segment;
  size_t i, n_tokens = 0;
  CHECK(strlen(vesper_transcript_text(transcript)) > 0);
  CHECK(strcmp(vesper_transcript_language(transcript), "en") == 0);
  CHECK(vesper_transcript_language_probability(transcript) == 1);
  CHECK(vesper_transcript_duration_s(transcript) == 2);
  CHECK(vesper_transcript_n_segments(transcript) > 0);
  for (i = 0; i < vesper_transcript_n_segments(transcript); ++i) {
    segment = vesper_transcript_segment(transcript, i);
    CHECK(segment && segment->id == (int32_t)i && segment->channel == 0);
    CHECK(segment->speaker[0] == '\0' && segment->n_words == 0 && segment->temperature == 0);
    CHECK(segment->avg_logprob < 0 && segment->compression_ratio > 0);
    CHECK(segment->no_speech_prob > 0 && segment->no_speech_prob < 1 && segment->seek >= 0);
    n_tokens += segment->n_tokens;
    CHECK(segment->n_tokens == 0 || segment->tokens[0] > 0);
  }
  CHECK(n_tokens > 0);
  CHECK(vesper_transcript_segment(transcript, i) == NULL);
  CHECK(vesper_transcript_segment(transcript, (size_t)-1) == NULL);
  return NULL;
}

static const char* check_formats(const vesper_transcript* transcript) {
  static const char* const formats[] = {"txt", "srt", "vtt", "tsv", "csv", "lrc", "json", "jsonl"};
  vesper_format_options options;
  char *plain, *text;
  size_t i;
  for (i = 0; i < sizeof formats / sizeof *formats; ++i) {
    CHECK(vesper_transcript_format(transcript, formats[i], NULL, &text) == VESPER_OK);
    CHECK(strlen(text) > 0);
    vesper_string_free(text);
  }
  vesper_format_options_init(&options, sizeof options);
  options.file = "talk.wav";
  options.model = "tiny";
  CHECK(vesper_transcript_format(transcript, "json", &options, &text) == VESPER_OK);
  CHECK(strstr(text, "\"talk.wav\"") && strstr(text, "\"tiny\""));
  vesper_string_free(text);

#define CHECK_LAYOUT(format, field, value)                                              \
  do {                                                                                  \
    vesper_format_options_init(&options, sizeof options);                               \
    options.max_line_width = 20;                                                        \
    CHECK(vesper_transcript_format(transcript, format, &options, &plain) == VESPER_OK); \
    options.field = value;                                                              \
    CHECK(vesper_transcript_format(transcript, format, &options, &text) == VESPER_OK);  \
    CHECK(strcmp(plain, text) != 0 /* changed by */ && #field[0]);                      \
    vesper_string_free(plain);                                                          \
    vesper_string_free(text);                                                           \
  } while (0)
  CHECK_LAYOUT("srt", max_line_width, 5);
  CHECK_LAYOUT("srt", max_line_count, 1);
  CHECK_LAYOUT("vtt", max_words_per_line, 1);
  CHECK_LAYOUT("vtt", highlight_words, 1);
  CHECK_LAYOUT("txt", colors, 1);
  return NULL;
}

static const char* check_streams(vesper_whisper* whisper, const float* samples, size_t n_frames) {
  vesper_transcribe_options options;
  vesper_stream_options captions;
  vesper_stream *stream, *second;
  vesper_transcript* transcript;
  struct Heard heard = {0};
  size_t i;
  tiny_transcribe_options(&options);

  CHECK(vesper_stream_open(whisper, 16000, 2, &options, NULL, &stream) == VESPER_OK);
  /* The model is in use until the stream is finished. */
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_open(whisper, 16000, 2, &options, NULL, &second));
  CHECK(second == NULL && strstr(vesper_last_error(), "in use"));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_whisper_load_vad(whisper, NULL));
  for (i = 0; i < n_frames; i += 1000) {
    CHECK(vesper_stream_push(stream, samples + 2 * i, 1000) == VESPER_OK);
  }
  CHECK(vesper_stream_push(stream, NULL, 0) == VESPER_OK);
  CHECK(vesper_stream_finish(stream, &transcript) == VESPER_OK);
  CHECK_ALL(check_transcript(transcript));
  vesper_transcript_free(transcript);
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_finish(stream, &transcript));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_push(stream, samples, 1));
  CHECK(strstr(vesper_last_error(), "vesper_stream_push") && strstr(vesper_last_error(), "stream"));
  CHECK(vesper_whisper_load_vad(whisper, NULL) == VESPER_OK);
  vesper_stream_close(stream);

  vesper_stream_options_init(&captions, sizeof captions);
  captions.step_s = 0.5;
  captions.on_final = on_final;
  captions.on_partial = on_partial;
  captions.on_segment = on_segment;
  captions.user = &heard;
  CHECK(vesper_stream_open(whisper, 16000, 2, &options, &captions, &stream) == VESPER_OK);
  CHECK(vesper_stream_push(stream, samples, n_frames) == VESPER_OK);
  CHECK(heard.n_partial > 0);
  CHECK(vesper_stream_finish(stream, NULL) == VESPER_OK);
  CHECK(heard.n_final > 0 && heard.n_segments > 0);
  vesper_stream_close(stream);

  /* A stream that is closed early releases its model. */
  CHECK(vesper_stream_open(whisper, 16000, 2, &options, &captions, &stream) == VESPER_OK);
  vesper_stream_close(stream);
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_push(stream, samples, 1));

  /* A callback stops it; then it is of no use. */
  heard.n_segments = 0;
  heard.stop_after = 1;
  CHECK(vesper_stream_open(whisper, 16000, 2, &options, &captions, &stream) == VESPER_OK);
  CHECK_FAILS(VESPER_ERROR_STOPPED, vesper_stream_push(stream, samples, n_frames));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_push(stream, samples, 1));
  CHECK(strstr(vesper_last_error(), "the stream has failed"));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_finish(stream, NULL));
  vesper_stream_close(stream);
  return NULL;
}

static const char* check_files(vesper_whisper* whisper, const char* stereo) {
  const char* const paths[] = {stereo, "/no/such/file.wav", stereo};
  vesper_transcribe_options options;
  struct Heard heard = {0};
  tiny_transcribe_options(&options);
  CHECK(vesper_whisper_transcribe_files(whisper, paths, 3, &options, on_transcript, &heard) ==
        VESPER_OK);
  CHECK(heard.n_transcripts == 2 && heard.n_failures == 1);
  memset(&heard, 0, sizeof heard);
  heard.stop_after = 2;
  CHECK_FAILS(VESPER_ERROR_STOPPED,
              vesper_whisper_transcribe_files(whisper, paths, 3, &options, on_transcript, &heard));
  CHECK(heard.n_transcripts == 1 && heard.n_failures == 1);
  CHECK(vesper_whisper_transcribe_files(whisper, NULL, 0, &options, on_transcript, &heard) ==
        VESPER_OK);
  return NULL;
}

static const char* check_cancellation(vesper_whisper* whisper, const char* stereo) {
  const char* const paths[] = {stereo, stereo};
  vesper_transcribe_options options;
  vesper_cancellation* cancellation;
  vesper_transcript* transcript;
  struct Heard heard = {0};
  char* json;
  CHECK(vesper_cancellation_new(&cancellation) == VESPER_OK);
  CHECK(vesper_cancellation_is_requested(cancellation) == 0);
  tiny_transcribe_options(&options);
  options.cancellation = cancellation;
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL) == VESPER_OK);
  vesper_cancellation_request(cancellation);
  CHECK(vesper_cancellation_is_requested(cancellation) == 1);
  CHECK_FAILS(VESPER_ERROR_STOPPED,
              vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, &transcript));
  CHECK(transcript == NULL);
  CHECK_FAILS(VESPER_ERROR_STOPPED,
              vesper_whisper_transcribe_files(whisper, paths, 2, &options, on_transcript, &heard));
  CHECK(heard.n_transcripts == 0 && heard.n_failures == 0);
  options.language = NULL;
  CHECK_FAILS(VESPER_ERROR_STOPPED,
              vesper_whisper_detect_languages_file(whisper, stereo, &options, &json));
  vesper_cancellation_reset(cancellation);
  CHECK(vesper_whisper_detect_languages_file(whisper, stereo, &options, &json) == VESPER_OK);
  CHECK(strstr(json, "\"language\":\"en\",\"name\":\"english\",\"probability\":"));
  vesper_string_free(json);
  vesper_cancellation_free(cancellation);
  CHECK(vesper_cancellation_is_requested(cancellation) == 0);
  return NULL;
}

const char* check_every_function(const char* model, const char* stereo) {
  enum { kFrames = 32000 };
  static float samples[2 * kFrames];
  const vesper_pcm pcm = {samples, kFrames, 16000, 2}, empty = {NULL, 0, 16000, 1};
  vesper_whisper_options settings;
  vesper_transcribe_options options;
  vesper_whisper* whisper;
  vesper_transcript* transcript;
  struct Heard heard = {0};
  char* json;
  uint32_t state = 1;
  size_t i;
  for (i = 0; i < 2 * kFrames; ++i) {
    state = state * 1664525u + 1013904223u;
    samples[i] = (float)((double)state / 4294967296.0 - 0.5);
  }
  CHECK(strchr(vesper_version(), '.') && vesper_has_feature("no such feature") == 0);
  CHECK(vesper_has_feature(NULL) == 0);
  tiny_whisper_options(&settings);
  CHECK(vesper_whisper_open(model, &settings, &whisper) == VESPER_OK);
  CHECK(strncmp(vesper_whisper_description(whisper), "cpu (", 5) == 0);
  CHECK(strstr(vesper_whisper_description(whisper), "f32"));
  CHECK(vesper_whisper_is_multilingual(whisper) == 1);

  tiny_transcribe_options(&options);
  options.on_progress = on_progress;
  options.on_progress_user = &heard;
  options.on_language = on_language;
  options.on_language_user = &heard;
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, on_segment, &heard,
                                       &transcript) == VESPER_OK);
  CHECK(heard.n_segments == (int)vesper_transcript_n_segments(transcript));
  CHECK(heard.n_progress > 0 && heard.last_done_s == 2 && heard.total_s == 2);
  CHECK(heard.n_languages == 1 && heard.probability == 1 && strcmp(heard.language, "en") == 0);
  CHECK_ALL(check_transcript(transcript));
  vesper_transcript_free(transcript);

  CHECK(vesper_whisper_transcribe_pcm(whisper, &pcm, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  CHECK_ALL(check_transcript(transcript));
  vesper_transcript_free(transcript);
  CHECK(vesper_whisper_transcribe_pcm(whisper, &empty, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  CHECK(vesper_transcript_n_segments(transcript) == 0);
  CHECK(vesper_transcript_text(transcript)[0] == '\0');
  vesper_transcript_free(transcript);

  options.word_timestamps = 1;
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  CHECK(vesper_transcript_segment(transcript, 0)->n_words > 0);
  CHECK(vesper_transcript_segment(transcript, 0)->words[0].text[0] != '\0');
  CHECK_ALL(check_formats(transcript));
  vesper_transcript_free(transcript);

  options.language = NULL;
  CHECK(vesper_whisper_detect_languages_pcm(whisper, &pcm, &options, &json) == VESPER_OK);
  CHECK(json[0] == '[' && strstr(json, "\"name\":\"french\""));
  vesper_string_free(json);

  CHECK_ALL(check_files(whisper, stereo));
  CHECK_ALL(check_streams(whisper, samples, kFrames));
  CHECK_ALL(check_cancellation(whisper, stereo));
  vesper_whisper_close(whisper);
  return NULL;
}

/* ---- Bad arguments */

/* The message begins with the function and names the argument. */
#define CHECK_ARGUMENT(function, argument, arguments)                           \
  do {                                                                          \
    CHECK_FAILS(VESPER_ERROR_USAGE, function arguments);                        \
    CHECK(strstr(vesper_last_error(), #function ": " argument ": expected ") == \
          vesper_last_error());                                                 \
    CHECK(vesper_last_error_setting()[0] == '\0');                              \
  } while (0)

static int always(const vesper_segment* segment, void* user) {
  (void)segment, (void)user;
  return 1;
}

const char* check_bad_arguments(const char* model, vesper_whisper* whisper, const char* stereo) {
  static const float nan_samples[2] = {0, NAN};
  const vesper_pcm pcm = {nan_samples, 1, 16000, 1}, not_a_number = {nan_samples, 2, 16000, 1},
                   missing = {NULL, 1, 16000, 1}, huge = {nan_samples, (size_t)-1, 16000, 2},
                   slow = {nan_samples, 1, 0, 1}, wide = {nan_samples, 1, 16000, 257},
                   no_channels = {nan_samples, 1, 16000, 0};
  const char* const paths[] = {stereo, NULL};
  vesper_whisper_options settings;
  vesper_transcribe_options options;
  vesper_transcript *transcript, *out;
  vesper_whisper *closed, *opened;
  vesper_cancellation* cancellation;
  vesper_speech_range* ranges;
  vesper_stream* stream;
  size_t n_ranges;
  char* text;
  tiny_transcribe_options(&options);
  tiny_whisper_options(&settings);

  CHECK_ARGUMENT(vesper_whisper_open, "model", (NULL, NULL, &opened));
  CHECK(opened == NULL);
  CHECK_ARGUMENT(vesper_whisper_open, "whisper", (model, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_load_vad, "whisper", (NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_file, "whisper", (NULL, stereo, NULL, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_file, "path", (whisper, NULL, NULL, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_pcm, "whisper", (NULL, &pcm, NULL, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_pcm, "pcm", (whisper, NULL, NULL, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_pcm, "pcm", (whisper, &missing, NULL, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_pcm, "pcm", (whisper, &huge, NULL, NULL, NULL, NULL));
  CHECK_FAILS(VESPER_ERROR_INPUT,
              vesper_whisper_transcribe_pcm(whisper, &not_a_number, &options, NULL, NULL, &out));
  CHECK(out == NULL && strcmp(vesper_error_of(whisper), vesper_last_error()) == 0);
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_pcm(whisper, &slow, &options, NULL, NULL, NULL));
  CHECK(strcmp(vesper_last_error_setting(), "sample_rate_hz") == 0);
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_pcm(whisper, &wide, &options, NULL, NULL, NULL));
  CHECK(strcmp(vesper_last_error_setting(), "channels") == 0);
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_pcm(whisper, &no_channels, &options, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_files, "whisper",
                 (NULL, paths, 1, NULL, on_transcript, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_files, "paths",
                 (whisper, NULL, 1, NULL, on_transcript, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_files, "paths",
                 (whisper, paths, 2, NULL, on_transcript, NULL));
  CHECK_ARGUMENT(vesper_whisper_transcribe_files, "on_transcript",
                 (whisper, paths, 1, NULL, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_detect_languages_file, "whisper", (NULL, stereo, NULL, &text));
  CHECK_ARGUMENT(vesper_whisper_detect_languages_file, "path", (whisper, NULL, NULL, &text));
  CHECK(text == NULL);
  CHECK_ARGUMENT(vesper_whisper_detect_languages_file, "json", (whisper, stereo, NULL, NULL));
  CHECK_ARGUMENT(vesper_whisper_detect_languages_pcm, "pcm", (whisper, NULL, NULL, &text));
  CHECK_ARGUMENT(vesper_whisper_find_speech_file, "whisper",
                 (NULL, stereo, NULL, &ranges, &n_ranges));
  CHECK_ARGUMENT(vesper_whisper_find_speech_file, "path",
                 (whisper, NULL, NULL, &ranges, &n_ranges));
  CHECK_ARGUMENT(vesper_whisper_find_speech_file, "ranges",
                 (whisper, stereo, NULL, NULL, &n_ranges));
  CHECK_ARGUMENT(vesper_whisper_find_speech_file, "n_ranges",
                 (whisper, stereo, NULL, &ranges, NULL));
  CHECK_ARGUMENT(vesper_whisper_find_speech_pcm, "pcm", (whisper, NULL, NULL, &ranges, &n_ranges));
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_find_speech_file(whisper, stereo, NULL, &ranges, &n_ranges));
  CHECK(strcmp(vesper_last_error_setting(), "vad") == 0); /* no model */
  CHECK_ARGUMENT(vesper_stream_open, "whisper", (NULL, 16000, 1, NULL, NULL, &stream));
  CHECK_ARGUMENT(vesper_stream_open, "stream", (whisper, 16000, 1, NULL, NULL, NULL));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_open(whisper, 16000, 0, NULL, NULL, &stream));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_stream_open(whisper, 0xffffffff, 1, NULL, NULL, &stream));
  CHECK(stream == NULL);
  CHECK_ARGUMENT(vesper_stream_push, "stream", (NULL, nan_samples, 1));
  CHECK_ARGUMENT(vesper_stream_finish, "stream", (NULL, NULL));
  CHECK_ARGUMENT(vesper_transcript_format, "transcript", (NULL, "txt", NULL, &text));
  CHECK_ARGUMENT(vesper_cancellation_new, "cancellation", (NULL));

  /* Functions without a status */
  CHECK(strcmp(vesper_whisper_description(NULL), "") == 0);
  CHECK(strstr(vesper_last_error(), "vesper_whisper_description: whisper"));
  CHECK(vesper_whisper_is_multilingual(NULL) == 0);
  CHECK(strcmp(vesper_transcript_text(NULL), "") == 0);
  CHECK(strcmp(vesper_transcript_language(NULL), "") == 0);
  CHECK(vesper_transcript_language_probability(NULL) == 0);
  CHECK(vesper_transcript_duration_s(NULL) == 0 && vesper_transcript_n_segments(NULL) == 0);
  CHECK(vesper_transcript_segment(NULL, 0) == NULL);
  CHECK(strstr(vesper_last_error(), "vesper_transcript_segment: transcript"));
  CHECK(strcmp(vesper_error_of(NULL), "") == 0);
  vesper_cancellation_request(NULL);
  vesper_cancellation_request((vesper_cancellation*)(void*)whisper);
  vesper_cancellation_reset(NULL);
  CHECK(vesper_cancellation_is_requested((vesper_cancellation*)(void*)whisper) == 0);
  vesper_cancellation_free(NULL);
  vesper_whisper_close(NULL);
  vesper_transcript_free(NULL);
  vesper_stream_close(NULL);
  vesper_string_free(NULL);
  vesper_ranges_free(NULL);

  /* A transcript: other kinds, formats, closed twice */
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, &transcript) ==
        VESPER_OK);
  CHECK_ARGUMENT(vesper_transcript_format, "text", (transcript, "txt", NULL, NULL));
  CHECK_ARGUMENT(vesper_transcript_format, "format", (transcript, NULL, NULL, &text));
  CHECK_ARGUMENT(vesper_transcript_format, "format", (transcript, "all", NULL, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_transcript_format(transcript, "docx", NULL, &text));
  CHECK(text == NULL);
  CHECK_ARGUMENT(vesper_transcript_format, "transcript",
                 ((vesper_transcript*)(void*)whisper, "txt", NULL, &text));
  CHECK(strstr(vesper_last_error(), "expected a transcript that is open, found a Whisper model"));
  vesper_whisper_close((vesper_whisper*)(void*)transcript);
  CHECK(strstr(vesper_last_error(), "vesper_whisper_close: whisper"));
  CHECK(vesper_transcript_n_segments(transcript) > 0);
  vesper_transcript_free(transcript);
  vesper_transcript_free(transcript);
  CHECK(strstr(vesper_last_error(), "vesper_transcript_free: transcript"));
  CHECK(strcmp(vesper_transcript_text(transcript), "") == 0);
  CHECK(strcmp(vesper_error_of(transcript), "") == 0);

  /* A model: settings, closed twice */
  settings.load.reserved[4] = 1;
  CHECK_ARGUMENT(vesper_whisper_open, "load", (model, &settings, &opened));
  settings.load.reserved[4] = 0;
  settings.load.size = 0;
  CHECK_ARGUMENT(vesper_whisper_open, "load", (model, &settings, &opened));
#define CHECK_SETTING(field, value)                                                  \
  do {                                                                               \
    tiny_whisper_options(&settings);                                                 \
    settings.field = value;                                                          \
    opened = whisper;                                                                \
    CHECK_FAILS(VESPER_ERROR_USAGE, vesper_whisper_open(model, &settings, &opened)); \
    CHECK(opened == NULL && #field[0]);                                              \
  } while (0)
  CHECK_SETTING(load.device, "abacus");
  CHECK_SETTING(load.compute, "f3");
  CHECK_SETTING(load.threads, 100000);
  CHECK_SETTING(max_candidates, 0);
  CHECK_SETTING(batch_size, 1000);
  CHECK_SETTING(kv_type, "int4");
  tiny_whisper_options(&settings);
  settings.vad_model = "/no/such/model";
  CHECK_FAILS(VESPER_ERROR_MODEL, vesper_whisper_open(model, &settings, &opened));
  settings.vad_model = "";
  settings.load.offline = 1;
  CHECK_FAILS(VESPER_ERROR_MODEL, vesper_whisper_open("tiny", &settings, &opened));
  settings.max_candidates = 2;
  CHECK(vesper_whisper_open(model, &settings, &closed) == VESPER_OK);
  options.beam_size = 3;
  CHECK_FAILS(VESPER_ERROR_USAGE,
              vesper_whisper_transcribe_file(closed, stereo, &options, NULL, NULL, NULL));
  CHECK(strcmp(vesper_last_error_setting(), "beam_size") == 0);
  vesper_whisper_close(closed);
  CHECK_ARGUMENT(vesper_whisper_transcribe_file, "whisper",
                 (closed, stereo, &options, NULL, NULL, NULL));
  vesper_whisper_close(closed);
  CHECK(strstr(vesper_last_error(), "vesper_whisper_close: whisper"));

  /* A cancellation that is not open */
  tiny_transcribe_options(&options);
  CHECK(vesper_cancellation_new(&cancellation) == VESPER_OK);
  vesper_cancellation_free(cancellation);
  vesper_cancellation_free(cancellation);
  CHECK(strstr(vesper_last_error(), "vesper_cancellation_free: cancellation"));
  options.cancellation = cancellation;
  CHECK_ARGUMENT(vesper_whisper_transcribe_file, "cancellation",
                 (whisper, stereo, &options, NULL, NULL, NULL));

  /* A callback that stops leaves the model usable. */
  tiny_transcribe_options(&options);
  CHECK_FAILS(VESPER_ERROR_STOPPED,
              vesper_whisper_transcribe_file(whisper, stereo, &options, always, NULL, &out));
  CHECK(out == NULL);
  CHECK(vesper_whisper_transcribe_file(whisper, stereo, &options, NULL, NULL, NULL) == VESPER_OK);
  return NULL;
}
