// The tokenizer of embedding models: WordPiece and Unigram, from each file that describes one.
#include "embedder/sentence_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "error/error.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::sentence_tokenizer_test {
namespace {

using testing::ElementsAre;

TEST(SentenceTokenizer, KeepsSpecialTokensWhenTruncating) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  const SentenceTokenizer tokenizer{ModelFiles(folder.path())};
  EXPECT_THAT(tokenizer.encode("The budgets, next year.", 40).ids,
              ElementsAre(2, 4, 5, 11, 12, 9, 8, 13, 3));
  const TokenizedText cut = tokenizer.encode("The budgets, next year.", 5);
  EXPECT_THAT(cut.ids, ElementsAre(2, 4, 5, 11, 3));
  EXPECT_EQ(cut.n_tokens, 9u);
  EXPECT_THAT(tokenizer.encode("", 40).ids, ElementsAre(2, 3));
  EXPECT_EQ(tokenizer.least_tokens(), 3u);
}

TEST(SentenceTokenizer, EncodesTheSpellingOfASpecialToken) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  const SentenceTokenizer tokenizer{ModelFiles(folder.path())};
  EXPECT_THAT(tokenizer.encode("cat[SEP]cat [PAD]", 40).ids, ElementsAre(2, 6, 3, 6, 0, 3));
}

// Ids of Hugging Face's tokenizers 0.23.3, printed by tests/reference/make_unigram_fixture.py,
// which made the file.
TEST(SentenceTokenizer, ReadsAUnigramModelOfSentencePiece) {
  const SentenceTokenizer tokenizer{ModelFiles(UNIGRAM_FOLDER)};
  const auto ids = [&](const char* text) { return tokenizer.encode(text, 100).ids; };
  EXPECT_THAT(ids("the next budget"), ElementsAre(0, 5, 4, 9, 7, 25, 10, 17, 2));
  EXPECT_THAT(ids("Budgets\u3000 for \ufb01ve years!"),
              ElementsAre(0, 17, 6, 18, 20, 21, 18, 12, 24, 7, 13, 6, 3, 2));
  EXPECT_THAT(ids("  two  spaces "), ElementsAre(0, 27, 35, 20, 4, 6, 15, 44, 36, 19, 2));
  EXPECT_THAT(ids("x東京y"), ElementsAre(0, 4, 25, 3, 34, 2));
  EXPECT_THAT(ids("\u2460"), ElementsAre(0, 4, 3, 2));
  EXPECT_THAT(ids("e\u0301"), ElementsAre(0, 4, 3, 2));
  EXPECT_THAT(ids(""), ElementsAre(0, 2));
  EXPECT_THAT(ids("the</s>year"), ElementsAre(0, 5, 2, 13, 2));
}

TEST(SentenceTokenizer, RefusesADamagedUnigramModel) {
  const std::string sound = read_file(std::filesystem::path(UNIGRAM_FOLDER) / "tokenizer.json");
  const TemporaryFolder folder;
  const auto loads = [&](const std::string& from, const std::string& to) {
    std::string damaged = sound;
    const size_t at = damaged.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    damaged.replace(at, from.size(), to);
    write_file(folder / "tokenizer.json", damaged);
    try {
      SentenceTokenizer{ModelFiles(folder.path())}.encode("the next \ufb01ve e\u0301", 100);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(loads("Unigram", "Unigram"));
  EXPECT_FALSE(loads("\"unk_id\":3", "\"unk_id\":46"));
  EXPECT_FALSE(loads("\"byte_fallback\":false", "\"byte_fallback\":7"));
  EXPECT_FALSE(loads("\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"////"));
  EXPECT_FALSE(loads("\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"!"));
  EXPECT_FALSE(loads("Metaspace", "Nonsense"));
  // A trie with offsets out of bounds gives no replacements, and no crash.
  const size_t table = sound.find("\"precompiled_charsmap\":\"") + 24;
  const size_t table_end = sound.find('"', table);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = sound;
    for (int n = 0; n < 5; ++n) {
      damaged[table + 8 + random() % (table_end - table - 16)] = "Azb09/+Q"[random() % 8];
    }
    write_file(folder / "tokenizer.json", damaged);
    const SentenceTokenizer tokenizer{ModelFiles(folder.path())};
    for (const char* text : {"the next \ufb01ve e\u0301 \u2460 B\u3000x", "東京", "abc"}) {
      EXPECT_GE(tokenizer.encode(text, 100).ids.size(), 3u);
    }
  }
}

TEST(SentenceTokenizer, ReadsTokenizerJsonBeforeVocabTxt) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  const std::string head = R"({"model": {"type": "WordPiece", "unk_token": "<u>",
      "vocab": {"<u>": 0, "<s>": 1, "</s>": 2, "Cat": 3, "cat": 4}},
      "added_tokens": [{"id": 1, "content": "<s>"}], )";
  const std::string cased = R"("normalizer": {"type": "BertNormalizer", "lowercase": false},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, )";
  write_file(folder / "tokenizer.json", head + cased +
                                            R"("post_processor": {"type": "BertProcessing",
      "cls": ["<s>", 1], "sep": ["</s>", 2]}})");
  EXPECT_THAT(SentenceTokenizer(ModelFiles(folder.path())).encode("Cat cat", 9).ids,
              ElementsAre(1, 3, 4, 2));
  write_file(folder / "tokenizer.json",
             head + cased + R"("post_processor": {"type": "TemplateProcessing",
      "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "e"}}],
      "special_tokens": {"e": {"ids": [2, 2]}}}})");
  EXPECT_THAT(SentenceTokenizer(ModelFiles(folder.path())).encode("Cat dog", 9).ids,
              ElementsAre(3, 0, 2, 2));
  for (const char* wrong : {"{}", R"({"model": {"type": "Nonsense"}})", "[]",
                            R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": -1}}})"}) {
    write_file(folder / "tokenizer.json", wrong);
    EXPECT_THROW(SentenceTokenizer{ModelFiles(folder.path())}, Error) << wrong;
  }
}

TEST(SentenceTokenizer, IsReadFromGgufMetadata) {
  const TemporaryFolder folder;
  const auto bytes =
      GgufBytes()
          .string("general.architecture", "bert")
          .string("tokenizer.ggml.model", "bert")
          .strings("tokenizer.ggml.tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581cat"})
          .array<int32_t>("tokenizer.ggml.token_type", 5, {3, 2, 3, 3, 1})
          .scalar<uint32_t>("tokenizer.ggml.bos_token_id", 4, 2)
          .scalar<uint32_t>("tokenizer.ggml.seperator_token_id", 4, 3)
          .scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 4, 1)
          .bytes();
  write_file(folder / "model.gguf", std::string(bytes.begin(), bytes.end()));
  // Files beside it are not read.
  write_file(folder / "vocab.txt", "[UNK]\n[CLS]\n[SEP]\ndog\n");
  const std::filesystem::path file = folder / "model.gguf";
  EXPECT_THAT(SentenceTokenizer(file).encode("Cat dog", 9).ids, ElementsAre(2, 4, 1, 3));
}

}  // namespace
}  // namespace vesper::sentence_tokenizer_test
