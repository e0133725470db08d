// The alignment pass, with a tiny Whisper of random weights.
#include "decoder/words/whisper_aligner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "decoder/whisper_model.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::whisper_aligner_test {
namespace {

constexpr uint32_t kPositions = 50;

class WhisperAlignerTest : public testing::Test {
 protected:
  // A model with two encoded windows of noise, which a pass can align together.
  std::unique_ptr<WhisperModel> model(std::unique_ptr<Device> device,
                                      Compute compute = Compute::kF32,
                                      const KvTypes& kv_types = {}) const {
    auto model = std::make_unique<WhisperModel>(folder_.path(), std::move(device), compute, 2, 1, 2,
                                                kv_types);
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0.0f, 0.5f);
    std::vector<float> numbers(2 * size_t{model->n_frames()} * model->n_mels());
    for (float& value : numbers) value = noise(random);
    model->encode(numbers.data(), 0);
    model->encode(numbers.data() + numbers.size() / 2, 1);
    return model;
  }
  std::unique_ptr<WhisperModel> model() const {
    return model(open_device("cpu", {.n_threads = 2}));
  }

  static AlignmentTask task(const WhisperModel& model, uint32_t window, uint32_t n_text) {
    const WhisperTokens& tokens = model.tokens();
    AlignmentTask task;
    task.start = {tokens.sot, tokens.first_language, tokens.transcribe};
    for (uint32_t i = 0; i < n_text; ++i) {
      task.text.push_back(static_cast<int32_t>((100 + 37 * (i + window)) % 1000));
    }
    task.n_positions = kPositions - 7 * window;
    task.window = window;
    return task;
  }

  const test::ModelFolder folder_{
      test::TinyWhisper({.n_audio_ctx = kPositions, .n_text_ctx = 240, .n_decoder_layers = 3})
          .ctranslate2(DType::kF32)};
};

void expect_equal(const TokenAlignment& found, const TokenAlignment& wanted) {
  EXPECT_EQ(found.positions, wanted.positions);
  EXPECT_EQ(found.probabilities, wanted.probabilities);
}

TEST_F(WhisperAlignerTest, ProbabilitiesEqualTheDecoder) {
  const auto loaded = model();
  const AlignmentTask one = task(*loaded, 0, 9);
  const TokenAlignment found = loaded->aligner().align({&one, 1}).front();
  std::vector<int32_t> prompt = one.start;
  prompt.push_back(loaded->tokens().notimestamps);
  prompt.insert(prompt.end(), one.text.begin(), one.text.end());
  const std::vector<float> logits = loaded->decoder().prompt_logits(prompt);
  ASSERT_EQ(found.probabilities.size(), one.text.size());
  for (size_t i = 0; i < one.text.size(); ++i) {
    const float* row = logits.data() + (one.start.size() + i) * loaded->decoder().n_vocab();
    double sum = 0;
    for (int32_t id = 0; id < loaded->tokens().eot; ++id) sum += std::exp(double{row[id]});
    const double wanted = std::exp(double{row[one.text[i]]}) / sum;
    EXPECT_NEAR(found.probabilities[i], wanted, 1e-4 * wanted) << i;
  }
}

TEST_F(WhisperAlignerTest, PositionsIncreaseWithinTheAudio) {
  const auto loaded = model();
  AlignmentTask one = task(*loaded, 0, 40);
  for (uint32_t n_positions : {kPositions, 17u, 3u, 1u}) {
    one.n_positions = n_positions;
    const std::vector<uint32_t> positions = loaded->aligner().align({&one, 1}).front().positions;
    ASSERT_EQ(positions.size(), one.text.size() + 1);
    EXPECT_EQ(positions.front(), 0u);
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_LT(positions.back(), n_positions);
  }
}

TEST_F(WhisperAlignerTest, AWindowDoesNotDependOnItsBatch) {
  const auto loaded = model();
  const AlignmentTask tasks[] = {task(*loaded, 1, 30), task(*loaded, 0, 11)};
  const std::vector<TokenAlignment> together = loaded->aligner().align(tasks);
  ASSERT_EQ(together.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    expect_equal(together[i], loaded->aligner().align({&tasks[i], 1}).front());
  }
  EXPECT_NE(together[0].positions, together[1].positions);
}

TEST_F(WhisperAlignerTest, TasksThatDoNotFitInAPassTakeSeveral) {
  const auto loaded = model();
  std::vector<AlignmentTask> tasks;
  for (uint32_t i = 0; i < 5; ++i) tasks.push_back(task(*loaded, i % 2, 20 * i + 3));
  const std::vector<TokenAlignment> found = loaded->aligner().align(tasks);
  ASSERT_EQ(found.size(), tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    expect_equal(found[i], loaded->aligner().align({&tasks[i], 1}).front());
  }
}

// Probabilities move with the error of int8 keys and values; positions hardly do.
TEST_F(WhisperAlignerTest, ReadsQuantizedKeys) {
  for (const std::string& device : plain_test_devices()) {
    SCOPED_TRACE(device);
    const auto exact = model(open_test_device(device));
    const auto quantized = model(open_test_device(device), Compute::kF32, KvTypes(DType::kQ8_0));
    const AlignmentTask one = task(*exact, 0, 30);
    const TokenAlignment wanted = exact->aligner().align({&one, 1}).front();
    const TokenAlignment found = quantized->aligner().align({&one, 1}).front();
    EXPECT_NE(found.probabilities, wanted.probabilities);
    ASSERT_EQ(found.positions.size(), wanted.positions.size());
    for (size_t i = 0; i < wanted.probabilities.size(); ++i) {
      EXPECT_NEAR(found.probabilities[i], wanted.probabilities[i], 0.05 * wanted.probabilities[i])
          << i;
    }
    double moved = 0;
    for (size_t i = 0; i < wanted.positions.size(); ++i) {
      moved += std::abs(static_cast<double>(found.positions[i]) - wanted.positions[i]);
    }
    EXPECT_LT(moved / static_cast<double>(wanted.positions.size()), 1.0);
  }
}

TEST_F(WhisperAlignerTest, DoesNotChangeTheDecoder) {
  const auto loaded = model();
  DecodeTask decode;
  decode.prompt = task(*loaded, 0, 0).start;
  decode.max_tokens = 20;
  const std::vector<int32_t> before = loaded->decoder().decode({&decode, 1}).front().tokens;
  const AlignmentTask one = task(*loaded, 0, 30);
  loaded->aligner().align({&one, 1});
  EXPECT_EQ(loaded->decoder().decode({&decode, 1}).front().tokens, before);
}

TEST_F(WhisperAlignerTest, BitsDoNotDependOnThreads) {
  constexpr Compute kCompute = Compute::kAuto;  // in 16 bits if this CPU is fast at it
  const auto expected = model(open_device("cpu", {.n_threads = 1}), kCompute);
  const AlignmentTask one = task(*expected, 0, 6);
  const TokenAlignment wanted = expected->aligner().align({&one, 1}).front();
  for (const DeviceOptions& options :
       {DeviceOptions{.n_threads = 3}, DeviceOptions{.n_threads = 2, .shuffle_seed = 5}}) {
    expect_equal(model(open_device("cpu", options), kCompute)->aligner().align({&one, 1}).front(),
                 wanted);
  }
}

TEST_F(WhisperAlignerTest, AccessesOnlyDeclaredMemoryInAnyOrder) {
  for (const std::string& device : plain_test_devices()) {
    // In 16 bits if the device is fast at it.
    const auto plain = model(open_test_device(device), Compute::kAuto);
    const auto checked = model(open_test_device("checked " + device), Compute::kAuto);
    const AlignmentTask tasks[] = {task(*plain, 1, 30), task(*plain, 0, 11)};
    const std::vector<TokenAlignment> wanted = plain->aligner().align(tasks);
    const std::vector<TokenAlignment> found = checked->aligner().align(tasks);
    for (size_t i = 0; i < 2; ++i) expect_equal(found[i], wanted[i]);
  }
}

TEST_F(WhisperAlignerTest, RefusesTooManyTokens) {
  const auto loaded = model();
  const AlignmentTask good = task(*loaded, 0, 5);
  const auto refused = [&](const std::function<void(AlignmentTask&)>& spoil) {
    AlignmentTask bad = good;
    spoil(bad);
    EXPECT_THROW(loaded->aligner().align({&bad, 1}), Error);
  };
  refused([](AlignmentTask& bad) { bad.text.resize(200, 1); });
  refused([](AlignmentTask& bad) { bad.n_positions = kPositions + 1; });
  refused([](AlignmentTask& bad) { bad.n_positions = 0; });
  refused([](AlignmentTask& bad) { bad.window = 4; });
  refused([&](AlignmentTask& bad) { bad.text[2] = loaded->tokens().eot; });
  refused([](AlignmentTask& bad) { bad.text[2] = -1; });
}

#ifdef VESPER_HAS_VULKAN
TEST_F(WhisperAlignerTest, IsCleanUnderTheValidationLayers) {
  const auto plain = model(open_device("vulkan"));
  const auto validated = model(open_test_device("validated vulkan"));
  const AlignmentTask one = task(*plain, 1, 30);
  expect_equal(validated->aligner().align({&one, 1}).front(),
               plain->aligner().align({&one, 1}).front());
}

TEST_F(WhisperAlignerTest, IsTheSameOnLavapipe) {
  const auto cpu = model(), lavapipe = model(open_device("vulkan"));
  const AlignmentTask one = task(*cpu, 0, 12);
  const TokenAlignment wanted = cpu->aligner().align({&one, 1}).front();
  const TokenAlignment found = lavapipe->aligner().align({&one, 1}).front();
  EXPECT_EQ(found.positions, wanted.positions);
  for (size_t i = 0; i < wanted.probabilities.size(); ++i) {
    EXPECT_NEAR(found.probabilities[i], wanted.probabilities[i], 1e-3 * wanted.probabilities[i]);
  }
}
#endif

}  // namespace
}  // namespace vesper::whisper_aligner_test
