/* The speech functions of the C API, used from C11 with a model that is made for tests. */
#ifndef VESPER_TESTS_CAPI_SPEECH_CLIENT_H_
#define VESPER_TESTS_CAPI_SPEECH_CLIENT_H_

#include <vesper.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options for which the tiny model is fast and its text depends on every setting. */
void tiny_transcribe_options(vesper_transcribe_options* options);
void tiny_whisper_options(vesper_whisper_options* options);

/* Each returns NULL, or the check that failed (see check.h). `stereo`: a WAV file of 2 channels. */
const char* check_every_function(const char* model, const char* stereo);
const char* check_option_ranges(vesper_whisper* whisper, const char* stereo);
const char* check_option_effects(vesper_whisper* whisper, const char* stereo);
const char* check_option_sizes(vesper_whisper* whisper, const char* stereo);
const char* check_bad_arguments(const char* model, vesper_whisper* whisper, const char* stereo);

#ifdef __cplusplus
}
#endif
#endif
