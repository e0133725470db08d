/* The C API of Vesper: the only public header.
 *
 * Every function that can fail returns a vesper_status; vesper_last_error() then says in one line
 * what was expected, what was found, and where. Strings are UTF-8. An object is used by one thread
 * at a time; several objects may be used at once.
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
  VESPER_ERROR_USAGE = 2,   /* an argument or a setting that makes no sense */
  VESPER_ERROR_INPUT = 3,   /* audio that cannot be read */
  VESPER_ERROR_MODEL = 4,   /* a model that is missing, damaged or of an unknown kind */
  VESPER_ERROR_DEVICE = 5,  /* no such device, or not enough memory */
  VESPER_ERROR_OUTPUT = 6,  /* a result that cannot be written (by the programs alone) */
  VESPER_ERROR_STOPPED = 7, /* the caller's callback asked to stop */
  VESPER_ERROR_INTERNAL = 70
} vesper_status;

/* "1.2.3". */
VESPER_API const char* vesper_version(void);

/* What the last call on this thread that failed said; "" if none did. Valid until the next call on
 * this thread. */
VESPER_API const char* vesper_last_error(void);

/* ---- Speech to text ---------------------------------------------------------------------- */

/* A Whisper model on a device. */
typedef struct vesper_whisper vesper_whisper;

typedef struct vesper_device_options {
  const char* device;  /* "auto", "cpu", "vulkan", "vulkan:N"; NULL is "auto" */
  const char* compute; /* "auto", "f32", "f16", "bf16", "int8"; NULL is "auto" */
  uint32_t threads;    /* of the CPU device; 0 takes all cores */
} vesper_device_options;

typedef struct vesper_transcribe_options {
  const char* language;       /* a code or an English name; NULL detects it */
  int translate;              /* non-zero: into English */
  const char* initial_prompt; /* text before the first window, or NULL */
  int vad; /* non-zero: leave out what is not speech; needs vesper_whisper_load_vad */
} vesper_transcribe_options;

typedef struct vesper_segment {
  double start_s, end_s; /* from the start of the recording */
  const char* text;      /* valid during the callback */
  const char* language;  /* ISO 639-1, likewise */
  double avg_logprob;    /* natural logarithm, mean over the tokens of the window */
  double no_speech_prob; /* of the window, 0 to 1 */
} vesper_segment;

/* Called for each segment as soon as it is final, in order. Anything but 0 stops the
 * transcription, which then returns VESPER_ERROR_STOPPED. */
typedef int (*vesper_on_segment)(const vesper_segment* segment, void* user);

/* Loads the model at `path`, a file or folder of any format that `transcribe` reads. `options` may
 * be NULL. On success *whisper is the model, to be closed with vesper_whisper_close. */
VESPER_API vesper_status vesper_whisper_open(const char* path, const vesper_device_options* options,
                                             vesper_whisper** whisper);
/* Loads a Silero VAD model, safetensors as a file or a folder, for transcriptions that leave out
 * what is not speech. */
VESPER_API vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* path);
/* NULL is ignored. */
VESPER_API void vesper_whisper_close(vesper_whisper* whisper);

/* Transcribes a file of any format that `transcribe` reads. `options` may be NULL. */
VESPER_API vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper,
                                                        const char* audio_path,
                                                        const vesper_transcribe_options* options,
                                                        vesper_on_segment on_segment, void* user);

/* Transcribes `n_samples` of 16 kHz mono, full scale +-1. */
VESPER_API vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper,
                                                       const float* samples, size_t n_samples,
                                                       const vesper_transcribe_options* options,
                                                       vesper_on_segment on_segment, void* user);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_H_ */
