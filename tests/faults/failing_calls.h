/* Makes the n-th call of a kind fail, in a test that links this library. failing_calls.c describes
 * the faults and the use by LD_PRELOAD. */
#ifndef VESPER_TESTS_FAILING_CALLS_H_
#define VESPER_TESTS_FAILING_CALLS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* "allocate:7", see failing_calls.c; the count begins at 0. NULL: nothing fails. */
void failing_calls_arm(const char* fault);
/* The calls of this kind since failing_calls_arm. */
long failing_calls_count(void);

#ifdef __cplusplus
}
#endif
#endif
