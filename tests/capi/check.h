/* Checks in C code: the first one that fails ends its function with its place and expression. */
#ifndef VESPER_TESTS_CAPI_CHECK_H_
#define VESPER_TESTS_CAPI_CHECK_H_

#include <stddef.h>

#define VESPER_TEXT_OF_(x) #x
#define VESPER_TEXT_OF(x) VESPER_TEXT_OF_(x)

/* Functions with checks return NULL, or what failed and where. vesper_last_error() may say more. */
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) return __FILE__ ":" VESPER_TEXT_OF(__LINE__) ": " #condition; \
  } while (0)
/* Passes on what failed in another function with checks. */
#define CHECK_ALL(call)                       \
  do {                                        \
    const char* const failed_check_ = (call); \
    if (failed_check_) return failed_check_;  \
  } while (0)
/* A call that fails with this status and a message. */
#define CHECK_FAILS(status, call) CHECK((call) == (status) && vesper_last_error()[0] != '\0')

#endif
