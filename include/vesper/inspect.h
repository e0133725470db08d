/* What models and devices are, and the models of this machine.
 *
 * Results are JSON documents: one line of ASCII, without a line end. Those of vesper_inspect_...
 * and vesper_models_installed are, to the byte, what `inspect --json` prints; that of a model is
 * `inspect --json MODEL`. Functions without an object can be called by several threads at once.
 */
#ifndef VESPER_INSPECT_H_
#define VESPER_INSPECT_H_

#include <vesper/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The models of this machine -------------------------------------------------------------- */

typedef enum vesper_model_kind {
  VESPER_MODEL_SPEECH = 0,       /* Whisper */
  VESPER_MODEL_VAD = 1,          /* voice activity */
  VESPER_MODEL_TEXT_ENCODER = 2, /* texts to vectors */
  VESPER_MODEL_LANGUAGE = 3
} vesper_model_kind;

/* Finds a model as described at vesper_load_options, downloads it if it is not there, and checks
 * its digests where they are known. *path is its file or folder. An existing path is its own
 * result. `kind`: which names an error lists, and whether hf://OWNER/NAME without a file is
 * possible (text encoders). `options`: offline, on_download and on_download_user; may be NULL.
 * `cancellation` may be NULL. VESPER_ERROR_MODEL if there is no such model or it cannot be
 * downloaded. */
VESPER_API vesper_status vesper_model_find(const char* model, vesper_model_kind kind,
                                           const vesper_load_options* options,
                                           const vesper_cancellation* cancellation, char** path);
/* The same for the name of a model, without a download. *path is NULL if it is not installed, which
 * is no error. */
VESPER_API vesper_status vesper_model_find_installed(const char* name, char** path);
/* [{"name": "tiny.en", "kind": "speech", "path": "/..."}, ...], by name. The kinds are "speech",
 * "voice activity", "text encoder", "language" and "unknown". */
VESPER_API vesper_status vesper_models_installed(char** json);
/* The models that have a name of their own: [{"name", "kind", "repository" (on Hugging Face; "": it
 * cannot be downloaded), "revision", "files": [{"name", and "sha1" or "sha256" if known}]}, ...].
 */
VESPER_API vesper_status vesper_models_known(char** json);
/* The digest of a file in lower case hexadecimal. `algorithm`: "sha256" or "sha1".
 * VESPER_ERROR_MODEL if the file cannot be read. */
VESPER_API vesper_status vesper_file_digest(const char* path, const char* algorithm, char** hex);

/* ---- Inspection ------------------------------------------------------------------------------ */

/* Options of all functions below. */
typedef struct vesper_inspect_options {
  size_t size;
  /* How the model is found, the device and the precision. The device "auto" stands for all devices
   * in vesper_inspect_model, and for the one that would run the model elsewhere. `threads` also
   * read tensors. */
  vesper_load_options load;
  const char* const* filters; /* [n_filters] globs for names of tensors and keys; none: all */
  size_t n_filters;
  int statistics;    /* non-zero: minimum, maximum, mean, deviation, NaN, ... of each tensor */
  const char* input; /* of a profile: file with audio, a prompt or lines of text; NULL: noise */
  int per_command;   /* of a profile: a clock after each command instead of at barriers */
} vesper_inspect_options;
VESPER_API void vesper_inspect_options_init(vesper_inspect_options* options, size_t size);

/* A `model` is a path, a name or hf://..., as for vesper_model_find with VESPER_MODEL_SPEECH. All
 * functions return VESPER_ERROR_MODEL for files that no reader knows. `options` may be NULL. */

/* What the model is, how large, whether the engine runs it, and "memory": what it would take on
 * each device, planned without loading it. On the CPU this has "program", the memory of this
 * process (its peak so far) with the model's vocabulary. */
VESPER_API vesper_status vesper_inspect_model(const char* model,
                                              const vesper_inspect_options* options, char** json);
/* The metadata of the files. Options: filters. */
VESPER_API vesper_status vesper_inspect_metadata(const char* model,
                                                 const vesper_inspect_options* options,
                                                 char** json);
/* Name, format, shape, offset and bytes of each tensor. Options: filters, statistics. */
VESPER_API vesper_status vesper_inspect_tensors(const char* model,
                                                const vesper_inspect_options* options, char** json);
/* The tokens of a text. */
VESPER_API vesper_status vesper_inspect_tokens(const char* model, const char* text,
                                               const vesper_inspect_options* options, char** json);
/* SHA-256 of each file. */
VESPER_API vesper_status vesper_inspect_checksums(const char* model,
                                                  const vesper_inspect_options* options,
                                                  char** json);
/* Reads everything. Damage is in the document, and *is_sound 0, with VESPER_OK. `is_sound` may be
 * NULL. */
VESPER_API vesper_status vesper_inspect_verify(const char* model,
                                               const vesper_inspect_options* options, int* is_sound,
                                               char** json);
/* What differs between two models, in any formats. *is_equal: whether nothing does; may be NULL. */
VESPER_API vesper_status vesper_inspect_diff(const char* model, const char* other,
                                             const vesper_inspect_options* options, int* is_equal,
                                             char** json);
/* The commands that the model runs, stage by stage. */
VESPER_API vesper_status vesper_inspect_table(const char* model,
                                              const vesper_inspect_options* options, char** json);
/* Runs the model for some seconds and times its stages. Options: input, per_command. Each of the
 * three results may be NULL: JSON, a trace for Perfetto (JSON), and one line a stage. */
VESPER_API vesper_status vesper_inspect_profile(const char* model,
                                                const vesper_inspect_options* options, char** json,
                                                char** trace, char** csv);
/* The devices of this machine, usable or not, and their capabilities. */
VESPER_API vesper_status vesper_inspect_devices(char** json);

/* ---- Conversion ------------------------------------------------------------------------------ */

typedef struct vesper_convert_options {
  size_t size;
  /* How the model is found; `threads` quantize. Device, compute, weights and adapters have no effect. */
  vesper_load_options load;
  /* Bytes written, of those of the file. A non-zero result stops with VESPER_ERROR_STOPPED. */
  int (*on_progress)(uint64_t done_bytes, uint64_t total_bytes, void* user); /* may be NULL */
  void* user;
  const vesper_cancellation* cancellation; /* may be NULL */
} vesper_convert_options;
VESPER_API void vesper_convert_options_init(vesper_convert_options* options, size_t size);

/* Writes a model as one GGUF file, or Whisper as a ggml file, with most matrices in the format
 * `type`: "q8_0", "q4_k", "f16", ... `output` is replaced if it exists, and only by a complete file
 * that has been read back. `options` may be NULL. *json says what was written; may be NULL.
 * VESPER_ERROR_USAGE for an unknown type, VESPER_ERROR_MODEL for a model that cannot be read or that
 * the format cannot state, VESPER_ERROR_OUTPUT if the file cannot be written. */
VESPER_API vesper_status vesper_convert(const char* model, const char* output, const char* type,
                                        const vesper_convert_options* options, char** json);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_INSPECT_H_ */
