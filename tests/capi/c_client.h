#ifndef VESPER_TESTS_CAPI_C_CLIENT_H_
#define VESPER_TESTS_CAPI_C_CLIENT_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Transcribes as a C program would: joins the segments' text in `text`. Returns the status. */
int c_client_transcribe(const char* model, const char* audio, char* text, size_t text_size);

/* Provokes every status that the library returns. Returns 0, or the line of this file's source
 * whose status was another one or came without a message. */
int c_client_first_wrong_status(const char* model, const char* audio);

#ifdef __cplusplus
}
#endif
#endif
