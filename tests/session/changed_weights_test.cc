// Weights that are quantized while a model is loaded are those of a converted file.
#include "llm/conversion/changed_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "error/error.h"
#include "session/conversion.h"
#include "session/text/text_session.h"
#include "tests/child_process.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/session/text/tiny_text_model.h"

namespace vesper::changed_weights_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::shared_ptr<const WeightProvider> changed(const fs::path& model, const std::string& type) {
  return change_weights(open_weights(model), {.type = type}, 2);
}

// Rows of queries and keys have another order in GGUF files of some families.
std::vector<float> values_of(const WeightProvider& weights, const TensorView& tensor,
                             bool in_any_order) {
  std::vector<float> values = weights.read(tensor);
  if (in_any_order) std::sort(values.begin(), values.end());
  return values;
}

void expect_same_weights(const WeightProvider& loaded, const WeightProvider& file) {
  size_t n_matrices = 0;
  for (const TensorView& tensor : loaded.tensors()) {
    if (tensor.name.find('/') != std::string::npos) continue;  // scales of CTranslate2
    const TensorView& other = file.require(tensor.name);
    EXPECT_EQ(tensor.shape, other.shape) << tensor.name;
    if (tensor.shape.size() > 1) {
      ++n_matrices;
      EXPECT_EQ(dtype_descriptor(tensor.dtype).name,
                std::string_view(dtype_descriptor(other.dtype).name))
          << tensor.name;
    }
    // Norms of some families have another offset.
    if (tensor.name.ends_with("norm.weight")) continue;
    const bool in_any_order = tensor.name.find(".attn.") != std::string::npos;
    EXPECT_EQ(values_of(loaded, tensor, in_any_order), values_of(file, other, in_any_order))
        << tensor.name;
  }
  EXPECT_GT(n_matrices, 5u);
}

class ChangedFamily : public testing::TestWithParam<const char*> {};

TEST_P(ChangedFamily, HasTheWeightsOfAConvertedFile) {
  const fs::path model = fs::path(LANGUAGE_MODELS) / GetParam();
  for (const char* type : {"f32", "q8_0", "q4_k", "q5_0"}) {
    SCOPED_TRACE(type);
    const TemporaryFolder folder;
    convert_model({model, folder / "out.gguf", type, 2});
    expect_same_weights(*changed(model, type), *open_weights(folder / "out.gguf"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ChangedFamily,
                         testing::Values("llama", "qwen3", "gemma", "phi3", "mixtral", "glm4",
                                         "gpt-oss", "gpt-oss-mxfp4", "olmo2"));

TEST(ChangedWeightsOfGguf, AreThoseOfAConvertedFile) {
  const TemporaryFolder folder;
  convert_model({fs::path(LANGUAGE_MODELS) / "qwen3-moe", folder / "f16.gguf", "f16", 2});
  convert_model({folder / "f16.gguf", folder / "q5_1.gguf", "q5_1", 2});
  expect_same_weights(*changed(folder / "f16.gguf", "q5_1"), *open_weights(folder / "q5_1.gguf"));
}

TEST(ChangedWeightsOfTextEncoders, AreThoseOfAConvertedFile) {
  for (const char* family : {"bert", "nomic-bert", "modernbert"}) {
    SCOPED_TRACE(family);
    const TemporaryFolder folder;
    const fs::path model = fs::path(TEXT_ENCODERS) / family;
    convert_model({model, folder / "out.gguf", "q4_0", 2});
    const auto loaded = changed(model, "q4_0"), file = changed(folder / "out.gguf", "");
    size_t n = 0;
    for (const TensorView& tensor : file->tensors()) {
      ++n;
      EXPECT_EQ(loaded->read(loaded->require(tensor.name)), file->read(tensor)) << tensor.name;
    }
    EXPECT_GT(n, 10u);
  }
}

TEST(ChangedWeightsOfWhisper, AreThoseOfAConvertedFile) {
  const test::TinyWhisper tiny;
  for (const test::FileSet& files : {tiny.ctranslate2(DType::kI8), tiny.safetensors(DType::kF32)}) {
    const TemporaryFolder folder;
    fs::create_directories(folder / "whisper");
    test::write_files(files, folder / "whisper");
    for (const char* type : {"f16", "q8_0", "q5_0"}) {
      SCOPED_TRACE(type);
      convert_model({folder / "whisper", folder / "out.bin", type, 2});
      expect_same_weights(*changed(folder / "whisper", type), *open_weights(folder / "out.bin"));
    }
  }
  const TemporaryFolder folder;
  fs::create_directories(folder / "whisper");
  test::write_files(tiny.ctranslate2(DType::kF16), folder / "whisper");
  const auto weights = changed(folder / "whisper", "q4_k");
  EXPECT_EQ(weights->find("decoder.embed.weight")->dtype, DType::kQ5_0) << "rows of 64";
}

TEST(ChangedWeights, GiveTheAnswersOfAConvertedFile) {
  const TemporaryFolder folder;
  write_tiny_text_weights(folder / "model");
  write_letter_tokenizer(folder / "model");
  convert_model({folder / "model", folder / "out.gguf", "q8_0", 2});
  const auto ids_of = [](const fs::path& model, const std::string& type) {
    TextSessionOptions options{.device = "cpu", .threads = 2, .weights = {.type = type}};
    TextSession session(model, options);
    std::vector<int32_t> ids;
    TextOptions text{.max_tokens = 60, .ignore_end = true};
    for (const TokenLogprob& token : session.answer({{5, 6, 7}, text}).tokens) {
      ids.push_back(token.id);
    }
    return ids;
  };
  EXPECT_EQ(ids_of(folder / "model", "q8_0"), ids_of(folder / "out.gguf", ""));
}

TEST(ChangedWeights, AreComputedWhenTheyAreLoaded) {
  const auto weights = changed(fs::path(LANGUAGE_MODELS) / "llama", "q8_0");
  const TensorView& matrix = weights->require("decoder.layers.0.ffn.down.weight");
  EXPECT_EQ(matrix.data, nullptr);
  EXPECT_EQ(weights->load(matrix).computed.size(), matrix.bytes);
  const TensorView& norm = weights->require("decoder.norm.weight");
  EXPECT_NE(norm.data, nullptr);
  EXPECT_TRUE(weights->load(norm).computed.empty());
}

TEST(ChangedWeights, AreTheModelItselfWithoutATypeOrInItsOwn) {
  const std::shared_ptr<const WeightProvider> weights =
      open_weights(fs::path(LANGUAGE_MODELS) / "llama");
  EXPECT_EQ(change_weights(weights, {}, 1), weights);
  const TemporaryFolder folder;
  convert_model({fs::path(LANGUAGE_MODELS) / "llama", folder / "out.gguf", "q5_0", 2});
  const auto same = changed(folder / "out.gguf", "q5_0");
  for (const TensorView& tensor : same->tensors()) {
    EXPECT_NE(tensor.data, nullptr) << tensor.name;
  }
}

TEST(ChangedWeights, RejectUnknownTypes) {
  try {
    check_weight_options({.type = "q9_z"});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.setting(), "weights");
    EXPECT_THAT(error.what(), HasSubstr("expected one of f32, f16"));
  }
}

}  // namespace
}  // namespace vesper::changed_weights_test
