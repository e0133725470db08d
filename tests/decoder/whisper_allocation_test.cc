// No allocation after load, in any thread: counted by a malloc of our own.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "tests/llm/tiny_whisper_files.h"

namespace {

std::atomic<uint64_t> n_allocations{0};

}  // namespace

// glibc's own entry points stand behind the ones that are replaced.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  ++n_allocations;
  return __libc_malloc(n);
}
void* calloc(size_t count, size_t n) {
  ++n_allocations;
  return __libc_calloc(count, n);
}
void* realloc(void* old, size_t n) {
  ++n_allocations;
  return __libc_realloc(old, n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  ++n_allocations;
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** out, size_t alignment, size_t n) {
  ++n_allocations;
  *out = __libc_memalign(alignment, n);
  return *out ? 0 : 12;
}
}

namespace vesper {
namespace {

uint64_t allocations_of_decoding(WhisperModel& model, uint32_t n_tokens) {
  const WhisperTokens& tokens = model.tokens();
  DecodeTask task;
  task.prompt = {tokens.sot, tokens.first_language, tokens.transcribe};
  task.max_tokens = n_tokens;
  task.max_initial_timestamp = 20;
  const uint64_t before = n_allocations;
  const DecodeResult result = model.decoder().decode({&task, 1}).front();
  const uint64_t after = n_allocations;
  EXPECT_EQ(result.tokens.size(), n_tokens);
  return after - before;
}

TEST(WhisperAllocation, AHundredStepsMoreAllocateNothingMore) {
  test::TinyWhisperOptions options;
  options.n_audio_ctx = 50;
  options.n_text_ctx = 240;
  std::string folder = (std::filesystem::temp_directory_path() / "vesper-malloc-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  test::write_files(test::TinyWhisper(options).ctranslate2(DType::kF16), folder);
  for (const Compute compute : {Compute::kF32, Compute::kAuto, Compute::kI8}) {
    WhisperModel model(folder, open_device("cpu", {.n_threads = 2}), compute);
    const std::vector<int32_t> never{model.tokens().eot};
    model.decoder().set_suppressed(never);
    const std::vector<float> window(size_t{model.n_frames()} * model.n_mels(), 0.1f);
    const float* const windows[] = {window.data()};
    model.encode(windows);
    allocations_of_decoding(model, 10);
    const uint64_t short_run = allocations_of_decoding(model, 20);
    const uint64_t long_run = allocations_of_decoding(model, 120);
    EXPECT_EQ(long_run, short_run);
    const uint64_t before = n_allocations;
    model.encode(windows);
    EXPECT_EQ(n_allocations, before) << "the encoder allocates";
  }
  EXPECT_GT(n_allocations, 0u) << "malloc is not counted";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vesper
