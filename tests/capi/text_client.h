#ifndef VESPER_TESTS_CAPI_TEXT_CLIENT_H_
#define VESPER_TESTS_CAPI_TEXT_CLIENT_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Calls every function of vesper/text.h and vesper/embedding.h with a tiny language model and a
 * tiny text encoder, rightly and with each kind of wrong argument. `folder` is for files. Returns
 * NULL, or what was wrong and where. */
const char* text_client_first_wrong_result(const char* language_model, const char* text_encoder,
                                           const char* folder);

#ifdef __cplusplus
}
#endif
#endif
