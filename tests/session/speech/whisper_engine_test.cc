// A tiny Whisper with random weights through the whole engine: every file format, both devices, any
// order and number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "llm/devices/open_device.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::whisper_engine_test {
namespace {

namespace fs = std::filesystem;

test::TinyWhisperOptions small_options() {
  test::TinyWhisperOptions options;
  options.n_audio_ctx = 50;
  options.n_text_ctx = 240;
  return options;
}

// The model's result for a window of noise.
struct Heard {
  std::vector<float> logits;  // of the start sequence
  std::vector<int32_t> tokens;
  double sum_logprob;
};

DecodeTask task_of(const WhisperModel& model, uint32_t max_tokens) {
  const WhisperTokens& tokens = model.tokens();
  DecodeTask task;
  task.prompt = {tokens.sot, tokens.first_language, tokens.transcribe};
  task.max_tokens = max_tokens;
  task.max_initial_timestamp = 20;
  return task;
}

void encode_noise(WhisperModel& model, size_t n_windows = 1) {
  std::mt19937 random(7);
  std::normal_distribution<float> noise(0.0f, 0.5f);
  const size_t n = size_t{model.n_frames()} * model.n_mels();
  std::vector<float> numbers(n_windows * n);
  for (float& value : numbers) value = noise(random);
  std::vector<const float*> windows;
  std::vector<uint32_t> to;
  for (uint32_t i = 0; i < n_windows; ++i) {
    windows.push_back(numbers.data() + i * n);
    to.push_back(i);
  }
  model.encode(windows, to);
}

Heard hear(const fs::path& path, const std::string& device, const DeviceOptions& options,
           Compute compute = Compute::kF32, uint32_t n_tokens = 40, const KvTypes& kv_types = {}) {
  WhisperModel model(path, open_device(device, options), compute, 1, 1, 1, kv_types);
  encode_noise(model);
  const DecodeTask task = task_of(model, n_tokens);
  Heard heard;
  heard.logits = model.decoder().prompt_logits(task.prompt);
  const std::vector<int32_t> never{model.tokens().eot};
  model.decoder().set_suppressed(never);
  const DecodeResult result = model.decoder().decode({&task, 1}).front();
  heard.tokens = result.tokens;
  heard.sum_logprob = result.sum_logprob;
  return heard;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, double{std::abs(a[i] - b[i])});
  return largest;
}

class WhisperEngine : public testing::Test {
 protected:
  const test::TinyWhisper tiny_{small_options()};
  const test::ModelFolder folder_{tiny_.ctranslate2(DType::kF32)};
};

TEST_F(WhisperEngine, TranscribesTheSameFromEachModelFormat) {
  const Heard expected = hear(folder_.path(), "cpu", {.n_threads = 1});
  ASSERT_EQ(expected.tokens.size(), 40u);
  for (const test::FileSet& files :
       {tiny_.ggml(DType::kF32), tiny_.ggml(DType::kF16), tiny_.safetensors(DType::kF32),
        tiny_.safetensors(DType::kBF16, 2), tiny_.ctranslate2(DType::kF16)}) {
    const test::ModelFolder folder(files);
    const Heard heard = hear(folder.path(), "cpu", {.n_threads = 1});
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_LT(largest_difference(heard.logits, expected.logits), 1e-4);
  }
}

TEST_F(WhisperEngine, QuantizedModelsTranscribeAlmostTheSame) {
  const Heard expected = hear(folder_.path(), "cpu", {.n_threads = 1});
  double scale = 0;
  for (float logit : expected.logits) scale = std::max(scale, double{std::abs(logit)});
  const std::pair<DType, double> formats[] = {{DType::kQ4_0, 0.4},
                                              {DType::kQ4_1, 0.4},
                                              {DType::kQ5_0, 0.2},
                                              {DType::kQ5_1, 0.2},
                                              {DType::kQ8_0, 0.02}};
  for (const auto& [dtype, tolerance] : formats) {
    const test::ModelFolder folder(tiny_.ggml(dtype));
    const Heard heard = hear(folder.path(), "cpu", {.n_threads = 1});
    const double difference = largest_difference(heard.logits, expected.logits);
    EXPECT_LT(difference, tolerance * scale) << dtype_descriptor(dtype).name;
    EXPECT_GT(difference, 0) << dtype_descriptor(dtype).name;
  }
}

// Keys and values of the text and of the window.
TEST_F(WhisperEngine, QuantizedCachesTranscribeAlmostTheSame) {
  const std::pair<KvTypes, double> formats[] = {{KvTypes(DType::kQ8_0), 0.01},
                                                {KvTypes(DType::kQ8_0, DType::kQ4_0), 0.1}};
  for (const std::string& device : plain_test_devices()) {
    const Heard expected = hear(folder_.path(), device, {.n_threads = 2});
    double scale = 0;
    for (float logit : expected.logits) scale = std::max(scale, double{std::abs(logit)});
    for (const auto& [types, tolerance] : formats) {
      SCOPED_TRACE(device + ", " + kv_types_text(types));
      const Heard heard = hear(folder_.path(), device, {.n_threads = 2}, Compute::kF32, 40, types);
      const double difference = largest_difference(heard.logits, expected.logits);
      EXPECT_LT(difference, tolerance * scale);
      EXPECT_GT(difference, tolerance * scale / 100);
      EXPECT_EQ(heard.tokens.size(), 40u);
    }
  }
}

TEST_F(WhisperEngine, BitsDoNotDependOnThreads) {
  const Heard expected = hear(folder_.path(), "cpu", {.n_threads = 1});
  for (uint32_t n_threads : {2u, 3u}) {
    const Heard heard = hear(folder_.path(), "cpu", {.n_threads = n_threads});
    EXPECT_EQ(heard.logits, expected.logits) << n_threads;
    EXPECT_EQ(heard.tokens, expected.tokens) << n_threads;
    EXPECT_EQ(heard.sum_logprob, expected.sum_logprob) << n_threads;
  }
}

TEST_F(WhisperEngine, BitsDoNotDependOnTheOrderWithinStages) {
  const Heard expected = hear(folder_.path(), "cpu", {.n_threads = 2});
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Heard heard = hear(folder_.path(), "cpu", {.n_threads = 2, .shuffle_seed = seed});
    EXPECT_EQ(heard.logits, expected.logits) << seed;
    EXPECT_EQ(heard.tokens, expected.tokens) << seed;
  }
}

// What a model gives for two windows, by every kind of search.
struct Searched {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<double> sum_logprobs;
  std::vector<float> languages;
  bool operator==(const Searched&) const = default;
};

Searched search(const fs::path& path, std::unique_ptr<Device> device,
                const KvTypes& kv_types = {}) {
  constexpr uint32_t kCandidates = 3, kTokens = 5;
  WhisperModel model(path, std::move(device), Compute::kI8, 2, kCandidates, 2, kv_types);
  encode_noise(model, 2);
  WhisperDecoder& decoder = model.decoder();
  decoder.set_suppressed(model.suppressed());
  DecodeTask tasks[] = {task_of(model, kTokens), task_of(model, kTokens + 3)};
  const std::vector<int32_t>& start = tasks[1].prompt;
  std::vector<int32_t> prompt(40, 100);  // more than a page of earlier text
  prompt[0] = model.tokens().prev;
  tasks[1].start_of_transcript = static_cast<uint32_t>(prompt.size());
  prompt.insert(prompt.end(), start.begin(), start.end());
  tasks[1].prompt = prompt;
  tasks[1].window = 1;
  Search beams{.n_candidates = kCandidates, .max_finished = kCandidates};
  Search samples{.n_candidates = kCandidates};
  samples.sampling.temperature = 0.8f;
  Search filtered = samples;
  filtered.sampling.top_k = 50;
  filtered.sampling.top_p = 0.9f;
  filtered.sampling.repetition_penalty = 1.2f;
  filtered.sampling.no_repeat_ngram_size = 3;
  Searched found;
  for (const Search& one : {Search{}, beams, samples, filtered}) {
    for (const DecodeResult& result : decoder.decode(tasks, one)) {
      found.tokens.push_back(result.tokens);
      found.sum_logprobs.push_back(result.sum_logprob);
      found.sum_logprobs.push_back(result.no_speech_prob);
    }
    tasks[0].timestamps = !tasks[0].timestamps;
  }
  found.languages = decoder.language_probabilities();
  return found;
}

TEST_F(WhisperEngine, CommandsAccessOnlyDeclaredMemoryInAnyOrder) {
  for (const std::string& device : plain_test_devices()) {
    for (const KvTypes& types : {KvTypes(), KvTypes(DType::kQ8_0, DType::kQ4_0)}) {
      EXPECT_EQ(search(folder_.path(), open_test_device("checked " + device), types),
                search(folder_.path(), open_test_device(device), types))
          << device << ", " << kv_types_text(types);
    }
  }
}

#ifdef VESPER_HAS_VULKAN
TEST_F(WhisperEngine, IsCleanUnderTheValidationLayers) {
  EXPECT_EQ(search(folder_.path(), open_test_device("validated vulkan")),
            search(folder_.path(), open_test_device("vulkan")));
}

TEST_F(WhisperEngine, TranscribesTheSameOnLavapipe) {
  const Heard cpu = hear(folder_.path(), "cpu", {});
  const Heard lavapipe = hear(folder_.path(), "vulkan", {});
  EXPECT_LT(largest_difference(cpu.logits, lavapipe.logits), 1e-3);
  EXPECT_EQ(cpu.tokens, lavapipe.tokens);
}

TEST_F(WhisperEngine, BitsOnLavapipeDoNotDependOnBarriers) {
  const Heard derived = hear(folder_.path(), "vulkan", {});
  const Heard full = hear(folder_.path(), "vulkan", {.full_barriers = true});
  EXPECT_EQ(derived.logits, full.logits);
  EXPECT_EQ(derived.tokens, full.tokens);
}
#endif

}  // namespace
}  // namespace vesper::whisper_engine_test
