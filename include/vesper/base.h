/* What all parts of the C API share.
 *
 * Errors. Every function that can fail returns a vesper_status. vesper_last_error() then says in
 * one line what was expected, what was found, and where. A function that failed has changed
 * nothing, and its out parameters are NULL or 0.
 *
 * Objects. Functions named ..._open and ..._new make an object that the caller closes with
 * ..._close or ..._free; both ignore NULL. An object that is not open, or of another kind, is
 * VESPER_ERROR_USAGE, as long as the address of a closed object has not been used again. Functions
 * without a status return "", 0 or NULL then, and set vesper_last_error(), ..._close too. An object
 * that is closed during a call that uses it ends with that call.
 *
 * Threads. Different objects may be used by different threads at the same time. An object is used
 * by one call at a time, unless its functions say otherwise; a second call gets VESPER_ERROR_USAGE.
 * Callbacks run on the thread that called the function. They must not use the object that calls
 * them, nor end by a C++ exception or longjmp.
 *
 * Strings are UTF-8 and end with a zero byte. A `const char*` that an object returns is valid as
 * long as the object, one that a callback gets during the callback. A `char**` out parameter is a
 * string that the caller frees with vesper_string_free().
 *
 * Options. Each options struct begins with its size and has a function ..._init, which fills in the
 * size and every default; NULL instead of a struct means all defaults. Defaults are those of the
 * programs. A NULL string means its default. Later versions only append fields, so that callers
 * need not be compiled again: a field that the library is too old for is VESPER_ERROR_USAGE if it
 * is set.
 *   vesper_transcribe_options options;
 *   vesper_transcribe_options_init(&options, sizeof options);
 *   options.beam_size = 1;
 */
#ifndef VESPER_BASE_H_
#define VESPER_BASE_H_

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
  VESPER_ERROR_INPUT = 3,    /* audio or text that cannot be read, or is too long */
  VESPER_ERROR_MODEL = 4,    /* a model that is missing, damaged or of another kind */
  VESPER_ERROR_DEVICE = 5,   /* no such device, a device that failed, or not enough memory */
  VESPER_ERROR_OUTPUT = 6,   /* a result that cannot be written */
  VESPER_ERROR_STOPPED = 7,  /* stopped by a callback or a cancellation */
  VESPER_ERROR_INTERNAL = 70 /* a defect of the library */
} vesper_status;

/* "usage", "input", "model", "device", "output", "stopped", "internal"; "ok" for VESPER_OK,
 * "unknown" for other numbers. */
VESPER_API const char* vesper_status_name(vesper_status status);

/* ---- The library ----------------------------------------------------------------------------- */

/* The version of the library that runs: "1.2.3". */
VESPER_API const char* vesper_version(void);
/* Whether the library was built with a feature: "vulkan". 0 for others. */
VESPER_API int vesper_has_feature(const char* feature);

/* The message of the last failed call on this thread; "" if none failed. Valid until the next
 * failed call on this thread. It needs no memory, so that it is there when memory has run out. */
VESPER_API const char* vesper_last_error(void);
/* The setting that the last failed call on this thread complained about, as the field is named:
 * "beam_size"; "" if the error is not about a setting. */
VESPER_API const char* vesper_last_error_setting(void);
/* The message of the last failed call that got this object, on any thread; "" if none failed, or
 * the object is not open. A copy, valid until this thread's next call of vesper_error_of. */
VESPER_API const char* vesper_error_of(const void* object);

/* Frees a string that a function of this library allocated. NULL is ignored. */
VESPER_API void vesper_string_free(char* string);

/* Severity of a log message. */
typedef enum vesper_log_level {
  VESPER_LOG_INFO = 1,   /* the device and the precision of a model, for example */
  VESPER_LOG_WARNING = 2 /* unexpected, but the work goes on */
} vesper_log_level;
/* Called from any thread that is in the library, by one at a time. */
typedef void (*vesper_on_log)(vesper_log_level level, const char* message, void* user);
/* Sends the messages of all objects to `on_log`; NULL (the default) discards them. Any thread. The
 * previous function is not called any more when this returns. */
VESPER_API void vesper_set_log(vesper_on_log on_log, void* user);

/* ---- Cancellation ---------------------------------------------------------------------------- */

/* A flag by which any thread ends calls that were given it: they return VESPER_ERROR_STOPPED
 * between two steps of their work (a window of speech or a few tokens; below a second on most
 * machines), and their objects remain usable. It must outlive these calls. */
typedef struct vesper_cancellation vesper_cancellation;
VESPER_API vesper_status vesper_cancellation_new(vesper_cancellation** cancellation);
/* From any thread, or a signal handler. Ignores what is not an open cancellation. */
VESPER_API void vesper_cancellation_request(vesper_cancellation* cancellation);
/* Clears the flag. */
VESPER_API void vesper_cancellation_reset(vesper_cancellation* cancellation);
VESPER_API int vesper_cancellation_is_requested(const vesper_cancellation* cancellation);
VESPER_API void vesper_cancellation_free(vesper_cancellation* cancellation);

/* ---- Grammars -------------------------------------------------------------------------------- */

/* How a grammar of an answer or a transcription is written. */
typedef enum vesper_grammar_notation {
  VESPER_GRAMMAR_NONE = 0,        /* any text   */
  VESPER_GRAMMAR_GBNF = 1,        /* llama.cpp's notation */
  VESPER_GRAMMAR_JSON_SCHEMA = 2, /* a JSON document */
  VESPER_GRAMMAR_JSON = 3,        /* a JSON object or array; without a text */
  VESPER_GRAMMAR_REGEX = 4        /* an expression that the whole text matches */
} vesper_grammar_notation;

/* ---- Loading models -------------------------------------------------------------------------- */

/* Progress of a download: bytes so far, of `total_bytes` (0: unknown). A non-zero result stops it
 * with VESPER_ERROR_STOPPED; the bytes so far are kept for the next time. */
typedef int (*vesper_on_download)(const char* model, uint64_t done_bytes, uint64_t total_bytes,
                                  void* user);

/* A LoRA adapter: a folder of Hugging Face's PEFT, or a GGUF file of llama.cpp. */
typedef struct vesper_adapter {
  const char* path;
  double scale; /* of the change, besides the adapter's own: 1 */
} vesper_adapter;

/* How a model of any kind is found and loaded. A model is named by a path (file or folder: GGUF,
 * ggml, safetensors, CTranslate2), by a name such as "tiny.en", or by hf://OWNER/NAME/FILE. Names
 * are looked up in $VESPER_MODELS if set, then in vesper/models in $XDG_CACHE_HOME or ~/.cache, and
 * downloaded to the first of them. */
typedef struct vesper_load_options {
  size_t size;
  /* "auto" (a GPU if there is one, else the CPU), "cpu", "vulkan" or "vulkan:N". */
  const char* device;
  /* Precision of matrix products: "auto" (the fastest one that keeps accuracy on the device),
   * "f32", "f16", "bf16" or "int8". */
  const char* compute;
  uint32_t threads;               /* of the CPU device, 1 to 1024; 0: one per core */
  int offline;                    /* non-zero: never download */
  vesper_on_download on_download; /* may be NULL */
  void* on_download_user;
  /* "q8_0", "q4_k", ...: quantizes the weights while they are loaded; the result is that of a file
   * that `inspect --convert` writes with this type. NULL (default): the weights of the files. Only
   * for models of speech, language and embeddings; without effect elsewhere. */
  const char* weights;
  /* [n_adapters]: added to the weights of such a model while they are loaded. */
  const vesper_adapter* adapters;
  size_t n_adapters;
  uint64_t reserved[5]; /* 0; for later settings, because the struct is a part of others */
} vesper_load_options;
VESPER_API void vesper_load_options_init(vesper_load_options* options, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_BASE_H_ */
