// The readers of model files, with a tiny model in each format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::weights_test {
namespace {

using test::FileSet;
using test::TinyWhisper;
using testing::AllOf;
using testing::HasSubstr;

const TinyWhisper& small_model() {
  static const TinyWhisper model({.seed = 3,
                                  .n_mels = 6,
                                  .n_audio_ctx = 10,
                                  .n_text_ctx = 9,
                                  .n_vocab = 300,
                                  .d_model = 64,
                                  .n_heads = 2,
                                  .n_encoder_layers = 2,
                                  .n_decoder_layers = 3,
                                  .d_ffn = 96});
  return model;
}

std::unique_ptr<WeightProvider> open_set(const FileSet& files) {
  return open_weights(ModelFiles("folder", files));
}

std::vector<uint8_t> bytes_of(const FileSet& files, const std::string& name) {
  for (const auto& file : files) {
    if (file->name() == name) return {file->bytes().begin(), file->bytes().end()};
  }
  ADD_FAILURE() << "no file " << name;
  return {};
}

FileSet with_file(FileSet files, const std::string& name, std::vector<uint8_t> bytes) {
  std::erase_if(files, [&](const auto& file) { return file->name() == name; });
  files.push_back(std::make_shared<const MappedFile>(name, std::move(bytes)));
  return files;
}

FileSet with_text(FileSet files, const std::string& name, std::string_view text) {
  return with_file(std::move(files), name, {text.begin(), text.end()});
}

// The same bytes with the first occurrence of `from` replaced by as many bytes.
std::vector<uint8_t> patched(std::vector<uint8_t> bytes, std::string_view from,
                             std::string_view to) {
  const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  EXPECT_NE(at, bytes.end()) << from;
  EXPECT_EQ(from.size(), to.size());
  std::copy(to.begin(), to.end(), at);
  return bytes;
}

std::string error_of(const FileSet& files) {
  try {
    open_set(files);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.what();
  }
  return "no error";
}

struct Case {
  const char* format;
  DType dtype;
  double tolerance;  // relative to the largest magnitude in a row: half a step of the format
};

FileSet files_of(const TinyWhisper& model, const Case& c) {
  if (c.format == std::string("ggml")) return model.ggml(c.dtype);
  if (c.format == std::string("ctranslate2")) return model.ctranslate2(c.dtype);
  if (c.format == std::string("openai")) return model.openai(c.dtype);
  return model.safetensors(c.dtype);
}

class EveryFormat : public testing::TestWithParam<Case> {};

TEST_P(EveryFormat, GivesTheSameWeights) {
  const TinyWhisper& model = small_model();
  const auto weights = open_set(files_of(model, GetParam()));
  EXPECT_EQ(weights->format(), GetParam().format);
  EXPECT_EQ(weights->family(), "whisper");
  for (const auto& expected : model.tensors()) {
    const TensorView& found = weights->require(expected.name);
    EXPECT_EQ(found.shape, expected.shape) << expected.name;
    const auto values = read_f32(found);
    ASSERT_EQ(values.size(), expected.values.size());
    float extreme = 0.0f;
    for (const float value : expected.values) extreme = std::max(extreme, std::fabs(value));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected.values[i], GetParam().tolerance * extreme)
          << expected.name << " " << i;
    }
  }
}

TEST_P(EveryFormat, GivesTheSameConfiguration) {
  const TinyWhisper& model = small_model();
  const auto weights = open_set(files_of(model, GetParam()));
  const ModelConfig& facts = weights->config(ModelType::kWhisper);
  EXPECT_EQ(facts.n_mels, 6u);
  EXPECT_EQ(facts.encoder().n_positions, 10u);
  EXPECT_EQ(facts.decoder().n_positions, 9u);
  EXPECT_EQ(facts.n_vocab, 300u);
  EXPECT_EQ(facts.encoder().d_model, 64u);
  EXPECT_EQ(facts.decoder().d_model, 64u);
  EXPECT_EQ(facts.encoder().n_heads, 2u);
  EXPECT_EQ(facts.decoder().n_heads, 2u);
  EXPECT_EQ(facts.encoder().n_layers, 2u);
  EXPECT_EQ(facts.decoder().n_layers, 3u);
  EXPECT_EQ(facts.encoder().d_ffn, 96u);
  EXPECT_EQ(facts.decoder().d_ffn, 96u);
  EXPECT_EQ(weights->vocabulary(), model.vocabulary());
  if (weights->format() == "ggml") {
    EXPECT_EQ(facts.mel_filters, model.mel_filters());
    EXPECT_TRUE(facts.suppress_tokens.empty());
  } else if (weights->format() == "openai") {
    EXPECT_TRUE(facts.alignment_heads.empty());
  } else {
    EXPECT_TRUE(facts.mel_filters.empty());
    EXPECT_EQ(facts.alignment_heads, model.alignment_heads());
    EXPECT_EQ(facts.suppress_tokens, model.suppress_tokens());
    EXPECT_EQ(facts.suppress_tokens_at_begin, model.suppress_tokens_at_begin());
  }
}

TEST_P(EveryFormat, HasNoBiasForKeysAndNoSecondOutputMatrix) {
  const auto weights = open_set(files_of(small_model(), GetParam()));
  EXPECT_EQ(weights->find("encoder.layers.0.attn.k.bias"), nullptr);
  EXPECT_EQ(weights->find("decoder.layers.2.cross.k.bias"), nullptr);
  EXPECT_EQ(weights->find("decoder.output.weight"), nullptr);
}

// Steps of the formats: i8 1/127 of the row's extreme, q4_0 1/8 and q5_0 1/16 of the block's
// extreme, q4_1 2/15 and q5_1 2/31 (the block's range is at most twice the extreme), q8_0 1/127.
// The tolerance is half a step, more for q4_0 and q5_0, whose highest level is one step below the
// extreme, plus the rounding of the scale to f16.
// little for the scale's own rounding to f16.
INSTANTIATE_TEST_SUITE_P(
    , EveryFormat,
    testing::Values(Case{"openai", DType::kF32, 0}, Case{"openai", DType::kF16, 0},
                    Case{"openai", DType::kBF16, 0}, Case{"ggml", DType::kF32, 0},
                    Case{"ggml", DType::kF16, 0}, Case{"ggml", DType::kQ4_0, 1.01 / 8},
                    Case{"ggml", DType::kQ4_1, 1.05 / 15}, Case{"ggml", DType::kQ5_0, 1.01 / 16},
                    Case{"ggml", DType::kQ5_1, 1.05 / 31}, Case{"ggml", DType::kQ8_0, 0.6 / 127},
                    Case{"ctranslate2", DType::kF32, 0}, Case{"ctranslate2", DType::kF16, 0},
                    Case{"ctranslate2", DType::kBF16, 0},
                    Case{"ctranslate2", DType::kI8, 0.51 / 127},
                    Case{"safetensors", DType::kF32, 0}, Case{"safetensors", DType::kF16, 0},
                    Case{"safetensors", DType::kBF16, 0}),
    [](const auto& tested) {
      return std::string(tested.param.format) + "_" + dtype_descriptor(tested.param.dtype).name;
    });

TEST(Weights, AreRecognizedByContent) {
  const std::filesystem::path root =
      std::filesystem::path(testing::TempDir()) / "vesper_weights_test";
  test::write_files(small_model().ctranslate2(DType::kF16), root / "ct2");
  test::write_files(small_model().ggml(DType::kF16), root / "ggml");
  test::write_files(small_model().safetensors(DType::kF16, 3), root / "hf");
  std::filesystem::rename(root / "ggml" / "ggml.bin", root / "ggml" / "a-model.xyz");
  EXPECT_EQ(open_weights(root / "ct2")->format(), "ctranslate2");
  EXPECT_EQ(open_weights(root / "ct2" / "model.bin")->config().suppress_tokens.size(), 3u);
  EXPECT_EQ(open_weights(root / "ggml" / "a-model.xyz")->format(), "ggml");
  EXPECT_EQ(open_weights(root / "hf")->format(), "safetensors");
  std::filesystem::remove_all(root);
}

TEST(Weights, StayReadableAfterTheirPagesAreReleased) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "vesper_weights_release";
  test::write_files(small_model().ggml(DType::kF32), folder);
  const auto weights = open_weights(folder / "ggml.bin");
  const TensorView& embed = weights->require("decoder.embed.weight");
  const auto before = read_f32(embed);
  weights->release(embed);
  EXPECT_EQ(read_f32(embed), before);
  std::filesystem::remove_all(folder);
}

TEST(Weights, OfAShardedModelAreComplete) {
  const auto whole = open_set(small_model().safetensors(DType::kF32));
  const auto sharded = open_set(small_model().safetensors(DType::kF32, 3));
  ASSERT_EQ(sharded->tensors().size(), whole->tensors().size());
  for (const TensorView& tensor : whole->tensors()) {
    EXPECT_EQ(read_f32(sharded->require(tensor.name)), read_f32(tensor)) << tensor.name;
  }
}

TEST(Weights, AreNamedIfMissing) {
  const auto weights = open_set(small_model().ggml(DType::kF32));
  EXPECT_EQ(weights->find("no.such.tensor"), nullptr);
  try {
    weights->require("no.such.tensor");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no.such.tensor"));
  }
}

TEST(Weights, OfUnknownFormatAreAnErrorWithTheFirstBytes) {
  EXPECT_THAT(error_of(with_text({}, "model.bin", "ONNX\x03")),
              AllOf(HasSubstr("model.bin"), HasSubstr("4f 4e 4e 58 03")));
  EXPECT_THAT(error_of(with_text({}, "model.bin", "")), HasSubstr("an empty file"));
  EXPECT_THAT(error_of({}), HasSubstr("folder"));
}

TEST(ByteReader, ReadsUpToTheLastByte) {
  const MappedFile file("four", std::vector<uint8_t>{1, 2, 3, 4});
  ByteReader reader(file);
  EXPECT_EQ(reader.read<uint16_t>("a number"), 0x0201);
  EXPECT_THROW(reader.take(3, "the rest"), Error);
  EXPECT_EQ(reader.take(2, "the rest").size(), 2u);
  EXPECT_THROW(reader.read<uint8_t>("a byte"), Error);
}

TEST(Weights, AreOnlyReadFromFiles) {
  EXPECT_THROW(open_weights(std::filesystem::path("/no/such/file")), Error);
  EXPECT_THROW(open_weights(std::filesystem::path("/dev/null")), Error);
  const std::filesystem::path pipe =
      std::filesystem::path(testing::TempDir()) / "vesper_weights_pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(open_weights(pipe), Error);  // without waiting for a writer
  std::filesystem::remove(pipe);
}

TEST(Ggml, RefusesATensorOfWrongShape) {
  // Rows and columns of the innermost matrix swapped: [96, 64] becomes [64, 96].
  auto bytes = bytes_of(small_model().ggml(DType::kF32), "ggml.bin");
  const std::string name = "encoder.blocks.0.mlp.0.weight";
  const auto at = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  ASSERT_NE(at, bytes.end());
  std::swap_ranges(at - 8, at - 4, at - 4);
  EXPECT_THAT(error_of(with_file({}, "model.bin", bytes)),
              AllOf(HasSubstr(name), HasSubstr("found [64, 96]")));
}

TEST(Ggml, RefusesOlderBlockLayouts) {
  auto bytes = bytes_of(small_model().ggml(DType::kQ5_0), "ggml.bin");
  const int32_t first_layout = 1008;
  std::memcpy(bytes.data() + 11 * 4, &first_layout, 4);
  EXPECT_THAT(error_of(with_file({}, "model.bin", bytes)),
              AllOf(HasSubstr("version 1"), HasSubstr("expected version 2")));
}

TEST(Ggml, RefusesHeadsThatDoNotDivideTheWidth) {
  auto bytes = bytes_of(small_model().ggml(DType::kF32), "ggml.bin");
  bytes[4 * 4] = 3;  // n_audio_head
  EXPECT_THAT(error_of(with_file({}, "model.bin", bytes)), HasSubstr("n_encoder_heads"));
}

TEST(CTranslate2, InvertsTheScalesOfInt8) {
  const auto weights = open_set(small_model().ctranslate2(DType::kI8));
  const TensorView& value = weights->require("encoder.layers.1.attn.v.weight");
  const auto& expected = small_model().tensor("encoder.layers.1.attn.v.weight");
  ASSERT_EQ(value.dtype, DType::kI8);
  ASSERT_EQ(value.scale.size(), 64u);
  for (uint64_t row = 0; row < 64; ++row) {
    float extreme = 0.0f;
    for (uint64_t i = 0; i < 64; ++i) {
      extreme = std::max(extreme, std::fabs(expected.values[row * 64 + i]));
    }
    EXPECT_FLOAT_EQ(value.scale[row], extreme / 127.0f);
  }
}

TEST(CTranslate2, RefusesOtherSpecifications) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  const auto other = patched(bytes_of(files, "model.bin"), "WhisperSpec", "Wav2Vec_Spe");
  EXPECT_THAT(error_of(with_file(files, "model.bin", other)), HasSubstr("Wav2Vec_Spe"));
}

TEST(CTranslate2, RefusesNamesWithControlCharacters) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  const auto other = patched(bytes_of(files, "model.bin"), "WhisperSpec", "Whisper\nSpe");
  EXPECT_THAT(error_of(with_file(files, "model.bin", other)), HasSubstr("begins 06 00"));
  const auto bytes =
      patched(bytes_of(files, "model.bin"), "encoder/conv1/bias", "encoder/conv1\nbias");
  EXPECT_THAT(error_of(with_file(files, "model.bin", bytes)), HasSubstr("printable"));
}

TEST(CTranslate2, RefusesUnknownVersions) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  auto bytes = bytes_of(files, "model.bin");
  bytes[0] = 7;
  EXPECT_THAT(error_of(with_file(files, "model.bin", bytes)),
              AllOf(HasSubstr("offset 4"), HasSubstr("4 to 6"), HasSubstr("version 7")));
}

TEST(CTranslate2, RefusesMoreBytesThanTheDimensionsHave) {
  std::string bytes;
  const auto put = [&](uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  const auto put_name = [&](std::string_view name) {
    put(name.size() + 1, 2);
    bytes += name;
    bytes += '\0';
  };
  put(6, 4);  // version
  put_name("WhisperSpec");
  put(3, 4);  // revision
  put(1, 4);  // one variable, f32 [1] of 8 bytes
  put_name("v");
  put(1, 1);
  put(1, 4);
  put(0, 1);
  put(8, 4);
  put(0, 8);
  put(0, 4);  // no aliases
  EXPECT_THAT(error_of(with_file({}, "model.bin", {bytes.begin(), bytes.end()})),
              HasSubstr("variable v: expected 4 bytes by its dimensions, found a size of 8"));
}

TEST(CTranslate2, RefusesListsOutOfRange) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  EXPECT_THAT(error_of(with_text(files, "config.json", R"({"alignment_heads": [[3, 0]]})")),
              HasSubstr("alignment heads"));
  EXPECT_THAT(error_of(with_text(files, "config.json", R"({"suppress_ids": [300]})")),
              HasSubstr("found 300"));
  EXPECT_THAT(error_of(with_text(files, "config.json", R"({"suppress_ids": [-1]})")),
              HasSubstr("suppress_ids"));
  EXPECT_THAT(error_of(with_text(files, "preprocessor_config.json", R"({"feature_size": 128})")),
              HasSubstr("n_mels 128"));
}

TEST(CTranslate2, ReadsAJsonVocabulary) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  const auto weights =
      open_set(with_text(files, "vocabulary.json", R"(["a", "\u0120b", "<|x|>"])"));
  EXPECT_EQ(weights->vocabulary(), (std::vector<std::string>{"a", " b", "<|x|>"}));
}

TEST(Weights, HaveAtMostTheTokensOfTheModel) {
  const FileSet files = small_model().ctranslate2(DType::kF32);
  std::string tokens = "[\"0\"";
  for (int id = 1; id < 300; ++id) tokens += ",\"" + std::to_string(id) + "\"";
  EXPECT_EQ(open_set(with_text(files, "vocabulary.json", tokens + "]"))->vocabulary().size(), 300u);
  EXPECT_THAT(error_of(with_text(files, "vocabulary.json", tokens + ",\"300\"]")),
              HasSubstr("expected a vocabulary of at most 300 tokens, found 301"));
}

TEST(Safetensors, KeepsTensorNamesOfOtherModels) {
  FileSet files =
      with_text(small_model().safetensors(DType::kF32), "config.json", R"({"model_type": "bert"})");
  const auto weights = open_set(files);
  EXPECT_EQ(weights->family(), "bert");
  EXPECT_NE(weights->find("model.encoder.layers.0.fc1.weight"), nullptr);
  EXPECT_THROW(weights->config(ModelType::kWhisper), Error);
}

TEST(Safetensors, RefusesUnsupportedElementTypes) {
  const FileSet files = small_model().safetensors(DType::kF32);
  const auto bytes = patched(bytes_of(files, "model.safetensors"), "\"F32\"", "\"F64\"");
  EXPECT_THAT(error_of(with_file(files, "model.safetensors", bytes)),
              AllOf(HasSubstr("encoder.conv1.weight"), HasSubstr("F64")));
}

TEST(Safetensors, RefusesAnIndexWithPathsOutsideTheFolder) {
  EXPECT_THAT(error_of(with_text(
                  {std::make_shared<const MappedFile>("x.safetensors", std::vector<uint8_t>())},
                  "model.safetensors.index.json", R"({"weight_map": {"w": "../x.safetensors"}})")),
              HasSubstr("in this folder"));
}

TEST(Safetensors, RefusesOverlappingTensors) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  std::vector<uint8_t> bytes(8, 0);
  bytes[0] = static_cast<uint8_t>(header.size());
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + 8);
  EXPECT_THAT(error_of(with_file({}, "model.safetensors", bytes)),
              AllOf(HasSubstr("tensor b"), HasSubstr("overlaps another tensor")));
}

TEST(Safetensors, RefusesMoreBytesThanTheShapeHas) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})";
  std::vector<uint8_t> bytes(8, 0);
  bytes[0] = static_cast<uint8_t>(header.size());
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + 12);
  EXPECT_THAT(error_of(with_file({}, "model.safetensors", bytes)),
              HasSubstr("expected 8 bytes by its shape and dtype, found 12"));
}

TEST(Safetensors, RefusesADeeplyNestedHeader) {
  std::string header(1'000'000, '[');
  header.front() = '{';
  std::vector<uint8_t> bytes(8, 0);
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  bytes.insert(bytes.end(), header.begin(), header.end());
  EXPECT_THAT(error_of(with_file({}, "model.safetensors", bytes)), HasSubstr("nested"));
}

TEST(HuggingFace, ReadsMelFiltersInBothOrientations) {
  const FileSet files = small_model().safetensors(DType::kF32);
  for (const bool is_transposed : {false, true}) {
    const size_t n_rows = is_transposed ? 201 : 6;
    const size_t n_columns = is_transposed ? 6 : 201;
    std::string rows;
    for (size_t row = 0; row < n_rows; ++row) {
      rows += row == 0 ? "[" : ", [";
      for (size_t column = 0; column < n_columns; ++column) {
        const size_t place = is_transposed ? column * 201 + row : row * 201 + column;
        if (column > 0) rows += ", ";
        rows += std::to_string(place);
      }
      rows += "]";
    }
    const auto weights =
        open_set(with_text(files, "preprocessor_config.json", "{\"mel_filters\": [" + rows + "]}"));
    const auto& filters = weights->config(ModelType::kWhisper).mel_filters;
    ASSERT_EQ(filters.size(), 6u * 201u);
    for (size_t i = 0; i < filters.size(); ++i) {
      ASSERT_EQ(filters[i], static_cast<float>(i)) << is_transposed;
    }
  }
}

TEST(HuggingFace, ReadsItsVocabularyFromTokenizerJson) {
  FileSet files = small_model().safetensors(DType::kF32);
  std::erase_if(files, [](const auto& file) { return file->name() == "vocab.json"; });
  const auto weights = open_set(with_text(
      files, "tokenizer.json",
      R"({"model": {"vocab": {"a": 0, "\u0120b": 2}}, "added_tokens": [{"id": 3, "content": "<|x|>"}]})"));
  EXPECT_EQ(weights->vocabulary(), (std::vector<std::string>{"a", "", " b", "<|x|>"}));
  EXPECT_THAT(
      error_of(with_text(files, "tokenizer.json", R"({"model": {"vocab": {"a": 4000000000}}})")),
      HasSubstr("below 300"));
}

}  // namespace
}  // namespace vesper::weights_test
