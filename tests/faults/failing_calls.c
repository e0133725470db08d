/* failing_calls: makes the n-th call of a kind fail, or raises a signal there.
 *
 * Preloaded into a program (LD_PRELOAD), where the environment variables say what fails, or linked
 * to a test, which calls failing_calls_arm(). A program's calls are counted from main() on.
 *
 *   FAILING_CALLS=KIND:N[+][:WHAT]   the N-th call, from 1; with "+" all later ones, too
 *     KIND  allocate  malloc and its relatives, so operator new, too; not those of libraries
 *                     that crash then (kExempt)
 *           write sync rename open read thread
 *           map       mappings of files succeed, but reading their second and later pages fails
 *                     (SIGBUS), as on a broken disk
 *     WHAT  ENOMEM, ENOSPC, EIO or EAGAIN (default: ENOMEM for allocate, EAGAIN for thread, else
 *           EIO), or SIGINT, SIGTERM or SIGHUP: the signal is sent, and the call succeeds
 *   FAILING_CALLS_COUNT=FILE         the number of calls of this kind is written there at exit
 *
 * Both variables and LD_PRELOAD are removed from the environment, so that children are unaffected.
 * A program that hangs is ended by SIGALRM.
 */
#define _GNU_SOURCE
#include "tests/faults/failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kNone, kAllocate, kWrite, kSync, kRename, kOpen, kRead, kThread, kMap, kKinds };
static const char* const kKindNames[kKinds] = {"",     "allocate", "write",  "sync", "rename",
                                               "open", "read",     "thread", "map"};

struct Named {
  const char* name;
  int number;
};
/* libsndfile 1.2.0 does not check the memory for its list of chunks, and writes to NULL. */
static const char* const kExempt[] = {"libsndfile"};
#define MOST_RANGES 16
static struct Range { uintptr_t begin, end; } exempt[MOST_RANGES];
static int n_exempt;

static const struct Named kErrors[] = {
    {"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EAGAIN", EAGAIN}};
static const struct Named kSignals[] = {
    {"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}};

static atomic_int armed_kind;
static atomic_long n_calls;
static long failing_call;
static int also_later, error_number, signal_number;
static char count_file[4096];

static int number_of(const struct Named* names, size_t n, const char* name) {
  for (size_t i = 0; i < n; ++i) {
    if (strcmp(names[i].name, name) == 0) return names[i].number;
  }
  return 0;
}

static int add_exempt(struct dl_phdr_info* library, size_t size, void* unused) {
  (void)size, (void)unused;
  for (size_t i = 0; i < sizeof kExempt / sizeof *kExempt; ++i) {
    if (!strstr(library->dlpi_name, kExempt[i])) continue;
    for (int s = 0; s < library->dlpi_phnum && n_exempt < MOST_RANGES; ++s) {
      const uintptr_t begin = library->dlpi_addr + library->dlpi_phdr[s].p_vaddr;
      exempt[n_exempt++] = (struct Range){begin, begin + library->dlpi_phdr[s].p_memsz};
    }
  }
  return 0;
}

static int is_exempt(void* caller) {
  for (int i = 0; i < n_exempt; ++i) {
    if ((uintptr_t)caller >= exempt[i].begin && (uintptr_t)caller < exempt[i].end) return 1;
  }
  return 0;
}

void failing_calls_arm(const char* fault) {
  armed_kind = kNone;
  n_calls = 0;
  if (!fault) return;
  n_exempt = 0;
  dl_iterate_phdr(add_exempt, NULL);
  const size_t kind_length = strcspn(fault, ":");
  int kind = kNone;
  for (int i = 1; i < kKinds; ++i) {
    if (strlen(kKindNames[i]) == kind_length && strncmp(fault, kKindNames[i], kind_length) == 0) {
      kind = i;
    }
  }
  char* rest = (char*)fault + kind_length;
  failing_call = *rest == ':' ? strtol(rest + 1, &rest, 10) : 0;
  also_later = *rest == '+';
  rest += also_later;
  error_number = kind == kAllocate ? ENOMEM : kind == kThread ? EAGAIN : EIO;
  signal_number = 0;
  if (*rest == ':') {
    const int error = number_of(kErrors, sizeof kErrors / sizeof *kErrors, rest + 1);
    signal_number = number_of(kSignals, sizeof kSignals / sizeof *kSignals, rest + 1);
    if (error) error_number = error;
    if (!error && !signal_number) kind = kNone;
  }
  if (kind == kNone) {
    static const char kMessage[] = "failing_calls: expected KIND:N[+][:WHAT]\n";
    if (write(2, kMessage, sizeof kMessage - 1) < 0) abort();
    abort();
  }
  armed_kind = kind;
}

long failing_calls_count(void) { return n_calls; }

/* Whether this call fails; errno is set then. */
static int fails(enum Kind kind) {
  if (atomic_load_explicit(&armed_kind, memory_order_relaxed) != (int)kind) return 0;
  const long n = ++n_calls;
  if (n != failing_call && !(also_later && n > failing_call)) return 0;
  if (signal_number) {
    kill(getpid(), signal_number);
    return 0;
  }
  errno = error_number;
  return 1;
}

/* ---- Memory. glibc's own names, because dlsym() allocates. */

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

#define ALLOCATION_FAILS() (!is_exempt(__builtin_return_address(0)) && fails(kAllocate))

void* malloc(size_t bytes) { return ALLOCATION_FAILS() ? NULL : __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return ALLOCATION_FAILS() ? NULL : __libc_calloc(n, bytes); }
void* realloc(void* old, size_t bytes) {
  return ALLOCATION_FAILS() ? NULL : __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return ALLOCATION_FAILS() ? NULL : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return ALLOCATION_FAILS() ? NULL : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* memory = ALLOCATION_FAILS() ? NULL : __libc_memalign(alignment, bytes);
  if (!memory) return ENOMEM;
  *out = memory;
  return 0;
}

/* ---- Files and threads */

#define REAL(name) ((__typeof__(&name))real_function(#name))
static void* real_function(const char* name) {
  /* Looking a name up may allocate. */
  const int kind = atomic_exchange(&armed_kind, kNone);
  void* function = dlsym(RTLD_NEXT, name);
  atomic_store(&armed_kind, kind);
  if (!function) abort();
  return function;
}
/* Looked up once, on the first call. */
#define FORWARD(name, ...)       \
  static __typeof__(&name) real; \
  if (!real) real = REAL(name);  \
  return real(__VA_ARGS__)

ssize_t write(int descriptor, const void* bytes, size_t n) {
  if (fails(kWrite)) return -1;
  FORWARD(write, descriptor, bytes, n);
}
ssize_t writev(int descriptor, const struct iovec* parts, int n) {
  if (fails(kWrite)) return -1;
  FORWARD(writev, descriptor, parts, n);
}
int fsync(int descriptor) {
  if (fails(kSync)) return -1;
  FORWARD(fsync, descriptor);
}
int rename(const char* from, const char* to) {
  if (fails(kRename)) return -1;
  FORWARD(rename, from, to);
}
ssize_t read(int descriptor, void* bytes, size_t n) {
  if (fails(kRead)) return -1;
  FORWARD(read, descriptor, bytes, n);
}
ssize_t pread(int descriptor, void* bytes, size_t n, off_t offset) {
  if (fails(kRead)) return -1;
  FORWARD(pread, descriptor, bytes, n, offset);
}

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails(kOpen)) return -1;
  FORWARD(open, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails(kOpen)) return -1;
  FORWARD(open64, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (fails(kOpen)) return NULL;
  FORWARD(fopen, path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  if (fails(kOpen)) return NULL;
  FORWARD(fopen64, path, mode);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (fails(kThread)) return errno;
  FORWARD(pthread_create, thread, attributes, start, argument);
}

static void* mapping(void* at, size_t bytes, int access, int flags, int descriptor, off_t offset) {
  FORWARD(mmap, at, bytes, access, flags, descriptor, offset);
}
void* mmap(void* at, size_t bytes, int access, int flags, int descriptor, off_t offset) {
  char* mapped = mapping(at, bytes, access, flags, descriptor, offset);
  const size_t page = 4096;
  if (mapped == MAP_FAILED || descriptor < 0 || bytes <= page || !fails(kMap)) return mapped;
  const int empty = memfd_create("broken disk", MFD_CLOEXEC);
  if (mapping(mapped + page, bytes - page, access, MAP_PRIVATE | MAP_FIXED, empty, 0) ==
      MAP_FAILED) {
    abort();
  }
  close(empty);
  return mapped;
}
void* mmap64(void* at, size_t bytes, int access, int flags, int descriptor, off_t offset) {
  return mmap(at, bytes, access, flags, descriptor, offset);
}

/* ---- The environment of a program */

static const char* fault;

static int (*real_main)(int, char**, char**);
static int main_after_arming(int argc, char** argv, char** environment) {
  if (fault) {
    alarm(120);
    failing_calls_arm(fault);
  }
  return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  fault = getenv("FAILING_CALLS");
  const char* file = getenv("FAILING_CALLS_COUNT");
  if (file) strncpy(count_file, file, sizeof count_file - 1);
  if (fault) {
    fault = strdup(fault);
    unsetenv("FAILING_CALLS");
    unsetenv("FAILING_CALLS_COUNT");
    unsetenv("LD_PRELOAD");
  }
  real_main = main;
  int (*start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
               void (*)(void), void*) = (__typeof__(start))dlsym(RTLD_NEXT, "__libc_start_main");
  return start(main_after_arming, argc, argv, init, fini, rtld_fini, stack_end);
}

__attribute__((destructor)) static void write_count(void) {
  if (!count_file[0]) return;
  const long n = n_calls;
  armed_kind = kNone;
  FILE* file = fopen(count_file, "w");
  if (!file) return;
  fprintf(file, "%ld\n", n);
  fclose(file);
}
