#include "llm/inspect/model_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "error/error.h"
#include "llm/inspect/model_difference.h"
#include "llm/inspect/tensor_statistics.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "tests/child_process.h"
#include "tests/llm/weights/gguf_bytes.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/temporary_folder.h"

namespace vesper::model_description_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Folder : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  static std::string fact(const ModelDescription& model, const std::string& key) {
    for (const Fact& fact : model.facts) {
      if (fact.key == key) return fact.value.dump();
    }
    return "absent";
  }

  TemporaryFolder folder_;
};

// A model of one layer in the shape of SmolLM2-135M, with zero weights.
GgufBytes llama() {
  return GgufBytes()
      .string("general.architecture", "llama")
      .string("general.name", "tiny")
      .scalar<uint32_t>("llama.block_count", 4, 1)
      .scalar<uint32_t>("llama.context_length", 4, 8192)
      .scalar<uint32_t>("llama.embedding_length", 4, 576)
      .scalar<uint32_t>("llama.attention.head_count", 4, 9)
      .scalar<uint32_t>("llama.attention.head_count_kv", 4, 3)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"a", "b", "c"})
      .string("tokenizer.chat_template", "{{ messages }}")
      .tensor("token_embd.weight", {576, 3}, 8, std::vector<uint8_t>(576 / 32 * 34 * 3))
      .tensor("blk.0.attn_q.weight", {576, 576}, 3, std::vector<uint8_t>(576 * 576 / 32 * 20))
      .tensor("blk.0.attn_norm.weight", {576}, 0, std::vector<uint8_t>(576 * 4));
}

TEST_F(Folder, OfAGgufFileIsDescribed) {
  const ModelDescription model = describe_model(write("m.gguf", llama().bytes()));
  EXPECT_EQ(model.format, "GGUF version 3");
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(fact(model, "n_layers"), "1");
  EXPECT_EQ(fact(model, "n_heads"), "9");
  EXPECT_EQ(fact(model, "n_kv_heads"), "3");
  EXPECT_EQ(fact(model, "head_dim"), "64");
  EXPECT_EQ(fact(model, "n_ctx"), "8192");
  EXPECT_EQ(fact(model, "n_vocab"), "3");
  EXPECT_EQ(fact(model, "tokenizer"), "\"byte-level BPE (smollm)\"");
  EXPECT_EQ(model.chat_template, "{{ messages }}");
  EXPECT_EQ(model.n_parameters(), 576u * 3 + 576 * 576 + 576);
  EXPECT_THAT(model.problems, IsEmpty());
  const auto classes = tensor_classes(model);
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].name, "attention");
  EXPECT_EQ(classes[0].format, "q4_1");
  EXPECT_EQ(classes[0].bits_per_weight(), 5.0);
  EXPECT_EQ(classes[1].name, "norm");
  EXPECT_EQ(classes[2].name, "embedding");
  EXPECT_EQ(classes[2].bits_per_weight(), 8.5);
  EXPECT_EQ(model.bytes_on_disk(), fs::file_size(folder_ / "m.gguf"));
  EXPECT_EQ(describe_model(folder_.path()).family, "llama")
      << "the folder leads to its only GGUF file";
}

TEST_F(Folder, OfADamagedGgufFileIsDescribed) {
  auto bytes = llama().bytes();
  bytes.resize(bytes.size() - 1000);
  const ModelDescription model = describe_model(write("m.gguf", bytes));
  EXPECT_EQ(model.family, "llama");
  ASSERT_EQ(model.problems.size(), 1u);
  EXPECT_THAT(model.problems[0], HasSubstr("blk.0.attn_norm.weight"));
}

TEST_F(Folder, OfAWhisperModelIsDescribedInEveryFormat) {
  test::TinyWhisperOptions options;
  options.n_mels = 80;
  const test::TinyWhisper whisper(options);
  const std::vector<std::pair<std::string, test::FileSet>> formats = {
      {"ggml (whisper.cpp)", whisper.ggml(DType::kQ5_0)},
      {"OpenAI's checkpoint (PyTorch)", whisper.openai(DType::kF16)},
      {"CTranslate2 binary version 6", whisper.ctranslate2(DType::kF16)},
      {"safetensors", whisper.safetensors(DType::kF32, 2)}};
  for (const auto& [name, files] : formats) {
    SCOPED_TRACE(name);
    const fs::path folder = folder_ / name;
    test::write_files(files, folder);
    const ModelDescription model = describe_model(folder);
    EXPECT_EQ(model.format, name);
    EXPECT_EQ(model.family, "whisper");
    EXPECT_EQ(fact(model, "n_mels"), "80");
    EXPECT_EQ(fact(model, "n_encoder_layers"), "2");
    EXPECT_EQ(fact(model, "n_languages"), "99");
    EXPECT_EQ(fact(model, "head_dim"), "32");
    EXPECT_THAT(model.problems, IsEmpty());
    EXPECT_THAT(model.unknown, IsEmpty());
    // The bytes of every tensor are at its offset.
    for (const DescribedTensor& tensor : model.tensors) {
      const auto& file = model.provider->files()[tensor.file];
      EXPECT_EQ(file->bytes().data() + tensor.offset, tensor.view.data) << tensor.view.name;
    }
  }
}

TEST_F(Folder, OfOtherModelsReportsUnknownFeatures) {
  std::vector<uint8_t> bytes;
  GgufBytes::put<uint32_t>(bytes, 6);
  const std::string name("TransformerSpec\0", 16);
  GgufBytes::put<uint16_t>(bytes, 16);
  bytes.insert(bytes.end(), name.begin(), name.end());
  bytes.resize(bytes.size() + 40);
  const ModelDescription model = describe_model(write("model.bin", bytes));
  EXPECT_EQ(model.format, "CTranslate2 binary version 6");
  EXPECT_EQ(model.family, "TransformerSpec");
  EXPECT_THAT(model.unknown, ElementsAre("models of TransformerSpec"));
  EXPECT_THROW(describe_model(write("text.txt", {'h', 'e', 'l', 'l', 'o'})), Error);
  EXPECT_THROW(describe_model(folder_ / "absent"), Error);
}

TEST_F(Folder, OfALargeFileIsDescribedQuickly) {
  // Sparse: one tensor of 5.4 GB after a small header.
  constexpr uint64_t kRows = 1u << 20, kColumns = 1280;
  const auto header = GgufBytes()
                          .string("general.architecture", "llama")
                          .entry("blk.0.ffn_up.weight", {kColumns, kRows}, 0, 0)
                          .bytes();
  const fs::path path = write("large.gguf", header);
  fs::resize_file(path, header.size() + kRows * kColumns * 4);
  const auto start = std::chrono::steady_clock::now();
  const ModelDescription model = describe_model(path);
  const auto classes = tensor_classes(model);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_THAT(model.problems, IsEmpty());
  EXPECT_GT(model.bytes_on_disk(), 5'000'000'000u);
  EXPECT_EQ(classes.at(0).n_parameters, kRows * kColumns);
  EXPECT_LT(seconds, 0.2);
}

TEST_F(Folder, DiffersFromAnotherFormatOnlyInFormats) {
  const test::TinyWhisper whisper;
  test::write_files(whisper.safetensors(DType::kF32), folder_ / "f32");
  test::write_files(whisper.safetensors(DType::kF16), folder_ / "f16");
  const ModelDescription f32 = describe_model(folder_ / "f32");
  const ModelDescription f16 = describe_model(folder_ / "f16");
  EXPECT_TRUE(model_difference(f32, f32).empty());
  const ModelDifference difference = model_difference(f32, f16);
  ASSERT_FALSE(difference.tensors.empty());
  for (const auto& tensor : difference.tensors) {
    // The tiny model's numbers are exact in f16.
    EXPECT_EQ(tensor.largest, 0.0) << tensor.name;
    EXPECT_THAT(tensor.a, HasSubstr("f32"));
    EXPECT_THAT(tensor.b, HasSubstr("f16"));
  }
}

TEST_F(Folder, DiffersInNumbersTensorsAndConfiguration) {
  const auto with = [](uint8_t byte, const char* name, uint32_t n_layers) {
    std::vector<uint8_t> numbers(8);
    numbers[7] = byte;  // the second number's sign and exponent
    return GgufBytes()
        .string("general.architecture", "llama")
        .scalar<uint32_t>("llama.block_count", 4, n_layers)
        .tensor("same", {2}, 0, std::vector<uint8_t>(8))
        .tensor("changed", {2}, 0, numbers)
        .tensor(name, {1}, 0, {0, 0, 0, 0})
        .bytes();
  };
  const ModelDescription a = describe_model(write("a.gguf", with(0, "only a", 1)));
  const ModelDescription b = describe_model(write("b.gguf", with(0x40, "only b", 2)));
  const ModelDifference difference = model_difference(a, b);
  ASSERT_EQ(difference.facts.size(), 1u);
  EXPECT_EQ(difference.facts[0].key, "n_layers");
  ASSERT_EQ(difference.metadata.size(), 1u);
  EXPECT_EQ(difference.n_equal_tensors, 1u);
  ASSERT_EQ(difference.tensors.size(), 3u);
  EXPECT_EQ(difference.tensors[0].name, "only a");
  EXPECT_EQ(difference.tensors[1].name, "changed");
  EXPECT_EQ(difference.tensors[1].largest, 2.0);  // the bits 40 00 00 00 are 2.0f
  EXPECT_EQ(difference.tensors[2].name, "only b");
}

// The experts of gpt-oss have no data of their own: their reader computes them.
TEST_F(Folder, ComparesComputedTensors) {
  const fs::path same = fs::path(LANGUAGE_MODELS) / "gpt-oss-mxfp4", other = folder_ / "other";
  fs::copy(same, other);
  std::string bytes = read_file(other / "model.safetensors");
  Safetensors tensors;
  read_safetensors(std::make_shared<MappedFile>(other / "model.safetensors"), tensors);
  for (const UnreadableTensor& words : tensors.unreadable) {
    if (words.name != "model.layers.1.mlp.experts.down_proj_scales") continue;
    const auto at = static_cast<const uint8_t*>(words.data) - tensors.files[0]->bytes().data();
    ++bytes[static_cast<size_t>(at)];  // of the first block of the first expert
  }
  write_file(other / "model.safetensors", bytes);
  const ModelDescription a = describe_model(same), b = describe_model(other);
  const ModelDifference difference = model_difference(a, b);
  ASSERT_EQ(difference.tensors.size(), 1u);
  EXPECT_EQ(difference.tensors[0].name, "decoder.layers.1.experts.0.down.weight");
  EXPECT_GT(difference.tensors[0].largest.value(), 0.0);
  EXPECT_EQ(difference.n_equal_tensors + 1, a.tensors.size());
  for (const DescribedTensor& tensor : a.tensors) {
    const auto found = tensor_statistics({&tensor.view}, 1, a.provider.get())[0];
    EXPECT_EQ(found.n, tensor.view.n_elements()) << tensor.view.name;
    EXPECT_GT(found.max, 0) << tensor.view.name;
  }
}

}  // namespace
}  // namespace vesper::model_description_test
