// Every family of text encoders compared with Hugging Face's transformers: tiny random models and
// their reference rows, made by tests/reference/make_text_encoders.py. Families that transformers
// lacks are compared with tests/reference/make_text_encoders_by_formula.py.
#include "encoder/text_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "error/error.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/kernels/reference_rows.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::text_encoder_test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFirstText = 5, kSecondText = 23, kAllRows = kFirstText + kSecondText;

fs::path folder_of(const std::string& name) {
  return fs::path(VESPER_TEST_DATA) / "text_encoders" / name;
}

// The rows of the texts, packed in that order, or one row per text.
std::vector<float> rows_of(const fs::path& model, const std::string& device_name,
                           std::span<const std::span<const int32_t>> texts,
                           uint32_t pooling = kPoolMean) {
  const auto provider = open_weights(model);
  const auto device = open_test_device(device_name);
  TextEncoder encoder(*device, *provider, device->resolve(Compute::kF32, WeightUse::kManyRows),
                      {.max_rows = 40, .max_sequences = 3, .pooling = pooling});
  encoder.write(texts, 32);
  DispatchTable table;
  encoder.emit(table, 32, 3);
  device->run(device->record(table));
  const size_t n_rows = pooling == kPoolMean ? kAllRows : texts.size();
  std::vector<float> rows(n_rows * encoder.d_model());
  device->read(encoder.output().part(0, rows.size() * sizeof(float)), rows.data());
  return rows;
}

double greatest_difference(std::span<const float> found, std::span<const float> wanted) {
  double worst = found.size() == wanted.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const double off = std::abs(double{found[i]} - wanted[i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  return worst;
}

void check_family(const std::string& name, const std::string& device) {
  const ReferenceRows reference = read_reference_rows(folder_of(name));
  ASSERT_EQ(reference.ids.size(), kAllRows);
  const size_t d = reference.values.size() / kAllRows;
  const std::span<const int32_t> ids(reference.ids);
  const std::span<const float> wanted(reference.values);
  const std::span<const int32_t> texts[] = {ids.first(kFirstText), ids.last(kSecondText)};
  EXPECT_LT(greatest_difference(rows_of(folder_of(name), device, texts), wanted), 1e-4);
  // A text's rows are independent of the rest of the batch.
  const std::span<const int32_t> swapped[] = {texts[1], texts[0]};
  const std::vector<float> found = rows_of(folder_of(name), device, swapped);
  EXPECT_LT(
      greatest_difference(std::span(found).first(kSecondText * d), wanted.last(kSecondText * d)),
      1e-4);
  for (const uint32_t pooling : {kPoolFirst, kPoolLast}) {
    const std::vector<float> pooled = rows_of(folder_of(name), device, texts, pooling);
    const size_t rows[] = {pooling == kPoolFirst ? 0 : kFirstText - 1,
                           pooling == kPoolFirst ? kFirstText : kAllRows - 1};
    for (size_t t = 0; t < 2; ++t) {
      EXPECT_LT(
          greatest_difference(std::span(pooled).subspan(t * d, d), wanted.subspan(rows[t] * d, d)),
          1e-4)
          << "pooling " << pooling << ", text " << t;
    }
  }
}

class TextEncoders : public testing::TestWithParam<const char*> {};

TEST_P(TextEncoders, EqualTransformersOnTheCpu) { check_family(GetParam(), "cpu"); }

TEST_P(TextEncoders, AccessOnlyDeclaredMemoryInAnyOrder) {
  for (const std::string& device : plain_test_devices()) {
    check_family(GetParam(), "checked " + device);
  }
}

#ifdef VESPER_HAS_VULKAN
TEST_P(TextEncoders, AreCleanUnderTheValidationLayers) {
  check_family(GetParam(), "validated vulkan");
}

TEST_P(TextEncoders, EqualTransformersOnVulkan) { check_family(GetParam(), "vulkan"); }
#endif

INSTANTIATE_TEST_SUITE_P(Families, TextEncoders,
                         testing::Values("bert", "roberta", "mpnet", "new", "jina-bert",
                                         "nomic-bert", "modernbert", "qwen3", "mistral",
                                         "embedding-gemma"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

// A tensor's GGUF name for its canonical name.
std::string gguf_name(std::string name, bool norms_before) {
  const std::pair<const char*, const char*> parts[] = {
      {"encoder.layers.", "blk."},
      {"encoder.norm", "output_norm"},
      {"encoder.embed_norm", "token_embd_norm"},
      {"encoder.embed", "token_embd"},
      {"encoder.token_type", "token_types"},
      {"encoder.position", "position_embd"},
      {"attn.out", "attn_output"},
      {"attn.", "attn_"},
      {"attn_norm", "attn_output_norm"},
      {"ffn_norm", "layer_output_norm"},
      {"ffn.", "ffn_"},
  };
  for (const auto& [from, to] : parts) {
    if (norms_before && std::string_view(to).ends_with("_output_norm")) continue;
    if (const size_t at = name.find(from); at != std::string::npos) {
      name.replace(at, std::strlen(from), to);
    }
  }
  return name;
}

class TextEncodersInGguf : public testing::TestWithParam<const char*> {};

TEST_P(TextEncodersInGguf, GiveTheSameVectors) {
  const std::string family = GetParam();
  const bool is_modern = family == "modernbert";
  const std::string name = is_modern ? "modern-bert" : family;
  const auto provider = open_weights(folder_of(family));
  const StackConfig& facts = provider->config(ModelType::kTextEncoder).encoder();
  GgufBytes gguf;
  const auto count = [&](const char* key, uint32_t value) {
    gguf.scalar<uint32_t>(name + "." + key, 4, value);
  };
  gguf.string("general.architecture", name);
  count("block_count", facts.n_layers);
  count("embedding_length", facts.d_model);
  count("feed_forward_length", facts.d_ffn);
  count("attention.head_count", facts.n_heads);
  count("context_length", facts.n_positions);
  gguf.scalar<float>(name + ".attention.layer_norm_epsilon", 6, facts.norm_epsilon);
  if (is_modern) {
    count("attention.sliding_window", 2 * (facts.layers[1].sliding_window - 1));
    count("attention.sliding_window_pattern", 3);
    gguf.scalar<float>(name + ".rope.freq_base", 6, facts.ropes[0].theta);
    gguf.scalar<float>(name + ".rope.freq_base_swa", 6, facts.ropes[1].theta);
  }
  for (const TensorView& tensor : provider->tensors()) {
    std::vector<uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    const auto* first = static_cast<const uint8_t*>(tensor.data);
    std::vector<uint8_t> bytes(first, first + tensor.bytes);
    std::string tensor_name = gguf_name(tensor.name, is_modern);
    if (is_modern && tensor.name.ends_with("ffn.up.weight")) continue;
    // Both in one tensor, the gate first.
    if (const size_t gate = tensor_name.find("gate"); is_modern && gate != std::string::npos) {
      tensor_name.replace(gate, 4, "up");
      std::string up_name = tensor.name;
      up_name.replace(up_name.find("gate"), 4, "up");
      const TensorView& up = provider->require(up_name);
      const auto* more = static_cast<const uint8_t*>(up.data);
      bytes.insert(bytes.end(), more, more + up.bytes);
      shape.back() *= 2;
    }
    gguf.tensor(tensor_name, shape, 0, bytes);
  }
  const fs::path file = fs::path(testing::TempDir()) / ("vesper-" + name + ".gguf");
  const std::vector<uint8_t> bytes = gguf.bytes();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const ReferenceRows reference = read_reference_rows(folder_of(family));
  const std::span<const int32_t> ids(reference.ids);
  const std::span<const int32_t> texts[] = {ids.first(kFirstText), ids.last(kSecondText)};
  EXPECT_LT(greatest_difference(rows_of(file, "cpu", texts), reference.values), 1e-4);
  fs::remove(file);
}

INSTANTIATE_TEST_SUITE_P(Families, TextEncodersInGguf,
                         testing::Values("bert", "nomic-bert", "modernbert"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

// EmbeddingGemma has the names of language models, and norm weights that include one.
TEST(LanguageModelsInGguf, EmbedTextsWithAttentionToBothSides) {
  const auto provider = open_weights(folder_of("embedding-gemma"));
  const StackConfig& facts = provider->config(ModelType::kLanguageModel).decoder();
  const std::string name = "gemma-embedding";
  GgufBytes gguf;
  gguf.string("general.architecture", name);
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", facts.n_layers},
      {"context_length", facts.n_positions},
      {"embedding_length", facts.d_model},
      {"feed_forward_length", facts.d_ffn},
      {"attention.head_count", facts.n_heads},
      {"attention.head_count_kv", facts.n_kv_heads},
      {"attention.key_length", facts.head_dim},
      {"attention.sliding_window", 2 * (facts.layers[0].sliding_window - 1)}};
  for (const auto& [key, count] : counts) gguf.scalar<uint32_t>(name + "." + key, 4, count);
  gguf.scalar<float>(name + ".attention.layer_norm_rms_epsilon", 6, facts.norm_epsilon);
  gguf.scalar<float>(name + ".rope.freq_base", 6, facts.ropes[0].theta);
  const std::pair<const char*, const char*> parts[] = {{"decoder.layers.", "blk."},
                                                       {"decoder.norm", "output_norm"},
                                                       {"decoder.embed", "token_embd"},
                                                       {"attn.out", "attn_output"},
                                                       {"attn.", "attn_"},
                                                       {"attn_post_norm", "post_attention_norm"},
                                                       {"ffn_post_norm", "post_ffw_norm"},
                                                       {"ffn.", "ffn_"}};
  for (const TensorView& tensor : provider->tensors()) {
    std::string tensor_name = tensor.name;
    for (const auto& [from, to] : parts) {
      if (const size_t at = tensor_name.find(from); at != std::string::npos) {
        tensor_name.replace(at, std::strlen(from), to);
      }
    }
    std::vector<float> values = read_f32(tensor);
    if (tensor.name.find("norm") != std::string::npos) {
      for (float& value : values) value += 1;
    }
    std::vector<uint8_t> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    gguf.tensor(tensor_name, {tensor.shape.rbegin(), tensor.shape.rend()}, 0, bytes);
  }
  const fs::path file = fs::path(testing::TempDir()) / "vesper-gemma-embedding.gguf";
  const std::vector<uint8_t> bytes = gguf.bytes();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const ReferenceRows reference = read_reference_rows(folder_of("embedding-gemma"));
  const std::span<const int32_t> ids(reference.ids);
  const std::span<const int32_t> texts[] = {ids.first(kFirstText), ids.last(kSecondText)};
  EXPECT_LT(greatest_difference(rows_of(file, "cpu", texts), reference.values), 1e-4);
  fs::remove(file);
}

}  // namespace
}  // namespace vesper::text_encoder_test
