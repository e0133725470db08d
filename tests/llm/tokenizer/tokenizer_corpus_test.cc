// Tokenizers of every kind that tokenizer.json describes, compared with Hugging Face's tokenizers
// 0.23.3: the hash of the ids of each line of a corpus. The tokenizers have the steps of real
// families and vocabularies trained on the corpus. tests/reference/make_tokenizer_fixtures.py makes
// the files, and larger ones for VESPER_TOKENIZER_CORPUS. SentencePiece files are compared with
// sentencepiece 0.2.3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/files/mapped_file.h"
#include "llm/tokenizer/files/gguf_tokenizer.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/tokenizer/files/sentence_piece_model.h"
#include "llm/tokenizer/unicode/utf8_stream.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::tokenizer_corpus_test {
namespace {

using testing::ElementsAre;

std::filesystem::path folder() {
  const char* given = std::getenv("VESPER_TOKENIZER_CORPUS");
  return given == nullptr ? TOKENIZER_FOLDER : given;
}

nlohmann::json read_json(const std::filesystem::path& path) { return parse_json(MappedFile(path)); }

// FNV-1a over the ids, 4 little-endian bytes each.
uint32_t hash_of(const std::vector<int32_t>& ids) {
  uint32_t value = 0x811c9dc5u;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      value = (value ^ (static_cast<uint32_t>(id) >> shift & 255)) * 0x01000193u;
    }
  }
  return value;
}

class TokenizerCorpus : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path path_ = folder() / GetParam();
};

TEST_P(TokenizerCorpus, EqualsHuggingFaceTokenizers) {
  const auto tokenizer = open_text_tokenizer(ModelFiles(path_));
  const auto lines = read_json(folder() / "corpus.json");
  const auto expected = read_json(path_ / "expected.json");
  ASSERT_EQ(lines.size(), expected.size());
  ASSERT_GE(lines.size(), 300u);
  size_t n_wrong = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto line = lines[i].get<std::string>();
    // 0: SentencePiece's own library has no ids for these texts of control tokens.
    const bool has_ids = !std::string_view(GetParam()).starts_with("spm_") ||
                         (line.find("<s>") == line.npos && line.find("</s>") == line.npos &&
                          line.find('\0') == line.npos);
    ASSERT_EQ(expected[i] != 0, has_ids) << line;
    const auto ids = tokenizer->encode(line, true, true);
    if (!has_ids || hash_of(ids) == expected[i].get<uint32_t>()) continue;
    if (++n_wrong <= 5) ADD_FAILURE() << "line " << i << ": " << lines[i].dump();
  }
  EXPECT_EQ(n_wrong, 0u) << "of " << lines.size();
}

TEST_P(TokenizerCorpus, StreamsValidText) {
  const auto tokenizer = open_text_tokenizer(ModelFiles(path_));
  for (const auto& line : read_json(folder() / "corpus.json")) {
    const auto ids = tokenizer->encode(line.get<std::string>(), true, false);
    TextStream stream(*tokenizer, true);
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = stream.push(id);
      ASSERT_EQ(valid_utf8_prefix(part), part.size()) << line.dump();
      text += part;
    }
    text += stream.finish();
    ASSERT_EQ(text, tokenizer->decode(ids, true));
    // Decoding gives the text back with vocabularies of bytes and no normalizer.
    const std::string name = GetParam();
    if (name == "gpt2" || name == "llama3" || name == "smollm" || name == "deepseek3") {
      ASSERT_EQ(text, line.get<std::string>());
    }
  }
}

// A file in memory.
std::shared_ptr<const MappedFile> file_of(const std::string& name, const std::string& text) {
  return std::make_shared<const MappedFile>(name, std::vector<uint8_t>(text.begin(), text.end()));
}

// The same tokenizer in the older files, vocabulary and merges.
ModelFiles as_vocabulary_and_merges(const std::filesystem::path& path, nlohmann::json config) {
  const auto root = read_json(path / "tokenizer.json");
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : root["model"]["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  for (const auto& token : root["added_tokens"]) {
    config["added_tokens_decoder"][std::to_string(token["id"].get<int>())] = token;
  }
  return ModelFiles(
      "here", {file_of("vocab.json", root["model"]["vocab"].dump()), file_of("merges.txt", merges),
               file_of("tokenizer_config.json", config.dump())});
}

TEST(VocabularyAndMerges, EqualTokenizerJson) {
  const std::pair<const char*, nlohmann::json> classes[] = {
      {"gpt2", nlohmann::json::object()},
      {"gpt2", {{"tokenizer_class", "GPT2TokenizerFast"}}},
      {"qwen2", {{"tokenizer_class", "Qwen2Tokenizer"}}},
      {"roberta", {{"tokenizer_class", "RobertaTokenizer"}, {"add_prefix_space", true}}}};
  for (const auto& [name, config] : classes) {
    const auto reference = open_text_tokenizer(ModelFiles(folder() / name));
    const auto tokenizer = open_text_tokenizer(as_vocabulary_and_merges(folder() / name, config));
    for (const auto& line : read_json(folder() / "corpus.json")) {
      const auto text = line.get<std::string>();
      ASSERT_EQ(tokenizer->encode(text, true, true), reference->encode(text, true, true)) << text;
    }
  }
}

TEST(VocabularyAndMerges, RefuseUnknownClasses) {
  const auto files =
      as_vocabulary_and_merges(folder() / "gpt2", {{"tokenizer_class", "CTRLTokenizer"}});
  EXPECT_THROW(
      {
        try {
          open_text_tokenizer(files);
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("CTRLTokenizer"), std::string::npos);
          throw;
        }
      },
      Error);
}

// The metadata that llama.cpp's converter writes for a SentencePiece model.
std::shared_ptr<const MappedFile> gguf_of(const std::filesystem::path& path, bool with_scores) {
  const MappedFile file(path);
  const SentencePieceModel model = read_sentence_piece_model(file.name(), file.bytes());
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const SentencePiece& piece : model.pieces) {
    tokens.push_back(piece.text);
    scores.push_back(static_cast<float>(piece.score));
    types.push_back(static_cast<int32_t>(piece.type));
  }
  GgufBytes gguf;
  gguf.string("tokenizer.ggml.model", model.is_bpe ? "llama" : "t5");
  gguf.strings("tokenizer.ggml.tokens", tokens);
  if (with_scores) gguf.array("tokenizer.ggml.scores", 6, scores);
  gguf.array("tokenizer.ggml.token_type", 5, types);
  gguf.scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 4, 0);
  gguf.scalar<uint32_t>("tokenizer.ggml.bos_token_id", 4, 1);
  gguf.scalar<uint32_t>("tokenizer.ggml.eos_token_id", 4, 2);
  gguf.scalar<uint8_t>("tokenizer.ggml.add_space_prefix", 7, model.add_dummy_prefix);
  gguf.scalar<uint8_t>("tokenizer.ggml.remove_extra_whitespaces", 7,
                       model.remove_extra_whitespaces);
  gguf.array("tokenizer.ggml.precompiled_charsmap", 0,
             std::vector<uint8_t>(model.charsmap.begin(), model.charsmap.end()));
  return gguf.file();
}

// <|end|> ends an answer of Phi, but only a message of gpt-oss.
TEST(TextTokenizer, KnowsTheEndOfMessagesOnChannels) {
  const auto tokenizer_of = [](const std::vector<std::string>& added) {
    TokenizerParts parts;
    parts.spellings = added;
    for (size_t i = 0; i < added.size(); ++i) {
      parts.added.push_back({.spelling = added[i], .id = static_cast<int32_t>(i), .special = true});
    }
    return TextTokenizer(std::move(parts));
  };
  const TextTokenizer phi = tokenizer_of({"<|user|>", "<|end|>", "<|endoftext|>"});
  EXPECT_FALSE(phi.has_channels());
  EXPECT_THAT(phi.stop_ids(), ElementsAre(1, 2));
  const TextTokenizer harmony = tokenizer_of({"<|end|>", "<|return|>", "<|call|>", "<|channel|>",
                                              "<|start|>", "<|message|>", "<|endoftext|>"});
  EXPECT_TRUE(harmony.has_channels());
  EXPECT_THAT(harmony.stop_ids(), ElementsAre(1, 2, 6));
}

TEST(GgufTokenizer, OfASentencePieceModelGivesTheSameIds) {
  for (const char* name : {"spm_llama", "spm_gemma", "spm_t5"}) {
    const auto file = gguf_of(folder() / name / "tokenizer.model", true);
    const Gguf gguf = read_gguf_files(ModelFiles("here", {file}), file);
    const TextTokenizer tokenizer(read_gguf_tokenizer("model.gguf", gguf));
    const auto reference = open_text_tokenizer(ModelFiles(folder() / name));
    // By default, texts start with bos for BPE and end with eos for T5.
    const bool is_bpe = tokenizer.kind() == "SentencePiece BPE";
    EXPECT_EQ(tokenizer.before().size(), is_bpe ? 1u : 0u);
    EXPECT_EQ(tokenizer.after().size(), is_bpe ? 0u : 1u);
    EXPECT_TRUE(tokenizer.is_end(2));
    for (const auto& line : read_json(folder() / "corpus.json")) {
      const auto text = line.get<std::string>();
      ASSERT_EQ(tokenizer.encode(text, true, false), reference->encode(text, true, false)) << text;
    }
  }
}

// Invalid UTF-8 becomes U+FFFD, as in llama.cpp for byte-level vocabularies, and in Python with
// errors="replace".
TEST(AnyTokenizer, ReplacesInvalidUtf8) {
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (!entry.is_directory()) continue;
    const auto tokenizer = open_text_tokenizer(ModelFiles(entry.path()));
    for (const auto& [bytes, text] : {std::pair("\xff", "\ufffd"),
                                      {"half \xe6\x97", "half \ufffd"},
                                      {"\xf0\x9f \xc3(", "\ufffd \ufffd("}}) {
      EXPECT_EQ(tokenizer->encode(bytes, true, false), tokenizer->encode(text, true, false))
          << entry.path() << ": " << text;
    }
  }
}

// Names of pre-tokenizers in GGUF files (tests/reference/make_pre_tokenizer_fixtures.py).
TEST(GgufTokenizer, SplitsTextAsItsPreTokenizerDoes) {
  const std::filesystem::path given = TOKENIZER_FOLDER;
  const auto lines = read_json(given / "corpus.json");
  const auto fixture = read_json(given / "pre_tokenizers.json");
  constexpr size_t kLinesOfAHash = 10;
  const auto tokenizer_of = [&](const std::string& pre_tokenizer) {
    GgufBytes gguf;
    gguf.string("tokenizer.ggml.model", "gpt2");
    gguf.string("tokenizer.ggml.pre", pre_tokenizer);
    gguf.strings("tokenizer.ggml.tokens", fixture["tokens"].get<std::vector<std::string>>());
    gguf.strings("tokenizer.ggml.merges", fixture["merges"].get<std::vector<std::string>>());
    const auto file = gguf.file();
    return read_gguf_tokenizer("model.gguf", read_gguf_files(ModelFiles("here", {file}), file));
  };
  for (const auto& row : fixture["pre_tokenizers"]) {
    for (const std::string name : row["names"]) {
      const TextTokenizer tokenizer(tokenizer_of(name));
      ASSERT_EQ(row["expected"].size(), lines.size() / kLinesOfAHash);
      for (size_t h = 0; h < row["expected"].size(); ++h) {
        std::vector<int32_t> ids;
        for (size_t i = h * kLinesOfAHash; i < (h + 1) * kLinesOfAHash; ++i) {
          const auto of_line = tokenizer.encode(lines[i].get<std::string>(), true, false);
          ids.insert(ids.end(), of_line.begin(), of_line.end());
        }
        EXPECT_EQ(hash_of(ids), row["expected"][h].get<uint32_t>())
            << name << ", from line " << h * kLinesOfAHash;
      }
    }
  }
  EXPECT_THROW(tokenizer_of("of no family"), Error);
}

TEST(GgufTokenizer, NeedsAScoreForEveryPiece) {
  const auto file = gguf_of(folder() / "spm_llama/tokenizer.model", false);
  const Gguf gguf = read_gguf_files(ModelFiles("here", {file}), file);
  EXPECT_THROW(read_gguf_tokenizer("model.gguf", gguf), Error);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerCorpus,
                         testing::Values("gpt2", "roberta", "llama3", "qwen2", "smollm", "tekken",
                                         "deepseek3", "deepseek_coder", "bloom", "llama2",
                                         "mistral", "gemma", "clip", "continuing", "odd", "bert",
                                         "bert_cased", "mpnet", "xlmr", "t5", "unigram_bytes",
                                         "words", "spm_llama", "spm_gemma", "spm_t5"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace vesper::tokenizer_corpus_test
