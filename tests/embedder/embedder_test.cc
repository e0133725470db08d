// The embedder on a tiny BERT, compared with plain loops.
#include "embedder/embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/counted_allocations.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::embedder_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<int32_t>;

std::unique_ptr<Device> cpu(uint32_t n_threads = 2) {
  return open_device("cpu", DeviceOptions{.n_threads = n_threads});
}

std::vector<Ids> random_texts(const std::vector<size_t>& lengths) {
  std::mt19937 random(3);
  std::vector<Ids> texts;
  for (const size_t n : lengths) {
    Ids& ids = texts.emplace_back(n);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 60);
  }
  return texts;
}

std::vector<float> embed(Embedder& embedder, const std::vector<Ids>& texts) {
  std::vector<std::span<const int32_t>> spans(texts.begin(), texts.end());
  std::vector<float> vectors(texts.size() * embedder.dimensions());
  embedder.embed(spans, vectors.data());
  return vectors;
}

std::vector<double> pooled(const TinyBert& bert, const Ids& ids, Pooling pooling, bool normalize) {
  constexpr size_t kWidth = TinyBert::kWidth;
  const std::vector<double> rows = bert.rows(ids);
  std::vector<double> vector(kWidth);
  double squares = 0;
  for (size_t i = 0; i < kWidth; ++i) {
    if (pooling == Pooling::kFirst) vector[i] = rows[i];
    if (pooling == Pooling::kLast) vector[i] = rows[(ids.size() - 1) * kWidth + i];
    if (pooling == Pooling::kMean) {
      for (size_t r = 0; r < ids.size(); ++r) {
        vector[i] += rows[r * kWidth + i] / static_cast<double>(ids.size());
      }
    }
    squares += vector[i] * vector[i];
  }
  if (normalize) {
    for (double& value : vector) value /= std::sqrt(squares);
  }
  return vector;
}

// The model with llama.cpp's names and a number of its enum llama_pooling_type.
std::string gguf_of(const TinyBert& bert, uint32_t pooling_type) {
  GgufBytes gguf;
  gguf.string("general.architecture", "bert");
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", TinyBert::kLayers},         {"context_length", TinyBert::kPositions},
      {"embedding_length", TinyBert::kWidth},     {"feed_forward_length", TinyBert::kFfn},
      {"attention.head_count", TinyBert::kHeads}, {"pooling_type", pooling_type}};
  for (const auto& [key, count] : counts) {
    gguf.scalar<uint32_t>(std::string("bert.") + key, 4, count);
  }
  gguf.scalar<float>("bert.attention.layer_norm_epsilon", 6,
                     static_cast<float>(TinyBert::kEpsilon));
  const std::pair<const char*, const char*> names[] = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.position_embeddings", "position_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"encoder.layer.", "blk."},
      {"attention.self.query", "attn_q"},
      {"attention.self.key", "attn_k"},
      {"attention.self.value", "attn_v"},
      {"attention.output.dense", "attn_output"},
      {"attention.output.LayerNorm", "attn_output_norm"},
      {"intermediate.dense", "ffn_up"},
      {"output.dense", "ffn_down"},
      {"output.LayerNorm", "layer_output_norm"}};
  for (const auto& [hugging_face, values] : bert.tensors) {
    std::string name = hugging_face;
    for (const auto& [from, to] : names) {
      if (const size_t at = name.find(from); at != std::string::npos) {
        name.replace(at, std::strlen(from), to);
      }
    }
    const std::vector<uint64_t>& shape = bert.shapes.at(hugging_face);
    std::vector<uint8_t> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    gguf.tensor(name, {shape.rbegin(), shape.rend()}, 0, bytes);
  }
  const std::vector<uint8_t> bytes = gguf.bytes();
  return {bytes.begin(), bytes.end()};
}

TEST(Embedder, EqualsPlainLoopsForPackedTexts) {
  const TinyBert bert;
  const std::vector<Ids> texts = random_texts({5, 1, 40, 17, 33, 2, 40, 8});
  for (const auto& [mode, pooling] : {std::pair("mean_tokens", Pooling::kMean),
                                      {"cls_token", Pooling::kFirst},
                                      {"lasttoken", Pooling::kLast}}) {
    for (const bool normalize : {true, false}) {
      const TemporaryFolder folder;
      bert.write(folder.path(), mode);
      EmbedderOptions options;
      if (!normalize) options.normalize = false;
      options.batch_tokens = 64;
      Embedder embedder(folder.path(), cpu(), Compute::kF32, options);
      EXPECT_EQ(embedder.settings().pooling, pooling);
      const std::vector<float> found = embed(embedder, texts);
      for (size_t t = 0; t < texts.size(); ++t) {
        const std::vector<double> wanted = pooled(bert, texts[t], pooling, normalize);
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_NEAR(found[t * wanted.size() + i], wanted[i], 2e-5)
              << mode << ", text " << t << ", number " << i;
        }
      }
    }
  }
}

// A GGUF file has no modules.json: its metadata say how rows are pooled.
TEST(Embedder, PoolsAsGgufMetadataSay) {
  const TinyBert bert;
  const std::vector<Ids> texts = random_texts({5, 17});
  const TemporaryFolder folder;
  for (const auto& [type, pooling] :
       {std::pair(1u, Pooling::kMean), {2u, Pooling::kFirst}, {3u, Pooling::kLast}}) {
    write_file(folder / "model.gguf", gguf_of(bert, type));
    Embedder embedder(folder / "model.gguf", cpu(), Compute::kF32);
    EXPECT_EQ(embedder.settings().pooling, pooling);
    const std::vector<float> found = embed(embedder, texts);
    for (size_t t = 0; t < texts.size(); ++t) {
      const std::vector<double> wanted = pooled(bert, texts[t], pooling, true);
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(found[t * wanted.size() + i], wanted[i], 2e-5) << "type " << type;
      }
    }
  }
  // 0: no pooling. 4: ranks pairs of texts.
  for (const uint32_t type : {0u, 4u}) {
    write_file(folder / "model.gguf", gguf_of(bert, type));
    EXPECT_THROW(Embedder(folder / "model.gguf", cpu(), Compute::kF32), Error) << type;
  }
}

TEST(Embedder, OffsetsPositionsOfXlmR) {
  const TinyBert roberta(true);
  const TemporaryFolder folder;
  roberta.write(folder.path());
  Embedder embedder(folder.path(), cpu(), Compute::kF32);
  EXPECT_EQ(embedder.max_tokens(), TinyBert::kPositions - TinyBert::kRobertaFirstPosition);
  const std::vector<Ids> texts = random_texts({38, 3, 20});
  const std::vector<float> found = embed(embedder, texts);
  for (size_t t = 0; t < texts.size(); ++t) {
    const std::vector<double> wanted = pooled(roberta, texts[t], Pooling::kMean, true);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(found[t * wanted.size() + i], wanted[i], 2e-5) << "text " << t;
    }
  }
}

TEST(Embedder, AccessesOnlyDeclaredMemoryInAnyOrder) {
  const std::vector<Ids> texts = random_texts({5, 1, 40, 17, 33, 2, 40, 8});
  for (const char* mode : {"mean_tokens", "cls_token", "lasttoken"}) {
    const TemporaryFolder folder;
    TinyBert().write(folder.path(), mode);
    for (const std::string& device : plain_test_devices()) {
      EmbedderOptions options;
      options.batch_tokens = 64;
      Embedder plain(folder.path(), open_test_device(device), Compute::kI8, options);
      Embedder checked(folder.path(), open_test_device("checked " + device), Compute::kI8, options);
      EXPECT_EQ(embed(checked, texts), embed(plain, texts)) << mode << " on " << device;
    }
  }
}

TEST(Embedder, DoesNotDependOnBatchOrThreads) {
  const std::vector<Ids> texts = random_texts({5, 1, 40, 17, 33, 2, 40, 8});
  for (const char* mode : {"mean_tokens", "cls_token"}) {
    const TemporaryFolder folder;
    TinyBert().write(folder.path(), mode);
    for (const Compute compute : {Compute::kF32, Compute::kI8, Compute::kAuto}) {
      Embedder together(folder.path(), cpu(3), compute);
      Embedder alone(folder.path(), cpu(1), compute);
      const std::vector<float> found = embed(together, texts);
      for (size_t t = 0; t < texts.size(); ++t) {
        const std::vector<float> one = embed(alone, {texts[t]});
        for (size_t i = 0; i < one.size(); ++i) {
          ASSERT_EQ(found[t * one.size() + i], one[i])
              << mode << ", " << compute_name(compute) << ", text " << t << ", number " << i;
        }
      }
    }
  }
}

TEST(Embedder, DividesManyShortTextsIntoBatches) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  EmbedderOptions options;
  options.batch_tokens = 64;  // 8 texts
  Embedder embedder(folder.path(), cpu(), Compute::kF32, options);
  const std::vector<Ids> texts = random_texts(std::vector<size_t>(20, 1));
  const std::vector<float> found = embed(embedder, texts);
  for (size_t t = 0; t < texts.size(); ++t) {
    const std::vector<float> one = embed(embedder, {texts[t]});
    for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(found[t * one.size() + i], one[i]) << t;
  }
}

TEST(Embedder, AllocatesNothingForAKnownBatchSize) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  Embedder embedder(folder.path(), cpu(), Compute::kF32);
  const std::vector<Ids> texts = random_texts({20, 11, 33}), others = random_texts({31, 32, 1});
  const std::vector<std::span<const int32_t>> first(texts.begin(), texts.end());
  const std::vector<std::span<const int32_t>> second(others.begin(), others.end());
  std::vector<float> vectors(3 * embedder.dimensions());
  const uint64_t at_first = n_allocations();
  embedder.embed(first, vectors.data());
  EXPECT_GT(n_allocations(), at_first);
  const uint64_t before = n_allocations();
  embedder.embed(second, vectors.data());
  EXPECT_EQ(n_allocations(), before);
}

TEST(Embedder, TruncatesMatryoshkaVectorsBeforeNormalizing) {
  const TinyBert bert;
  const TemporaryFolder folder;
  bert.write(folder.path());
  EmbedderOptions options;
  options.dimensions = 10;
  Embedder embedder(folder.path(), cpu(), Compute::kF32, options);
  const std::vector<Ids> texts = random_texts({9});
  const std::vector<float> found = embed(embedder, texts);
  ASSERT_EQ(found.size(), 10u);
  const std::vector<double> whole = pooled(bert, texts[0], Pooling::kMean, false);
  double squares = 0;
  for (size_t i = 0; i < 10; ++i) squares += whole[i] * whole[i];
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(found[i], whole[i] / std::sqrt(squares), 2e-5);
}

TEST(Embedder, RefusesInvalidIdsAndLengths) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  Embedder embedder(folder.path(), cpu(), Compute::kF32);
  EXPECT_THROW(embed(embedder, {{2, 68, 3}}), Error);
  EXPECT_THROW(embed(embedder, {{2, -1, 3}}), Error);
  EXPECT_THROW(embed(embedder, {{}}), Error);
  EXPECT_THROW(embed(embedder, {Ids(41, 5)}), Error);
  EXPECT_NO_THROW(embed(embedder, {Ids(40, 67)}));
  EmbedderOptions options;
  options.dimensions = 65;
  EXPECT_THROW(Embedder(folder.path(), cpu(), Compute::kF32, options), Error);
  options = {};
  options.max_tokens = 41;
  EXPECT_THROW(Embedder(folder.path(), cpu(), Compute::kF32, options), Error);
}

std::string failure_of_loading(const TinyBert& bert,
                               const std::map<std::string, std::string>& files) {
  const TemporaryFolder folder;
  bert.write(folder.path());
  for (const auto& [name, text] : files) write_file(folder / name, text);
  try {
    Embedder embedder(folder.path(), cpu(), Compute::kF32);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.what();
  }
  return "loaded";
}

// A Dense module of sentence-transformers with the numbers `weight`, [n_out, n_in], and a bias of
// 0.1, 0.2, ...
void write_dense(const fs::path& folder, const std::string& activation, uint32_t n_out,
                 uint32_t n_in, const std::vector<float>& weight, uint32_t claimed_in) {
  fs::create_directory(folder);
  write_file(folder / "config.json", R"({"in_features": )" + std::to_string(claimed_in) +
                                         R"(, "out_features": )" + std::to_string(n_out) +
                                         R"(, "bias": true, "activation_function": ")" +
                                         activation + "\"}");
  const size_t n = weight.size() * sizeof(float);
  const std::string header = R"({"linear.weight":{"dtype":"F32","shape":[)" +
                             std::to_string(n_out) + "," + std::to_string(n_in) +
                             R"(],"data_offsets":[0,)" + std::to_string(n) +
                             R"(]},"linear.bias":{"dtype":"F32","shape":[)" +
                             std::to_string(n_out) + R"(],"data_offsets":[)" + std::to_string(n) +
                             "," + std::to_string(n + n_out * sizeof(float)) + "]}}";
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  file += header;
  file.append(reinterpret_cast<const char*>(weight.data()), n);
  for (uint32_t i = 0; i < n_out; ++i) {
    const float bias = 0.1f * static_cast<float>(i + 1);
    file.append(reinterpret_cast<const char*>(&bias), sizeof bias);
  }
  write_file(folder / "model.safetensors", file);
}

constexpr const char* kDenseModules = R"([
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
    {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
    {"type": "sentence_transformers.models.Dense", "path": "3_Dense"},
    {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"}])";

TEST(Embedder, AppliesDenseModulesBetweenPoolingAndNormalizing) {
  constexpr uint32_t kWide = 80, kNarrow = 12, d = TinyBert::kWidth;
  const TinyBert bert;
  const TemporaryFolder folder;
  bert.write(folder.path());
  std::vector<float> first(size_t{kWide} * d), second(size_t{kNarrow} * kWide);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i % 23) / 46 - 0.2f;
  for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<float>(i % 19) / 19 - 0.4f;
  write_dense(folder / "2_Dense", "torch.nn.modules.linear.Identity", kWide, d, first, d);
  write_dense(folder / "3_Dense", "torch.nn.modules.activation.Tanh", kNarrow, kWide, second,
              kWide);
  write_file(folder / "modules.json", kDenseModules);
  const std::vector<Ids> texts = random_texts({5, 17, 40});
  for (const char* device : {"cpu", "checked cpu"}) {
    Embedder embedder(folder.path(), open_test_device(device), Compute::kF32);
    ASSERT_EQ(embedder.dimensions(), kNarrow);
    std::vector<std::span<const int32_t>> spans(texts.begin(), texts.end());
    std::vector<float> found(texts.size() * kNarrow);
    embedder.embed(spans, found.data());
    for (size_t t = 0; t < texts.size(); ++t) {
      const std::vector<double> in = pooled(bert, texts[t], Pooling::kMean, false);
      std::vector<double> hidden(kWide), out(kNarrow);
      double squares = 0;
      for (uint32_t o = 0; o < kWide; ++o) {
        hidden[o] = 0.1f * static_cast<float>(o + 1);
        for (uint32_t i = 0; i < d; ++i) hidden[o] += double{first[o * d + i]} * in[i];
      }
      for (uint32_t o = 0; o < kNarrow; ++o) {
        double sum = 0.1f * static_cast<float>(o + 1);
        for (uint32_t i = 0; i < kWide; ++i) sum += double{second[o * kWide + i]} * hidden[i];
        out[o] = std::tanh(sum);
        squares += out[o] * out[o];
      }
      for (uint32_t o = 0; o < kNarrow; ++o) {
        EXPECT_NEAR(found[t * kNarrow + o], out[o] / std::sqrt(squares), 1e-4) << device << t << o;
      }
    }
  }
}

TEST(Embedder, ReportsDamagedDenseModules) {
  constexpr uint32_t d = TinyBert::kWidth;
  const TinyBert bert;
  const auto problem = [&](const std::function<void(const fs::path&)>& damage) {
    const TemporaryFolder folder;
    bert.write(folder.path());
    for (const char* name : {"2_Dense", "3_Dense"}) {
      write_dense(folder / name, "torch.nn.modules.linear.Identity", d, d,
                  std::vector<float>(size_t{d} * d), d);
    }
    write_file(folder / "modules.json", kDenseModules);
    damage(folder.path());
    try {
      Embedder embedder(folder.path(), cpu(), Compute::kF32);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  EXPECT_EQ(problem([](const fs::path&) {}), "loaded");
  const std::vector<float> small(2 * d);
  EXPECT_THAT(problem([&](const fs::path& folder) {
                write_dense(folder / "3_Dense", "Identity", 2, d, small, d - 1);
              }),
              HasSubstr("expected in_features 64"));
  EXPECT_THAT(problem([&](const fs::path& folder) {
                write_dense(folder / "3_Dense", "Identity", 2, d / 2, small, d);
              }),
              HasSubstr("linear.weight"));
  EXPECT_THAT(problem([&](const fs::path& folder) {
                write_dense(folder / "3_Dense", "torch.nn.ReLU", 2, d, small, d);
              }),
              HasSubstr("activation_function Identity or Tanh, found ReLU"));
  EXPECT_THAT(problem([&](const fs::path& folder) { fs::remove_all(folder / "3_Dense"); }),
              HasSubstr("3_Dense/config.json"));
  // Every byte of the header, and every length.
  const TemporaryFolder folder;
  bert.write(folder.path());
  write_dense(folder / "2_Dense", "Identity", 2, d, small, d);
  write_file(folder / "modules.json", R"([{"type": "models.Dense", "path": "2_Dense"}])");
  for (const char* name : {"config.json", "model.safetensors"}) {
    const fs::path file = folder / "2_Dense" / name;
    const std::string whole = read_file(file);
    for (size_t at = 0; at < std::min<size_t>(whole.size(), 220); ++at) {
      for (const bool cut : {true, false}) {
        std::string damaged = cut ? whole.substr(0, at) : whole;
        if (!cut) damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
        write_file(file, damaged);
        try {
          const auto weights = open_weights(folder.path());
          const auto layers = read_dense_layers(*weights, ModelFiles(folder.path()), {"2_Dense"});
          ASSERT_EQ(layers.size(), 1u);
          EXPECT_EQ(layers[0].weight.size(), size_t{layers[0].n_out} * layers[0].n_in);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kModel) << name << at;
        }
      }
    }
    write_file(file, whole);
  }
}

TEST(Embedder, ReportsUnknownFeaturesOfAModel) {
  const TinyBert bert;
  EXPECT_EQ(failure_of_loading(bert, {}), "loaded");
  EXPECT_THAT(failure_of_loading(
                  bert, {{"modules.json", R"([{"type": "sentence_transformers.models.CNN"}])"}}),
              HasSubstr("models.CNN"));
  for (const char* path : {"", "..", "../other", "/other"}) {
    EXPECT_THAT(
        failure_of_loading(bert, {{"modules.json", R"([{"type": "models.Dense", "path": ")" +
                                                       std::string(path) + "\"}]"}}),
        HasSubstr("expected a folder as the path of a module models.Dense"));
  }
  EXPECT_THAT(
      failure_of_loading(bert, {{"1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})"}}),
      HasSubstr("pooling_mode_max_tokens"));
  EXPECT_THAT(failure_of_loading(bert, {{"1_Pooling/config.json",
                                         R"({"pooling_mode_mean_tokens": true,
                                             "pooling_mode_cls_token": true})"}}),
              HasSubstr("expected one pooling"));
  const std::string sizes = R"("vocab_size": 68, "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 96, "max_position_embeddings": 40)";
  EXPECT_EQ(failure_of_loading(bert, {{"config.json", R"({"model_type": "bert", )" + sizes + "}"}}),
            "loaded");
  EXPECT_THAT(
      failure_of_loading(bert, {{"config.json", R"({"model_type": "bert", "hidden_act": "relu", )" +
                                                    sizes + "}"}}),
      HasSubstr("expected hidden_act \"gelu\", found \"relu\""));
  EXPECT_THAT(failure_of_loading(bert, {{"config.json", R"({"model_type": "bert",
                  "position_embedding_type": "alibi", "feed_forward_type": "reglu", )" +
                                                            sizes + "}"}}),
              HasSubstr("feed_forward_type \"geglu\" or \"original\", found \"reglu\""));
  EXPECT_THAT(failure_of_loading(bert, {{"config.json", R"({"model_type": "new",
                  "rope_scaling": {"type": "dynamic", "factor": 2.0}, )" +
                                                            sizes + "}"}}),
              HasSubstr("expected type \"ntk\", found \"dynamic\""));
  EXPECT_THAT(failure_of_loading(bert, {{"config.json", R"({"model_type": "mpnet",
                  "relative_attention_num_buckets": 16, )" + sizes +
                                                            "}"}}),
              HasSubstr("expected relative_attention_num_buckets 32, found 16"));
  EXPECT_THAT(
      failure_of_loading(bert, {{"config.json", R"({"model_type": "mpnet", )" + sizes + "}"}}),
      HasSubstr("expected a tensor encoder.position_bias.weight"));
  EXPECT_THAT(failure_of_loading(bert, {{"config.json", R"({"model_type": "gpt2"})"}}),
              HasSubstr("family gpt2"));
}

TEST(Embedder, ChecksTensorShapesAgainstTheConfiguration) {
  TinyBert bert;
  bert.shapes["encoder.layer.1.output.dense.weight"] = {96, 64};
  EXPECT_THAT(failure_of_loading(bert, {}),
              HasSubstr("encoder.layer.1.output.dense.weight of shape [64, 96], found [96, 64]"));
  bert = TinyBert();
  bert.tensors.erase("encoder.layer.0.attention.self.key.weight");
  bert.shapes.erase("encoder.layer.0.attention.self.key.weight");
  EXPECT_THAT(failure_of_loading(bert, {}), HasSubstr("expected a tensor encoder.layers.0.attn.k"));
}

}  // namespace
}  // namespace vesper::embedder_test
