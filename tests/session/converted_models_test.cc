// Converted models compute what their originals do, and converted tokenizers give the same tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/conversion/gguf_keys.h"
#include "llm/devices/open_device.h"
#include "llm/files/json_file.h"
#include "llm/generation/generator.h"
#include "llm/generation/sampling_defaults.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/weights/tensor_names.h"
#include "llm/weights/weight_provider.h"
#include "session/conversion.h"
#include "session/embedding/embedding_session.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/models/all_logits.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/session/text/tiny_text_model.h"

namespace vesper::converted_models_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<float> logits_of(const fs::path& model, uint32_t n_tokens) {
  return all_logits(*open_weights(model), text_of_tokens(n_tokens));
}

struct Family {
  const char* name;
  uint32_t n_tokens = 40;
};

class ConvertedModels : public testing::TestWithParam<Family> {};

TEST_P(ConvertedModels, GiveTheSameLogits) {
  const TemporaryFolder folder;
  const fs::path source = fs::path(LANGUAGE_MODELS) / GetParam().name;
  const fs::path output = folder / "out.gguf";
  const ConversionReport report = convert_model({source, output, "f32"});
  EXPECT_THAT(report.left_out, IsEmpty());
  const uint32_t n = GetParam().n_tokens;
  EXPECT_LT(largest_difference(logits_of(output, n), logits_of(source, n)), 1e-4);
  if (n < 40) {
    EXPECT_EQ(report.shortened_context, 9u) << "the sliding window";
  } else {
    EXPECT_EQ(report.shortened_context, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, ConvertedModels,
    testing::Values(Family{"llama"}, Family{"llama3"}, Family{"llama-yarn"}, Family{"qwen2"},
                    Family{"qwen3"}, Family{"qwen3-moe"}, Family{"qwen2-moe"}, Family{"gemma"},
                    Family{"phi3"}, Family{"phi3-long"}, Family{"smollm3"}, Family{"mistral", 9},
                    Family{"mixtral", 9}, Family{"granite"}, Family{"granite-moe"}, Family{"glm"},
                    Family{"glm4"}, Family{"olmo2"}, Family{"olmo3"}, Family{"olmoe"},
                    Family{"gpt-oss"}, Family{"gpt-oss-mxfp4"}),
    [](const testing::TestParamInfo<Family>& family) {
      std::string name = family.param.name;
      std::erase(name, '-');
      return name;
    });

// The vectors of two texts in token ids.
std::vector<float> vectors_of(const fs::path& model) {
  EmbeddingSession session(model, {.device = "cpu", .compute = "f32"});
  std::vector<float> vectors;
  size_t n_started = 0;
  const std::vector<std::vector<int32_t>> texts = {{1, 7, 20, 33, 5, 60, 2}, {3, 4}};
  session.embed_many([&](bool) -> std::optional<EmbeddingJob> {
    if (n_started == texts.size()) return std::nullopt;
    return EmbeddingJob{session.tokenize(texts[n_started++]), [&](Embedding found) {
                          vectors.insert(vectors.end(), found.vector.begin(), found.vector.end());
                        }};
  });
  return vectors;
}

TEST(ConvertedTextEncoder, GivesTheSameVectors) {
  for (const char* family : {"bert", "roberta", "nomic-bert", "modernbert"}) {
    SCOPED_TRACE(family);
    const TemporaryFolder folder;
    const fs::path source = fs::path(TEXT_ENCODERS) / family;
    convert_model({source, folder / "out.gguf", "f32", 2});
    EXPECT_LT(largest_difference(vectors_of(folder / "out.gguf"), vectors_of(source)), 1e-5);
    convert_model({source, folder / "q8_0.gguf", "q8_0", 2});
    const double loss = largest_difference(vectors_of(folder / "q8_0.gguf"), vectors_of(source));
    EXPECT_GT(loss, 0);
    EXPECT_LT(loss, 0.05);
  }
}

TEST(ConvertedTextEncoder, HasItsTokenizerPoolingAndTokenTypes) {
  const TemporaryFolder folder;
  for (const auto& [mode, type] :
       std::vector<std::pair<std::string, uint64_t>>{{"mean_tokens", 1}, {"cls_token", 2}}) {
    TinyBert().write(folder / mode, mode);
    const ConversionReport report =
        convert_model({folder / mode, folder / (mode + ".gguf"), "f32", 2});
    EXPECT_THAT(report.left_out, IsEmpty());
    const auto weights = open_weights(folder / (mode + ".gguf"));
    EXPECT_EQ(weights->gguf()->find_unsigned("bert.pooling_type"), type);
    EXPECT_EQ(weights->gguf()->find_unsigned("tokenizer.ggml.token_type_count"), TinyBert::kTypes);
    const auto embed = [&](const fs::path& model) {
      EmbeddingSession session(model, {.device = "cpu", .compute = "f32"});
      return session.embed(std::vector<std::string>{"the cat, a plan!"})[0].vector;
    };
    EXPECT_LT(largest_difference(embed(folder / (mode + ".gguf")), embed(folder / mode)), 1e-5);
  }
}

TEST(ConvertedTextEncoder, IsRejectedIfGgufCannotStateIt) {
  const TemporaryFolder folder;
  const auto error_of = [&](const fs::path& model) -> std::string {
    try {
      convert_model({model, folder / "out.gguf", "f32", 2});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of(fs::path(TEXT_ENCODERS) / "new"),
              HasSubstr("expected a family that GGUF has a name for, found new"));
  TinyBert().write(folder / "dense");
  write_file(folder / "dense/modules.json",
             R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                 {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                 {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])");
  EXPECT_THAT(error_of(folder / "dense"), HasSubstr("found a dense layer in 2_Dense"));
  EXPECT_FALSE(fs::exists(folder / "out.gguf"));
}

TEST(ConvertedModel, IsRejectedIfGgufHasNoKeyForAFact) {
  const TemporaryFolder folder;
  const fs::path output = folder / "out.gguf";
  try {
    convert_model({fs::path(LANGUAGE_MODELS) / "gemma2", output, "f32"});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_THAT(error.what(), HasSubstr("the attention scale is 0.204124, and 0.25"));
  }
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(ConvertedModel, HasItsTokenizerChatTemplateAndSampling) {
  const TemporaryFolder folder;
  write_tiny_text_weights(folder / "model");
  write_letter_tokenizer(folder / "model");
  write_file(folder / "model/generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
                 "repetition_penalty": 1.1, "eos_token_id": [0]})");
  convert_model({folder / "model", folder / "out.gguf", "f16"});
  const auto source = open_text_tokenizer(folder / "model");
  const auto converted = open_text_tokenizer(folder / "out.gguf");
  for (const char* text : {"Hello, World", "<user>a b<end>", "<think>so</think>!"}) {
    EXPECT_EQ(converted->encode(text, true, true), source->encode(text, true, true)) << text;
    EXPECT_EQ(converted->decode(source->encode(text, true, true), true), text);
  }
  EXPECT_EQ(converted->eos(), source->eos());
  EXPECT_TRUE(converted->is_special(1));
  EXPECT_FALSE(converted->is_special(2)) << "the tag of thinking";
  const auto weights = open_weights(folder / "out.gguf");
  const Sampling sampling = sampling_defaults(*weights).sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 20u);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_THAT(std::string(*weights->gguf()->find_string("tokenizer.chat_template")),
              HasSubstr("{% for message in messages %}"));
}

// The tokenizer as GGUF metadata, without a model.
std::unique_ptr<TextTokenizer> through_gguf(const fs::path& folder, uint32_t n_vocab) {
  GgufWriter writer;
  write_tokenizer_keys(ModelFiles(folder), n_vocab, writer);
  const std::string head = writer.head();
  const auto file = std::make_shared<const MappedFile>(
      "made.gguf", std::vector<uint8_t>(head.begin(), head.end()));
  return open_text_tokenizer("made.gguf", read_gguf_files(ModelFiles(folder), file));
}

// Hugging Face's unigram tokenizers split at white space that SentencePiece, of which GGUF's are,
// does not; the sign of a space in the text itself, and a space with a combining mark, differ too.
bool has_rare_space(const std::string& text) {
  const auto has = [&](const char* sign) { return text.find(sign) != std::string::npos; };
  return has("\v") || has("\f") || has("\u0085") || has("\u1680") || has("\u2028") ||
         has("\u2029") || has("\u2581") || has("\u2003\u073f");
}

TEST(ConvertedTokenizers, GiveTheSameTokens) {
  const fs::path folder = TOKENIZER_FOLDER;
  const nlohmann::json lines = parse_json(MappedFile(folder / "corpus.json"));
  for (const char* name : {"gpt2", "llama3", "qwen2", "smollm", "tekken", "llama2", "gemma",
                           "spm_llama", "spm_gemma", "bert", "t5", "xlmr"}) {
    SCOPED_TRACE(name);
    const auto source = open_text_tokenizer(ModelFiles(folder / name));
    const auto converted = through_gguf(folder / name, source->n_vocab() + 3);
    size_t n_wrong = 0, n = 0;
    for (const auto& line : lines) {
      const auto text = line.get<std::string>();
      // GGUF does not state that Qwen2 normalizes a text to NFC and that XLM-R splits at all white
      // space, and has U+2581 before each word of WordPiece.
      const std::vector<int32_t> plain = source->encode(text, true, false);
      if (std::string_view(name) == "qwen2" && source->decode(plain, true) != text) continue;
      if (std::string_view(name) == "bert" && text.find("\u2581") != text.npos) continue;
      const bool is_unigram = source->kind() == "unigram";
      if (is_unigram && has_rare_space(text)) continue;
      ++n;
      n_wrong += source->encode(text, true, true) != converted->encode(text, true, true);
    }
    EXPECT_EQ(n_wrong, 0u) << "of " << n;
    EXPECT_GT(n, 150u);
    EXPECT_EQ(converted->bos() >= 0 ? converted->bos() : -1,
              source->before().empty() ? source->bos() : source->before()[0]);
  }
}

TEST(ConvertedTokenizers, AreRejectedIfGgufCannotStateThem) {
  const fs::path folder = TOKENIZER_FOLDER;
  for (const char* name : {"clip", "unigram_bytes", "words", "odd"}) {
    EXPECT_THROW(through_gguf(folder / name, 100'000), Error) << name;
  }
}

fs::path write_whisper(const TemporaryFolder& folder, const test::FileSet& files) {
  fs::create_directories(folder / "whisper");
  test::write_files(files, folder / "whisper");
  return folder / "whisper";
}

TEST(ConvertedWhisper, HasTheSameWeightsFromEveryFormat) {
  const test::TinyWhisper tiny;
  for (const test::FileSet& files : {tiny.ctranslate2(DType::kF32), tiny.safetensors(DType::kF32),
                                     tiny.ggml(DType::kF32), tiny.openai(DType::kF32)}) {
    const TemporaryFolder folder;
    convert_model({write_whisper(folder, files), folder / "out.bin", "f32"});
    const auto weights = open_weights(folder / "out.bin");
    EXPECT_EQ(weights->format(), "ggml");
    EXPECT_EQ(weights->config().mel_filters.size(), tiny.mel_filters().size());
    EXPECT_EQ(weights->vocabulary()[220], " ");
    for (const test::TinyTensor& tensor : tiny.tensors()) {
      const TensorView* found = weights->find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(read_f32(*found), tensor.values) << tensor.name;
    }
  }
}

TEST(ConvertedWhisper, HasOneFormatForAllMatrices) {
  const TemporaryFolder folder;
  const test::TinyWhisper tiny;
  const fs::path model = write_whisper(folder, tiny.ctranslate2(DType::kF16));
  convert_model({model, folder / "out.bin", "q5_0"});
  const auto weights = open_weights(folder / "out.bin");
  EXPECT_EQ(weights->find("decoder.embed.weight")->dtype, DType::kQ5_0);
  EXPECT_EQ(weights->find("encoder.layers.1.ffn.down.weight")->dtype, DType::kQ5_0);
  EXPECT_EQ(weights->find("encoder.conv1.weight")->dtype, DType::kF16);
  EXPECT_EQ(weights->find("encoder.position.weight")->dtype, DType::kF32);
  try {
    convert_model({model, folder / "no.bin", "q4_k"});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rows of a multiple of 256 for type q4_k, found 64"));
  }
  EXPECT_FALSE(fs::exists(folder / "no.bin"));
}

TEST(FileTensorName, IsTheInverseOfCanonicalNames) {
  for (const TensorNaming* naming :
       {&kGgufLanguageModelNaming, &kGgufPhi3Naming, &kGgufGptOssNaming, &kGgufTextEncoderNaming,
        &kGgufModernBertNaming, &kGgmlWhisperNaming, &kHuggingFaceLanguageModelNaming}) {
    size_t n = 0;
    for (const auto& [stem, canonical] : naming->layer_stems) {
      for (const auto& [prefix, canonical_prefix] : naming->layer_prefixes) {
        std::string name = std::string(prefix) + "12" + naming->separator + std::string(stem) +
                           naming->separator + std::string(naming->leaves[0].first);
        if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, "7");
        for (std::string part : canonical_names(*naming, name)) {
          if (const size_t at = part.find('*'); at != std::string::npos) part.replace(at, 1, "7");
          const auto found = file_tensor_name(*naming, part);
          ASSERT_TRUE(found) << part;
          const auto back = canonical_names(*naming, found->name);
          EXPECT_EQ(back, found->parts) << part;
          ++n;
        }
      }
    }
    EXPECT_GT(n, 10u);
    EXPECT_FALSE(file_tensor_name(*naming, "decoder.layers.1.unheard.weight"));
  }
}

}  // namespace
}  // namespace vesper::converted_models_test
