// No allocation after load in any thread, counted by a replaced malloc.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "llm/devices/open_device.h"
#include "tests/llm/counted_allocations.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::whisper_allocation_test {
namespace {

uint64_t allocations_of_decoding(WhisperModel& model, uint32_t n_tokens) {
  const WhisperTokens& tokens = model.tokens();
  DecodeTask task;
  task.prompt = {tokens.sot, tokens.first_language, tokens.transcribe};
  task.max_tokens = n_tokens;
  task.max_initial_timestamp = 20;
  const uint64_t before = n_allocations();
  const DecodeResult result = model.decoder().decode({&task, 1}).front();
  const uint64_t after = n_allocations();
  EXPECT_EQ(result.tokens.size(), n_tokens);
  return after - before;
}

TEST(WhisperAllocation, StepsAllocateNothing) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  const test::TinyWhisper tiny({.n_audio_ctx = 50, .n_text_ctx = 240});
  const test::ModelFolder folder(tiny.ctranslate2(DType::kF16));
  for (const Compute compute : {Compute::kF32, Compute::kAuto, Compute::kI8}) {
    WhisperModel model(folder.path(), open_device("cpu", {.n_threads = 2}), compute);
    const std::vector<int32_t> never{model.tokens().eot};
    model.decoder().set_suppressed(never);
    const std::vector<float> window(size_t{model.n_frames()} * model.n_mels(), 0.1f);
    model.encode(window.data());
    allocations_of_decoding(model, 10);
    const uint64_t short_run = allocations_of_decoding(model, 20);
    const uint64_t long_run = allocations_of_decoding(model, 120);
    EXPECT_EQ(long_run, short_run);
    const uint64_t before = n_allocations();
    model.encode(window.data());
    EXPECT_EQ(n_allocations(), before) << "the encoder allocates";
  }
  EXPECT_GT(n_allocations(), 0u) << "malloc is not counted";
}

}  // namespace
}  // namespace vesper::whisper_allocation_test
