/* The inspection and the model store from C11: a program that prints the document of a function
 * with a line end, as `inspect --json` does.
 *
 * usage: inspect_client FUNCTION [ARGUMENT]...    exit status: that of the function
 *        inspect_client refusals MODEL            bad arguments; 1 and a message if one is accepted
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vesper/inspect.h>

#include "tests/capi/check.h"

/* Prints and frees the texts that are not NULL. */
static int print(vesper_status status, char** texts, size_t n_texts) {
  size_t i;
  for (i = 0; i < n_texts; ++i) {
    if (status != VESPER_OK && texts[i]) return 1; /* a result in spite of the error */
    if (texts[i]) puts(texts[i]);
    vesper_string_free(texts[i]);
  }
  if (status != VESPER_OK) fprintf(stderr, "%s\n", vesper_last_error());
  return (int)status;
}

static int count_downloads(const char* model, uint64_t done, uint64_t total, void* user) {
  (void)model;
  (void)total;
  if (done > 0) ++*(int*)user;
  return 0;
}

static int stop_download(const char* model, uint64_t done, uint64_t total, void* user) {
  (void)model;
  (void)total;
  *(uint64_t*)user = done;
  return 1;
}

/* A call that fails, with a text that is then NULL. */
#define REFUSED(status, call)  \
  do {                         \
    text = text_before;        \
    CHECK_FAILS(status, call); \
    CHECK(text == NULL);       \
  } while (0)

static int stop_conversion(uint64_t done, uint64_t total, void* user) {
  *(uint64_t*)user = done;
  return done <= total;
}

/* NULL, or what is wrong. */
static const char* check_conversion_refusals(const char* model) {
  char before = 0;
  char* const text_before = &before;
  char* text = NULL;
  uint64_t done = 0;
  vesper_cancellation* cancellation = NULL;
  vesper_convert_options options;
  vesper_convert_options_init(&options, sizeof options);
  options.load.offline = 1;
  REFUSED(VESPER_ERROR_USAGE, vesper_convert(NULL, "out.gguf", "f16", &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_convert(model, NULL, "f16", &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_convert(model, "out.gguf", NULL, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_convert("/no/such", "out.gguf", "q9_z", &options, &text));
  CHECK(strcmp(vesper_last_error_setting(), "type") == 0);
  REFUSED(VESPER_ERROR_MODEL, vesper_convert("/no/such", "out.gguf", "f16", &options, &text));
  REFUSED(VESPER_ERROR_OUTPUT, vesper_convert(model, "/no/such/out.gguf", "f16", &options, &text));
  options.load.threads = 100000;
  REFUSED(VESPER_ERROR_USAGE, vesper_convert(model, "out.gguf", "f16", &options, &text));
  CHECK(strcmp(vesper_last_error_setting(), "threads") == 0);
  options.load.threads = 2;
  options.on_progress = stop_conversion;
  options.user = &done;
  REFUSED(VESPER_ERROR_STOPPED, vesper_convert(model, "out.gguf", "f16", &options, &text));
  CHECK(done > 0);
  options.on_progress = NULL;
  CHECK(vesper_cancellation_new(&cancellation) == VESPER_OK);
  options.cancellation = cancellation;
  vesper_cancellation_request(cancellation);
  REFUSED(VESPER_ERROR_STOPPED, vesper_convert(model, "out.gguf", "f16", &options, &text));
  vesper_cancellation_free(cancellation);
  options.size = 3;
  REFUSED(VESPER_ERROR_USAGE, vesper_convert(model, "out.gguf", "f16", &options, &text));
  vesper_convert_options_init(NULL, sizeof options);
  return NULL;
}

/* NULL, or what is wrong. */
static const char* check_refusals(const char* model) {
  char before = 0;
  char* const text_before = &before;
  char* text = NULL;
  int flag = 1;
  const char* globs[2] = {"*", NULL};
  vesper_load_options load;
  vesper_inspect_options options;
  vesper_load_options_init(&load, sizeof load);
  vesper_inspect_options_init(&options, sizeof options);
  load.offline = options.load.offline = 1;

  /* NULL for each pointer that must not be NULL. */
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_model_find(model, VESPER_MODEL_SPEECH, &load, NULL, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_model_find(NULL, VESPER_MODEL_SPEECH, &load, NULL, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_model_find_installed(model, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_model_find_installed(NULL, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_models_installed(NULL));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_models_known(NULL));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_file_digest(model, "sha256", NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_file_digest(NULL, "sha256", &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_file_digest(model, NULL, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_model(model, &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_model(NULL, &options, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_metadata(model, &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_metadata(NULL, &options, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_tensors(model, &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_tensors(NULL, &options, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_tokens(model, "text", &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_tokens(model, NULL, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_tokens(NULL, "text", &options, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_checksums(model, &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_checksums(NULL, &options, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_verify(model, &options, &flag, NULL));
  CHECK(flag == 0);
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_verify(NULL, &options, NULL, &text));
  flag = 1;
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_diff(model, model, &options, &flag, NULL));
  CHECK(flag == 0);
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_diff(model, NULL, &options, NULL, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_diff(NULL, model, &options, NULL, &text));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_table(model, &options, NULL));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_table(NULL, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_profile(NULL, &options, &text, NULL, NULL));
  CHECK_FAILS(VESPER_ERROR_USAGE, vesper_inspect_devices(NULL));

  /* Wrong settings. */
  REFUSED(VESPER_ERROR_USAGE, vesper_model_find(model, (vesper_model_kind)77, &load, NULL, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_file_digest(model, "md5", &text));
  REFUSED(VESPER_ERROR_USAGE,
          vesper_model_find(model, VESPER_MODEL_SPEECH, &load,
                            (const vesper_cancellation*)(const void*)&load, &text));
  options.n_filters = 2;
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_tensors(model, &options, &text));
  options.filters = globs;
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_metadata(model, &options, &text));
  options.n_filters = 0;
  options.load.device = "abacus";
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_model(model, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_table(model, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_profile(model, &options, &text, NULL, NULL));
  options.load.device = "vulkan:900";
  REFUSED(VESPER_ERROR_DEVICE, vesper_inspect_model(model, &options, &text));
  options.load.device = "cpu";
  options.load.compute = "f64";
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_model(model, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_table(model, &options, &text));
  options.load.compute = NULL;
  options.load.threads = 100000;
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_verify(model, &options, NULL, &text));
  CHECK(strcmp(vesper_last_error_setting(), "threads") == 0);
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_tensors(model, &options, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_diff(model, model, &options, NULL, &text));
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_profile(model, &options, NULL, &text, NULL));
  options.load.threads = 2;
  options.input = "/no/such/input";
  REFUSED(VESPER_ERROR_INPUT, vesper_inspect_profile(model, &options, NULL, NULL, &text));
  options.size = 3;
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_model(model, &options, &text));
  vesper_inspect_options_init(&options, sizeof options);
  options.load.offline = 1;
  options.load.size = 0;
  REFUSED(VESPER_ERROR_USAGE, vesper_inspect_model(model, &options, &text));
  vesper_inspect_options_init(NULL, sizeof options);
  vesper_inspect_options_init(&options, 1);

  /* Models that are missing or of another kind. */
  vesper_inspect_options_init(&options, sizeof options);
  options.load.offline = 1;
  options.load.device = "cpu";
  REFUSED(VESPER_ERROR_MODEL, vesper_model_find("/no/such", VESPER_MODEL_VAD, &load, NULL, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_model_find("", VESPER_MODEL_VAD, &load, NULL, &text));
  REFUSED(VESPER_ERROR_MODEL,
          vesper_model_find("tiny.en", VESPER_MODEL_SPEECH, &load, NULL, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_file_digest("/no/such", "sha1", &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_file_digest("/", "sha1", &text));
  text = text_before;
  CHECK(vesper_model_find_installed("no-such-model", &text) == VESPER_OK && text == NULL);
  text = text_before;
  CHECK(vesper_model_find_installed("../../etc/passwd", &text) == VESPER_OK && text == NULL);
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_model("/no/such", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_metadata("/etc/passwd", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_tensors("/etc/passwd", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_tokens("/etc/passwd", "text", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_checksums("/no/such", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_verify("/no/such", &options, NULL, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_diff(model, "/no/such", &options, NULL, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_table("/etc/passwd", &options, &text));
  REFUSED(VESPER_ERROR_MODEL, vesper_inspect_profile("/dev/null", &options, &text, NULL, NULL));
  return NULL;
}

/* "find" downloads, "stop" ends the download by its callback, "cancel" by a cancellation. */
static int find(const char* how, const char* model) {
  char* path = NULL;
  int n_calls = 0;
  uint64_t n_bytes = 0;
  vesper_status status;
  vesper_cancellation* cancellation = NULL;
  vesper_load_options load;
  vesper_load_options_init(&load, sizeof load);
  if (strcmp(how, "stop") == 0) {
    load.on_download = stop_download;
    load.on_download_user = &n_bytes;
  } else {
    load.on_download = count_downloads;
    load.on_download_user = &n_calls;
  }
  if (strcmp(how, "cancel") == 0) {
    if (vesper_cancellation_new(&cancellation) != VESPER_OK) return 1;
    vesper_cancellation_request(cancellation);
  }
  status = vesper_model_find(model, VESPER_MODEL_SPEECH, &load, cancellation, &path);
  vesper_cancellation_free(cancellation);
  if (strcmp(how, "stop") == 0 && n_bytes == 0) return 1;
  if (strcmp(how, "find") == 0 && strncmp(model, "hf://", 5) == 0 && n_calls == 0) return 1;
  return print(status, &path, 1);
}

int main(int argc, char** argv) {
  char* texts[3] = {NULL, NULL, NULL};
  int flag = -1;
  vesper_status status = VESPER_ERROR_USAGE;
  const char* what = argc > 1 ? argv[1] : "";
  const char* model = argc > 2 ? argv[2] : NULL;
  vesper_inspect_options options;
  vesper_inspect_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.offline = 1;
  if (strcmp(what, "refusals") == 0) {
    const char* wrong = check_refusals(model);
    if (!wrong) wrong = check_conversion_refusals(model);
    if (wrong) fprintf(stderr, "%s\n%s\n", wrong, vesper_last_error());
    return wrong != NULL;
  }
  if (strcmp(what, "find") == 0 || strcmp(what, "stop") == 0 || strcmp(what, "cancel") == 0) {
    return find(what, model);
  }
  if (strcmp(what, "installed") == 0) {
    status = model ? vesper_model_find_installed(model, texts) : vesper_models_installed(texts);
  } else if (strcmp(what, "known") == 0) {
    status = vesper_models_known(texts);
  } else if (strcmp(what, "digest") == 0) {
    status = vesper_file_digest(model, argv[3], texts);
  } else if (strcmp(what, "model") == 0) {
    status = vesper_inspect_model(model, &options, texts);
  } else if (strcmp(what, "metadata") == 0) {
    options.filters = (const char* const*)(argv + 3);
    options.n_filters = (size_t)(argc - 3);
    status = vesper_inspect_metadata(model, &options, texts);
  } else if (strcmp(what, "tensors") == 0) {
    options.filters = (const char* const*)(argv + 3);
    options.n_filters = (size_t)(argc - 3);
    status = vesper_inspect_tensors(model, &options, texts);
  } else if (strcmp(what, "statistics") == 0) {
    options.statistics = 1;
    status = vesper_inspect_tensors(model, &options, texts);
  } else if (strcmp(what, "tokens") == 0) {
    status = vesper_inspect_tokens(model, argv[3], &options, texts);
  } else if (strcmp(what, "checksums") == 0) {
    status = vesper_inspect_checksums(model, &options, texts);
  } else if (strcmp(what, "verify") == 0) {
    status = vesper_inspect_verify(model, &options, &flag, texts);
    fprintf(stderr, "%d\n", flag);
  } else if (strcmp(what, "diff") == 0) {
    status = vesper_inspect_diff(model, argv[3], &options, &flag, texts);
    fprintf(stderr, "%d\n", flag);
  } else if (strcmp(what, "table") == 0) {
    status = vesper_inspect_table(model, &options, texts);
  } else if (strcmp(what, "profile") == 0) {
    if (argc > 3) options.input = argv[3];
    options.per_command = argc > 3;
    status = vesper_inspect_profile(model, &options, &texts[0], &texts[1], &texts[2]);
  } else if (strcmp(what, "convert") == 0) {
    status = vesper_convert(model, argv[3], argv[4], NULL, texts);
  } else if (strcmp(what, "devices") == 0) {
    status = vesper_inspect_devices(texts);
  }
  return print(status, texts, 3);
}
