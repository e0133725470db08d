// The sampling settings in model files. The configurations are those that Qwen/Qwen3-0.6B and
// HuggingFaceTB/SmolLM2-135M-Instruct publish, without ids of tokens.
#include "llm/generation/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::sampling_defaults_test {
namespace {

constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6;

SamplingDefaults of_json(std::string_view config) {
  return sampling_defaults("generation_config.json", config);
}

SamplingDefaults of_gguf(const GgufBytes& bytes) {
  const auto file = bytes.file();
  return sampling_defaults("model.gguf", read_gguf_files(ModelFiles(".", {}), file));
}

std::string error_of(std::string_view config) {
  try {
    of_json(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.what();
  }
  return "no error";
}

TEST(SamplingDefaults, AreThoseOfGenerationConfig) {
  const SamplingDefaults qwen3 = of_json(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
          "transformers_version": "4.51.0"})");
  EXPECT_EQ(qwen3.source, "generation_config.json");
  EXPECT_EQ(qwen3.sampling.temperature, 0.6f);
  EXPECT_EQ(qwen3.sampling.top_k, 20u);
  EXPECT_EQ(qwen3.sampling.top_p, 0.95f);
  EXPECT_EQ(qwen3.sampling.min_p, 0);
  EXPECT_FALSE(qwen3.sampling.has_penalties());
}

TEST(SamplingDefaults, AreGreedyUnlessTheFileSamples) {
  EXPECT_EQ(of_json(R"({"_from_model_config": true, "eos_token_id": 2})").sampling.temperature, 0);
  // A temperature alone has no effect in transformers.
  EXPECT_EQ(of_json(R"({"temperature": 0.6, "top_k": 20})").sampling.temperature, 0);
}

TEST(SamplingDefaults, AreThoseOfTransformersWhereTheFileIsSilent) {
  const Sampling sampling = of_json(R"({"do_sample": true, "top_p": null})").sampling;
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_k, 50u);
  EXPECT_EQ(sampling.top_p, 1);
}

TEST(SamplingDefaults, PenalizeTheWholeText) {
  const Sampling sampling = of_json(R"({"repetition_penalty": 1.05})").sampling;
  EXPECT_EQ(sampling.repetition_penalty, 1.05f);
  EXPECT_GT(sampling.penalty_window, 1u << 20);
}

TEST(SamplingDefaults, NameAWrongValue) {
  using testing::HasSubstr;
  EXPECT_THAT(
      error_of(R"({"do_sample": true, "temperature": -1})"),
      HasSubstr("generation_config.json: expected temperature from 0.0 to 100.0, found -1.0"));
  EXPECT_THAT(error_of(R"({"do_sample": true, "top_p": "0.9"})"), HasSubstr("top_p"));
  EXPECT_THAT(error_of(R"({"do_sample": 1})"), HasSubstr("do_sample"));
  EXPECT_THAT(error_of(R"({"do_sample": true, "top_k": 1e30})"), HasSubstr("top_k"));
  EXPECT_EQ(error_of(R"({"do_sample": true, "top_k": -1})"), "no error");  // all tokens
}

TEST(SamplingDefaults, AreTheSamplingKeysOfGguf) {
  const SamplingDefaults found =
      of_gguf(GgufBytes()
                  .scalar<float>("general.sampling.temp", kFloat32, 0.7f)
                  .scalar<int32_t>("general.sampling.top_k", kInt32, 20)
                  .scalar<float>("general.sampling.top_p", kFloat32, 0.8f)
                  .scalar<float>("general.sampling.min_p", kFloat32, 0.05f)
                  .scalar<float>("general.sampling.penalty_repeat", kFloat32, 1.1f)
                  .scalar<int32_t>("general.sampling.penalty_last_n", kInt32, 128));
  EXPECT_EQ(found.source, "general.sampling.*");
  EXPECT_EQ(found.sampling.temperature, 0.7f);
  EXPECT_EQ(found.sampling.top_k, 20u);
  EXPECT_EQ(found.sampling.top_p, 0.8f);
  EXPECT_EQ(found.sampling.min_p, 0.05f);
  EXPECT_EQ(found.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(found.sampling.penalty_window, 128u);
}

TEST(SamplingDefaults, OfGgufWithoutATemperature) {
  EXPECT_EQ(of_gguf(GgufBytes().scalar<uint32_t>("general.sampling.top_k", kUint32, 64))
                .sampling.temperature,
            1);
  const SamplingDefaults none = of_gguf(GgufBytes().string("general.name", "any"));
  EXPECT_EQ(none.source, "");
  EXPECT_EQ(none.sampling.temperature, 0);
}

}  // namespace
}  // namespace vesper::sampling_defaults_test
