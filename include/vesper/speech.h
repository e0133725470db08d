/* Speech to text with a Whisper model. */
#ifndef VESPER_SPEECH_H_
#define VESPER_SPEECH_H_

#include <vesper/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---------------------------------------------------------------------------------- */

/* A Whisper model on a device. */
typedef struct vesper_whisper vesper_whisper;

typedef struct vesper_whisper_options {
  size_t size;
  vesper_load_options load; /* filled by vesper_whisper_options_init, its size included */
  /* Memory is reserved for this many beams or samples of a window: the largest beam_size and
   * best_of of a transcription. Default: 5. */
  uint32_t max_candidates; /* 1 to 64 */
  /* Files of vesper_whisper_transcribe_files that are decoded at once, with `vad` also parts of the
   * speech of one. Default: 1; 1 to 64. */
  uint32_t batch_size;
  /* A Silero VAD model: name or path. Default NULL: "silero-vad" if it is installed. "": none. It
   * is needed for `vad`; without `vad` it decides about windows that may have no speech. */
  const char* vad_model;
  const char* kv_type; /* of the decoder's keys and values: "f16" (default), "f32", "int8", or of
                          keys and values: "k=int8,v=int4" */
} vesper_whisper_options;
VESPER_API void vesper_whisper_options_init(vesper_whisper_options* options, size_t size);

/* Finds, downloads if needed, and loads a model: see vesper_load_options. */
VESPER_API vesper_status vesper_whisper_open(const char* model,
                                             const vesper_whisper_options* options,
                                             vesper_whisper** whisper);
VESPER_API void vesper_whisper_close(vesper_whisper* whisper);
/* Device and precision: "cpu (AMD EPYC 9K84), bf16". This and the next from any thread. */
VESPER_API const char* vesper_whisper_description(const vesper_whisper* whisper);
/* Whether the model knows several languages. */
VESPER_API int vesper_whisper_is_multilingual(const vesper_whisper* whisper);
/* Loads a VAD model, name or path, with the load options of the Whisper model, and replaces the
 * previous one; NULL or "" removes it. It is not downloaded with load options that were offline. */
VESPER_API vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* model);

/* ---- Options --------------------------------------------------------------------------------- */

typedef enum vesper_task { VESPER_TASK_TRANSCRIBE = 0, VESPER_TASK_TRANSLATE = 1 } vesper_task;

/* What is done with the channels of a recording. */
typedef enum vesper_channels {
  VESPER_CHANNELS_MIX = 0,    /* their mean */
  VESPER_CHANNELS_SPLIT = 1,  /* each by itself: vesper_segment.channel and .speaker */
  VESPER_CHANNELS_DIARIZE = 2 /* the mean; the louder of two channels is the speaker */
} vesper_channels;

/* Names, meaning and defaults are those of openai-whisper, else of faster-whisper, as in
 * `transcribe --help-all`. A double that may be switched off is off as NAN. */
typedef struct vesper_transcribe_options {
  size_t size;

  /* Language and task */
  const char* language; /* code or English name: "fr", "french"; "auto" (default) detects it */
  vesper_task task;
  uint32_t language_detection_segments; /* windows of 30 s; default 1 */
  double language_detection_threshold;  /* probability; default 0.5 */
  int multilingual;                     /* follow changes of the language */

  /* Search */
  const double* temperatures; /* [n_temperatures], tried in order; default 0, 0.2, ... 1 */
  size_t n_temperatures;
  uint32_t beam_size; /* at temperature 0; default 5; 1: greedy */
  double patience;
  uint32_t best_of;      /* samples at a temperature above 0; default 5 */
  double length_penalty; /* 0 to 1; NAN (default): scores are divided by the length */
  double repetition_penalty;
  uint32_t no_repeat_ngram_size; /* 0: off */
  uint32_t top_k;                /* 0: all tokens */
  double top_p, min_p;
  uint32_t seed;

  /* Thresholds; NAN: off */
  double no_speech_threshold;         /* probability; default 0.6 */
  double logprob_threshold;           /* mean log-probability; default -1 */
  double compression_ratio_threshold; /* default 2.4 */
  int reference_rules;                /* only openai-whisper's rules against invented text */
  const char* const* disabled_rules;  /* [n_disabled_rules], names as `transcribe --disable-rule` */
  size_t n_disabled_rules;

  /* Prompts */
  int condition_on_previous_text; /* default 1 */
  const char* initial_prompt;     /* before the first window */
  int carry_initial_prompt;       /* before every window */
  const char* hotwords;           /* before the previous text in every window */
  const char* prefix;             /* the recording begins with this text */

  /* Suppressed tokens */
  int suppress_model_tokens;      /* default 1: the model's list */
  const int32_t* suppress_tokens; /* [n_suppress_tokens], more of them */
  size_t n_suppress_tokens;
  const char* suppress_regex; /* tokens whose whole text matches (PCRE2) */
  int suppress_numerals;

  /* Times and words */
  double max_initial_timestamp_s; /* default 1 */
  int without_timestamps;
  uint32_t max_new_tokens; /* of a window; 0 (default): half the text context */
  int word_timestamps;
  const char* prepend_punctuations; /* NULL: openai-whisper's */
  const char* append_punctuations;
  double hallucination_silence_threshold_s; /* NAN: off; needs word_timestamps */
  uint32_t max_segment_length;              /* characters; 0: no limit; needs word_timestamps */
  int split_on_word;
  const double* clip_timestamps; /* [n_clip_timestamps] seconds: start, end, start, ... */
  size_t n_clip_timestamps;

  /* Voice activity, as in faster-whisper's VadOptions */
  int vad;                                 /* transcribe only speech */
  double vad_threshold, vad_neg_threshold; /* the second NAN: vad_threshold - 0.15 */
  double vad_min_speech_ms, vad_min_silence_ms, vad_pad_ms;
  double vad_max_speech_s; /* INFINITY: no limit */

  /* Channels */
  vesper_channels channels;
  uint32_t channel; /* only this one, from 1, with VESPER_CHANNELS_MIX; 0 (default): all of them */

  /* Files without a header, as of vesper_whisper_transcribe_file */
  const char*
      raw_encoding; /* of interleaved samples: "s16le", "f32le"; NULL: files with a header */
  uint32_t raw_sample_rate_hz, raw_channels; /* defaults: 16000, 1 */

  /* Callbacks of this call; may be NULL */
  const vesper_cancellation* cancellation;
  void (*on_progress)(double done_s, double total_s, void* user); /* total_s 0: unknown */
  void* on_progress_user;
  /* The language of the recording (ISO 639-1 code) and its probability, 1 if it was given: once,
   * before the first segment; not called without segments. With VESPER_CHANNELS_SPLIT those of the
   * first segment's channel. Not called by the functions that detect languages or find speech. */
  void (*on_language)(const char* language, double probability, void* user);
  void* on_language_user;

  /* The text of each window is one of this grammar, after a space or not. Windows are then searched
   * greedily, and the model's suppressed tokens may be sampled. VESPER_ERROR_USAGE names the place
   * of a mistake. */
  int grammar_notation; /* vesper_grammar_notation */
  const char* grammar;
} vesper_transcribe_options;
VESPER_API void vesper_transcribe_options_init(vesper_transcribe_options* options, size_t size);

/* ---- Results --------------------------------------------------------------------------------- */

typedef struct vesper_word {
  double start_s, end_s;
  const char* text;    /* with the space before and the punctuation around it */
  double probability;  /* 0 to 1 */
  const char* speaker; /* as vesper_segment.speaker */
} vesper_word;

typedef struct vesper_segment {
  int32_t id;            /* from 0 */
  int64_t seek;          /* first frame of the window, frames of 10 ms */
  double start_s, end_s; /* from the start of the recording; start_s <= end_s */
  const char* text;      /* begins with a space in languages that use spaces */
  const char* language;  /* ISO 639-1 code */
  const char* speaker;   /* "left", "right", "0", "1", "?"; "" without VESPER_CHANNELS_* */
  int32_t channel;       /* from 1; 0: all */
  double avg_logprob, no_speech_prob, compression_ratio, temperature; /* of its window */
  const int32_t* tokens; /* [n_tokens], timestamp tokens included */
  size_t n_tokens;
  const vesper_word* words; /* [n_words]; none without word_timestamps */
  size_t n_words;
} vesper_segment;

/* Called for each segment as soon as it is final, in order. Non-zero stops the transcription with
 * VESPER_ERROR_STOPPED. */
typedef int (*vesper_on_segment)(const vesper_segment* segment, void* user);

/* The result of a transcription. It may be read by several threads. */
typedef struct vesper_transcript vesper_transcript;
VESPER_API void vesper_transcript_free(vesper_transcript* transcript);
/* The text of all segments, joined, trimmed; "" without speech. */
VESPER_API const char* vesper_transcript_text(const vesper_transcript* transcript);
/* Code of the (first) language; "" if no speech was found. */
VESPER_API const char* vesper_transcript_language(const vesper_transcript* transcript);
VESPER_API double vesper_transcript_language_probability(const vesper_transcript* transcript);
VESPER_API double vesper_transcript_duration_s(const vesper_transcript* transcript);
VESPER_API size_t vesper_transcript_n_segments(const vesper_transcript* transcript);
/* NULL for an index beyond the last. */
VESPER_API const vesper_segment* vesper_transcript_segment(const vesper_transcript* transcript,
                                                           size_t index);

/* How transcripts are laid out as subtitles (srt, vtt), named as in openai-whisper; 0: no limit.
 * They need word_timestamps, and max_line_count needs max_line_width. */
typedef struct vesper_format_options {
  size_t size;
  const char* file;  /* name of the recording in json and jsonl; default "" */
  const char* model; /* name of the model in json; default "" */
  uint32_t max_line_width, max_line_count, max_words_per_line; /* up to 1000 */
  int highlight_words;
  int colors; /* txt: words in ANSI colors by their probability; needs word_timestamps */
} vesper_format_options;
VESPER_API void vesper_format_options_init(vesper_format_options* options, size_t size);
/* The transcript in a format: "txt", "srt", "vtt", "tsv", "csv", "lrc", "json" or "jsonl", the same
 * bytes as `transcribe --format`. */
VESPER_API vesper_status vesper_transcript_format(const vesper_transcript* transcript,
                                                  const char* format,
                                                  const vesper_format_options* options,
                                                  char** text);

/* ---- Transcribing ---------------------------------------------------------------------------- */

/* Samples in memory: [n_frames, channels], interleaved, full scale +-1. */
typedef struct vesper_pcm {
  const float* samples; /* may be NULL if n_frames is 0 */
  size_t n_frames;
  uint32_t sample_rate_hz; /* 1000 to 768000 */
  uint32_t channels;       /* 1 to 256 */
} vesper_pcm;

/* Transcribes a file of any format that libsndfile reads, or ffmpeg where it is installed; "-" is
 * standard input. `on_segment` may be NULL. *transcript is the result, also if `on_segment` is
 * given; NULL instead of its address: not wanted. */
VESPER_API vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper, const char* path,
                                                        const vesper_transcribe_options* options,
                                                        vesper_on_segment on_segment, void* user,
                                                        vesper_transcript** transcript);
/* The same for samples, which are not copied. VESPER_ERROR_INPUT for NaN and infinity. */
VESPER_API vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper,
                                                       const vesper_pcm* pcm,
                                                       const vesper_transcribe_options* options,
                                                       vesper_on_segment on_segment, void* user,
                                                       vesper_transcript** transcript);

/* The result of file `index` of several: `transcript`, which the callback owns and frees, or NULL
 * with the status and message of its error. Non-zero stops the rest with VESPER_ERROR_STOPPED. */
typedef int (*vesper_on_transcript)(size_t index, vesper_transcript* transcript,
                                    vesper_status status, const char* message, void* user);
/* Transcribes files with the same options, batch_size at once unless channels are split or there
 * are clips without `vad`. Results come in order. A file that cannot be read does not stop the
 * others. A transcript does not depend on the other files. */
VESPER_API vesper_status vesper_whisper_transcribe_files(vesper_whisper* whisper,
                                                         const char* const* paths, size_t n_paths,
                                                         const vesper_transcribe_options* options,
                                                         vesper_on_transcript on_transcript,
                                                         void* user);

/* ---- Languages ------------------------------------------------------------------------------- */

/* The probability of each language, with a multilingual model: *json is an array of {"language",
 * "name", "probability"}, the most likely first. */
VESPER_API vesper_status
vesper_whisper_detect_languages_file(vesper_whisper* whisper, const char* path,
                                     const vesper_transcribe_options* options, char** json);
VESPER_API vesper_status
vesper_whisper_detect_languages_pcm(vesper_whisper* whisper, const vesper_pcm* pcm,
                                    const vesper_transcribe_options* options, char** json);

/* ---- Streams --------------------------------------------------------------------------------- */

/* A word of a live caption. */
typedef struct vesper_caption_word {
  double start_s, end_s;
  const char* text;   /* with leading space */
  int opens_segment;  /* first word of a segment */
  double probability; /* of its least probable token, 0 to 1 */
} vesper_caption_word;

typedef struct vesper_stream_options {
  size_t size;
  /* Captions are decoded after each `step_s` seconds of sound, 0.2 to 20. NAN (default): no
   * captions; all samples are kept, and finish does what vesper_whisper_transcribe_pcm does. */
  double step_s;
  /* May be NULL. Final words do not change any more. Partial ones may, and replace the previous. */
  void (*on_final)(const vesper_caption_word* words, size_t n_words, double received_s, void* user);
  void (*on_partial)(const vesper_caption_word* words, size_t n_words, double received_s,
                     void* user);
  vesper_on_segment on_segment;
  void* user; /* of these callbacks */
} vesper_stream_options;
VESPER_API void vesper_stream_options_init(vesper_stream_options* options, size_t size);

/* Sound that the caller pushes piece by piece. Its model does nothing else until the stream is
 * finished or closed. `options` and `stream_options` are copied; the cancellation must outlive the
 * stream. After an error other than VESPER_ERROR_INPUT, a stream with captions can only be closed.
 */
typedef struct vesper_stream vesper_stream;
VESPER_API vesper_status vesper_stream_open(vesper_whisper* whisper, uint32_t sample_rate_hz,
                                            uint32_t channels,
                                            const vesper_transcribe_options* options,
                                            const vesper_stream_options* stream_options,
                                            vesper_stream** stream);
/* [n_frames, channels], any number of frames. VESPER_ERROR_INPUT for NaN and infinity: none of
 * these samples are used. */
VESPER_API vesper_status vesper_stream_push(vesper_stream* stream, const float* samples,
                                            size_t n_frames);
/* Ends the sound and decodes the rest. `transcript` may be NULL. The stream can then only be
 * closed, and the model does other work again, also after an error. */
VESPER_API vesper_status vesper_stream_finish(vesper_stream* stream,
                                              vesper_transcript** transcript);
VESPER_API void vesper_stream_close(vesper_stream* stream);

/* ---- Voice activity -------------------------------------------------------------------------- */

typedef struct vesper_speech_range {
  double start_s, end_s;
} vesper_speech_range;
/* The speech in a recording, by the VAD model of `whisper` and the options vad_*. *ranges is an
 * array of *n_ranges, to be freed by vesper_ranges_free. */
VESPER_API vesper_status vesper_whisper_find_speech_file(vesper_whisper* whisper, const char* path,
                                                         const vesper_transcribe_options* options,
                                                         vesper_speech_range** ranges,
                                                         size_t* n_ranges);
VESPER_API vesper_status vesper_whisper_find_speech_pcm(vesper_whisper* whisper,
                                                        const vesper_pcm* pcm,
                                                        const vesper_transcribe_options* options,
                                                        vesper_speech_range** ranges,
                                                        size_t* n_ranges);
VESPER_API void vesper_ranges_free(vesper_speech_range* ranges);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_SPEECH_H_ */
