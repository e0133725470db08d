// EmbeddingSession, with a tiny random BERT.
#include "session/embedding/embedding_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"

namespace vesper::embedding_session_test {
namespace {

using testing::HasSubstr;

class TinyEmbeddings : public testing::Test {
 protected:
  void SetUp() override {
    TinyBert().write(folder_.path());
    options_.device = "cpu";
    options_.compute = "f32";
  }
  EmbeddingSession& open() {
    session_ = std::make_unique<EmbeddingSession>(folder_.path(), options_);
    return *session_;
  }
  template <class Body>
  std::string setting_of(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.setting();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  EmbeddingSessionOptions options_;
  std::unique_ptr<EmbeddingSession> session_;
};

TEST_F(TinyEmbeddings, QuantizesTheWeights) {
  const std::vector<std::string> texts = {"the cat"};
  const std::vector<float> exact = open().embed(texts)[0].vector;
  options_.weights.type = "f32";
  EXPECT_EQ(open().embed(texts)[0].vector, exact);
  options_.weights.type = "q4_0";
  const std::vector<float> quantized = open().embed(texts)[0].vector;
  EXPECT_NE(quantized, exact);
  double cosine = 0;
  for (size_t i = 0; i < exact.size(); ++i) cosine += double{exact[i]} * quantized[i];
  EXPECT_GT(cosine, 0.95);
  options_.weights.type = "q9_z";
  EXPECT_EQ(setting_of([&] { open(); }), "weights");
}

TEST_F(TinyEmbeddings, GivesANormalizedVectorPerText) {
  const std::vector<std::string> texts = {"the cat", "a plan", "the cat"};
  const std::vector<Embedding> embeddings = open().embed(texts);
  ASSERT_EQ(embeddings.size(), 3u);
  EXPECT_EQ(embeddings[0].vector, embeddings[2].vector);
  EXPECT_NE(embeddings[0].vector, embeddings[1].vector);
  double squares = 0;
  for (const float value : embeddings[0].vector) squares += double{value} * value;
  EXPECT_NEAR(squares, 1, 1e-6);
  EXPECT_EQ(embeddings[0].vector.size(), size_t{TinyBert::kWidth});
  EXPECT_EQ(embeddings[0].n_tokens, 4u);
  EXPECT_TRUE(session_->embed({}).empty());
  EXPECT_THAT(session_->description(), HasSubstr("f32"));
  EXPECT_EQ(
      engine_text({.kind = "vulkan", .name = "GPU", .capabilities = {{"units", "none"}}}, "f32"),
      "vulkan (GPU), f32");
  EXPECT_EQ(engine_text({.kind = "vulkan",
                         .name = "GPU",
                         .capabilities = {{"matrix units", "not used: an old build"}}},
                        "f32"),
            "vulkan (GPU), f32; matrix units not used: an old build");
}

TEST_F(TinyEmbeddings, GivesTheSameVectorsInAnyBatch) {
  options_.embedder.batch_tokens = 40;
  EmbeddingSession& session = open();
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i) texts.push_back(i % 3 == 0 ? "the cat sat" : "a plan");
  const std::vector<Embedding> all = session.embed(texts);
  // Jobs that come one at a time, and some together.
  std::vector<Embedding> some;
  size_t n_given = 0;
  bool was_empty = false;
  session.embed_many([&](bool is_idle) -> std::optional<EmbeddingJob> {
    if (n_given == texts.size() || (n_given % 4 == 3 && !is_idle)) {
      was_empty = true;
      return std::nullopt;
    }
    return EmbeddingJob{session.tokenize(texts[n_given++]),
                        [&](Embedding embedding) { some.push_back(std::move(embedding)); }};
  });
  EXPECT_TRUE(was_empty);
  ASSERT_EQ(some.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(some[i].vector, all[i].vector) << i;
}

TEST_F(TinyEmbeddings, ReportsTruncation) {
  options_.embedder.max_tokens = 5;
  EmbeddingSession& session = open();
  const std::vector<std::string> texts = {"cat cat cat cat cat cat", "cat cat cat"};
  const std::vector<Embedding> embeddings = session.embed(texts);
  EXPECT_EQ(embeddings[0].n_tokens, 5u);
  EXPECT_EQ(embeddings[0].n_whole, 8u);
  EXPECT_EQ(embeddings[1].n_whole, 5u);
  EXPECT_EQ(embeddings[0].vector, embeddings[1].vector);
}

TEST_F(TinyEmbeddings, PutsAPromptBeforeEachText) {
  write_file(folder_ / "config_sentence_transformers.json",
             R"({"prompts": {"query": "plan for ", "document": "the "}})");
  EmbeddingSession& session = open();
  EXPECT_EQ(session.prompt(TextPurpose::kAny), "");
  EXPECT_EQ(session.prompt(TextPurpose::kQuery), "plan for ");
  EXPECT_EQ(session.prompt(TextPurpose::kPassage), "the ");
  EXPECT_EQ(session.prompt("query"), "plan for ");
  EXPECT_EQ(session.prompt("about: "), "about: ");
  EXPECT_EQ(setting_of([&] { session.prompt("passage"); }), "prefix");
  const std::vector<std::string> cat = {"cat"}, the_cat = {"the cat"};
  EXPECT_EQ(session.embed(cat, "the ")[0].vector, session.embed(the_cat)[0].vector);
}

TEST_F(TinyEmbeddings, TakesTokenIdsWithoutATokenizer) {
  const std::vector<std::string> texts = {"the cat"};
  const TokenizedText tokens = open().tokenize("the cat");
  const Embedding wanted = session_->embed(texts)[0];
  std::filesystem::remove(folder_ / "vocab.txt");
  EmbeddingSession& session = open();
  EXPECT_THROW(session.tokenizer(), Error);
  EXPECT_THROW(session.embed(texts), Error);
  std::vector<float> found;
  bool is_given = false;
  session.embed_many([&](bool) -> std::optional<EmbeddingJob> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return EmbeddingJob{session.tokenize(tokens.ids),
                        [&](const Embedding& embedding) { found = embedding.vector; }};
  });
  EXPECT_EQ(found, wanted.vector);
  EXPECT_THROW(session.tokenize(std::vector<int32_t>{}), Error);
  EXPECT_THROW(session.tokenize(std::vector<int32_t>{1, 100000}), Error);
  EXPECT_THROW(session.tokenize(std::vector<int32_t>{-1}), Error);
}

TEST_F(TinyEmbeddings, NamesInvalidSettings) {
  options_.embedder.dimensions = 65;
  EXPECT_EQ(setting_of([&] { open(); }), "dimensions");
  options_.embedder = {};
  options_.embedder.max_tokens = 2;
  EXPECT_EQ(setting_of([&] { open().tokenize("cat"); }), "max tokens");
  options_.embedder.max_tokens = 100;
  EXPECT_EQ(setting_of([&] { open(); }), "max tokens");
  options_.embedder = {};
  options_.compute = "f64";
  EXPECT_EQ(setting_of([&] { open(); }), "compute");
  options_.compute = "f32";
  options_.device = "abacus";
  EXPECT_EQ(setting_of([&] { open(); }), "device");
}

}  // namespace
}  // namespace vesper::embedding_session_test
