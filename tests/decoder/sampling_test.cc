// Drawing several sequences of a window at once, with a tiny Whisper of random weights.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "tests/llm/tiny_whisper_files.h"

namespace vesper {
namespace {

constexpr uint32_t kCandidates = 5;

class Sampling : public testing::Test {
 protected:
  Sampling() {
    test::TinyWhisperOptions options;
    options.n_audio_ctx = 50;
    options.n_text_ctx = 240;
    folder_ = (std::filesystem::temp_directory_path() / "vesper-sampling-XXXXXX").string();
    if (!mkdtemp(folder_.data())) throw std::runtime_error("no temporary folder");
    test::write_files(test::TinyWhisper(options).ctranslate2(DType::kF32), folder_);
    model_ = std::make_unique<WhisperModel>(folder_, open_device("cpu", {.n_threads = 2}),
                                            Compute::kF32, 1, kCandidates);
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0.0f, 0.5f);
    std::vector<float> window(size_t{model_->n_frames()} * model_->n_mels());
    for (float& value : window) value = noise(random);
    const float* const windows[] = {window.data()};
    model_->encode(windows);
    const std::vector<int32_t> never{model_->tokens().eot};
    model_->decoder().set_suppressed(never);
  }
  ~Sampling() override { std::filesystem::remove_all(folder_); }

  // A prompt of that many tokens.
  DecodeTask task(uint32_t n_prompt) const {
    const WhisperTokens& tokens = model_->tokens();
    DecodeTask task;
    task.prompt = {tokens.prev};
    while (task.prompt.size() + 3 < n_prompt) {
      task.prompt.push_back(static_cast<int32_t>(100 + 37 * task.prompt.size()));
    }
    task.start_of_transcript = static_cast<uint32_t>(task.prompt.size());
    for (int32_t id : {tokens.sot, tokens.first_language, tokens.transcribe}) {
      task.prompt.push_back(id);
    }
    task.max_tokens = 40;
    task.max_initial_timestamp = 20;
    task.seed = 12;
    return task;
  }
  DecodeResult decode(const DecodeTask& task, const Search& search) const {
    return model_->decoder().decode({&task, 1}, search).front();
  }

  std::string folder_;
  std::unique_ptr<WhisperModel> model_;
};

// Prompts that end within a page of keys and values, at its end, and after its first row.
TEST_F(Sampling, KeepsTheBestOfTheSequencesThatWouldBeDrawnOneByOne) {
  for (const uint32_t n_prompt : {5u, 40u, 64u, 65u}) {
    SCOPED_TRACE("prompt of " + std::to_string(n_prompt));
    const DecodeTask all = task(n_prompt);
    const DecodeResult found = decode(all, {.temperature = 1, .n_candidates = kCandidates});
    DecodeResult best;
    for (uint32_t i = 0; i < kCandidates; ++i) {
      DecodeTask one = all;
      one.seed = all.seed + i * kDrawStride;
      DecodeResult result = decode(one, {.temperature = 1});
      EXPECT_NE(result.tokens, best.tokens);
      if (i == 0 || result.sum_logprob > best.sum_logprob) best = std::move(result);
    }
    EXPECT_EQ(found.tokens, best.tokens);
    EXPECT_NEAR(found.sum_logprob, best.sum_logprob, 1e-3);
    EXPECT_NEAR(found.no_speech_prob, best.no_speech_prob, 1e-6);
  }
}

TEST_F(Sampling, NearTemperatureZeroIsTheLikeliestSequence) {
  const DecodeTask one = task(50);
  const DecodeResult greedy = decode(one, {});
  EXPECT_EQ(decode(one, {.temperature = 1e-5, .n_candidates = 3}).tokens, greedy.tokens);
  EXPECT_NE(decode(one, {.temperature = 1, .n_candidates = 3}).tokens, greedy.tokens);
}

TEST_F(Sampling, GivenTokensBeginTheAnswer) {
  DecodeTask one = task(20);
  const std::vector<int32_t> given{model_->tokens().timestamp_begin, 400, 401};
  one.prompt.insert(one.prompt.end(), given.begin(), given.end());
  one.n_given = 3;
  for (const uint32_t n : {1u, 4u}) {
    const DecodeResult found = decode(one, {.temperature = 1, .n_candidates = n});
    ASSERT_EQ(found.tokens.size(), 40u);
    EXPECT_EQ(std::vector<int32_t>(found.tokens.begin(), found.tokens.begin() + 3), given);
  }
}

}  // namespace
}  // namespace vesper
