/* The C API of Vesper: the only public header.
 *
 * Every function that can fail returns a vesper_status; vesper_last_error() then says in one line
 * what was expected, what was found, and where. Strings are UTF-8 and end with a zero byte. An
 * object may be used by one thread at a time, and several objects at once.
 *
 * In an options struct, 0 and NULL mean the default value; NULL instead of the struct means all
 * defaults. The defaults are those of the programs.
 */
#ifndef VESPER_H_
#define VESPER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VESPER_API __attribute__((visibility("default")))
#else
#define VESPER_API
#endif

/* The numbers are the exit statuses of the programs for the same errors. */
typedef enum vesper_status {
  VESPER_OK = 0,
  VESPER_ERROR_USAGE = 2,    /* NULL where it is not allowed, or a setting out of its range */
  VESPER_ERROR_INPUT = 3,    /* audio that cannot be read, or samples that are not numbers */
  VESPER_ERROR_MODEL = 4,    /* a model that is missing, damaged or of an unknown kind */
  VESPER_ERROR_DEVICE = 5,   /* no such device, a device that failed, or not enough memory */
  VESPER_ERROR_OUTPUT = 6,   /* a result that cannot be written; only from programs */
  VESPER_ERROR_STOPPED = 7,  /* the caller's callback asked to stop */
  VESPER_ERROR_INTERNAL = 70 /* a defect of the library */
} vesper_status;

/* "1.2.3". */
VESPER_API const char* vesper_version(void);

/* The message of the last failed call on this thread; "" if none failed. Valid until the next call
 * on this thread. */
VESPER_API const char* vesper_last_error(void);

/* ---- Speech to text ---------------------------------------------------------------------- */

/* A Whisper model on a device. */
typedef struct vesper_whisper vesper_whisper;

/* Settings of a loaded model. */
typedef struct vesper_device_options {
  /* "auto" (the default: a GPU if there is one, else the CPU), "cpu", "vulkan" or "vulkan:N".
   * VESPER_ERROR_USAGE for any other text, VESPER_ERROR_DEVICE if there is no such device. */
  const char* device;
  /* Precision of matrix products: "auto" (the default: the fastest one that keeps accuracy on
   * the device), "f32", "f16", "bf16" or "int8". VESPER_ERROR_USAGE for any other text. */
  const char* compute;
  /* Threads of the CPU device, 1 to 1024. Default: one per core. */
  uint32_t threads;
} vesper_device_options;

/* How a recording is transcribed. */
typedef struct vesper_transcribe_options {
  /* Spoken language: a code or an English name in lower case, "fr" or "french". Default: detected
   * from the first 30 s. VESPER_ERROR_USAGE for a language that the model does not know. */
  const char* language;
  /* Non-zero translates into English. Default: 0, the text stays in the spoken language. */
  int translate;
  /* Names and words to expect: the prompt of the first window. Only the last 224
   * tokens are used (half the model's text context). Default: none. */
  const char* initial_prompt;
  /* Non-zero transcribes only the speech that the VAD model finds. Times remain those of the
   * recording. Default: 0, everything. VESPER_ERROR_USAGE if none is loaded. */
  int vad;
} vesper_transcribe_options;

/* A segment of the transcript. `text` and `language` are valid during the callback. */
typedef struct vesper_segment {
  double start_s, end_s; /* seconds from the start of the recording; start_s <= end_s */
  const char* text;      /* valid UTF-8; starts with a space in languages that use spaces */
  const char* language;  /* ISO 639-1 code: "en" */
  double avg_logprob;    /* mean natural log-probability of the tokens of its window, at most 0 */
  double no_speech_prob; /* probability that its window has no speech, 0 to 1 */
} vesper_segment;

/* Called for each segment as soon as it is final, in order, on the thread that called. `user` is
 * the caller's pointer. A non-zero result stops the transcription, which returns
 * VESPER_ERROR_STOPPED; the model remains usable. */
typedef int (*vesper_on_segment)(const vesper_segment* segment, void* user);

/* Loads the Whisper model at `path`, a file or folder: GGUF, ggml, safetensors or CTranslate2.
 * `options` may be NULL. On success *whisper is the model, to be closed with
 * vesper_whisper_close; otherwise it is NULL. Like `transcribe`, also loads the model "silero-vad"
 * (see vesper_whisper_load_vad) if it is installed: in $VESPER_MODELS, or in vesper/models in
 * $XDG_CACHE_HOME or ~/.cache. */
VESPER_API vesper_status vesper_whisper_open(const char* path, const vesper_device_options* options,
                                             vesper_whisper** whisper);
/* Loads a Silero VAD model, a safetensors file or its folder, and replaces the previous one; NULL
 * removes it. It is also used without `vad`, for windows in which Whisper may have invented text.
 */
VESPER_API vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* path);
/* NULL is ignored. */
VESPER_API void vesper_whisper_close(vesper_whisper* whisper);

/* Transcribes a file of any audio format that libsndfile reads, or ffmpeg where it is installed;
 * "-" is standard input. `options` and `on_segment` may be NULL. */
VESPER_API vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper,
                                                        const char* audio_path,
                                                        const vesper_transcribe_options* options,
                                                        vesper_on_segment on_segment, void* user);

/* Transcribes `samples`, [n_samples], 16 kHz mono, full scale +-1. `options` and `on_segment` may
 * be NULL, and `samples` where n_samples is 0. */
VESPER_API vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper,
                                                       const float* samples, size_t n_samples,
                                                       const vesper_transcribe_options* options,
                                                       vesper_on_segment on_segment, void* user);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_H_ */
