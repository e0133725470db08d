// Embeddings through the C API, with a tiny model: the results of the program, and what each option
// does.
#include <gtest/gtest.h>
#include <vesper.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"

namespace vesper::capi_embedding_test {
namespace {

using Arguments = std::vector<std::string>;

class CEmbeddings : public testing::Test {
 protected:
  CEmbeddings() {
    std::filesystem::create_directories(path_);
    TinyBert().write(path_);
    vesper_embedder_options_init(&options_, sizeof options_);
    options_.load.device = "cpu";
    options_.load.compute = "f32";
  }
  // The vectors as `embed` prints them, a line of JSON each.
  std::vector<std::vector<float>> embed(const char* prefix = nullptr) {
    vesper_embedder* embedder = nullptr;
    EXPECT_EQ(vesper_embedder_open(path_.c_str(), &options_, &embedder), VESPER_OK)
        << vesper_last_error();
    const uint32_t n = vesper_embedder_dimensions(embedder);
    std::vector<float> all(kTexts.size() * n);
    n_tokens_.assign(kTexts.size(), 0);
    EXPECT_EQ(vesper_embed(embedder, kTexts.data(), kTexts.size(), prefix, nullptr, all.data(),
                           n_tokens_.data()),
              VESPER_OK)
        << vesper_last_error();
    vesper_embedder_close(embedder);
    std::vector<std::vector<float>> vectors;
    for (size_t i = 0; i < kTexts.size(); ++i) {
      vectors.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * n),
                           all.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    }
    return vectors;
  }
  std::vector<std::vector<float>> program(Arguments arguments) {
    arguments.insert(arguments.begin(),
                     {EMBED, "-m", path_, "--device", "cpu", "--compute", "f32"});
    arguments.insert(arguments.end(), kTexts.begin(), kTexts.end());
    const ChildResult result = run_child(arguments, {});
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::vector<float>> vectors;
    for (const std::string& line : lines_of(result.out)) {
      vectors.push_back(nlohmann::json::parse(line).get<std::vector<float>>());
    }
    return vectors;
  }

  const std::vector<const char*> kTexts = {"the cat", "a plan", "the cat sat", "a"};
  TemporaryFolder folder_;
  const std::string path_ = folder_.file("bert");
  vesper_embedder_options options_;
  std::vector<uint32_t> n_tokens_;
};

TEST_F(CEmbeddings, HasTheOptionsOfTheProgram) {
  const auto plain = embed();
  EXPECT_EQ(program({}), plain);
  const std::vector<uint32_t> n_tokens = n_tokens_;
  const vesper_embedder_options base = options_;
  const auto check = [&](const Arguments& arguments, const char* prefix = nullptr) {
    const auto found = embed(prefix);
    EXPECT_EQ(program(arguments), found);
    EXPECT_NE(found, plain);
    options_ = base;
  };
  options_.pooling = "cls";
  check({"--pooling", "cls"});
  options_.normalize = 0;
  check({"--no-normalize"});
  options_.dimensions = 16;
  check({"--dimensions", "16"});
  options_.max_tokens = 3;
  check({"--max-tokens", "3"});
  EXPECT_EQ(n_tokens_, n_tokens);  // of the whole texts
  check({"--prefix", "a plan "}, "a plan ");
  options_.batch_tokens = 8;  // only other batches
  EXPECT_EQ(embed(), plain);
  options_.normalize = 1;
  EXPECT_EQ(embed(), plain);
}

// The scores of tests/reference/make_rerankers.py, and errors of arguments.
TEST(CReranker, ScoresPairs) {
  const std::filesystem::path folder = RERANKER;
  const auto reference = nlohmann::json::parse(std::ifstream(folder / "reference.json"));
  const std::string query = reference["query"];
  const auto texts = reference["documents"].get<std::vector<std::string>>();
  const std::vector<const char*> queries(texts.size(), query.c_str());
  std::vector<const char*> documents;
  for (const std::string& text : texts) documents.push_back(text.c_str());
  const size_t n = texts.size();
  vesper_embedder_options options;
  vesper_embedder_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.compute = "f32";
  options.reranker = 1;
  vesper_embedder* reranker = nullptr;
  ASSERT_EQ(vesper_embedder_open(folder.c_str(), &options, &reranker), VESPER_OK)
      << vesper_last_error();
  std::vector<float> scores(n);
  std::vector<uint32_t> n_tokens(n);
  const auto rerank = [&](auto... arguments) {
    return vesper_rerank(arguments..., scores.data(), nullptr);
  };
  ASSERT_EQ(vesper_rerank(reranker, queries.data(), documents.data(), n, nullptr, scores.data(),
                          n_tokens.data()),
            VESPER_OK)
      << vesper_last_error();
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(scores[i], reference["scores"][i].get<float>(), 2e-5);
    EXPECT_EQ(n_tokens[i], reference["ids"][i].size());
  }
  const char* missing[] = {nullptr};
  EXPECT_EQ(rerank(reranker, nullptr, nullptr, 0, nullptr), VESPER_OK);
  for (const vesper_status status :
       {rerank(nullptr, queries.data(), documents.data(), 1, nullptr),
        rerank(reranker, nullptr, documents.data(), 1, nullptr),
        rerank(reranker, queries.data(), nullptr, 1, nullptr),
        rerank(reranker, missing, documents.data(), 1, nullptr),
        rerank(reranker, queries.data(), missing, 1, nullptr),
        vesper_rerank(reranker, queries.data(), documents.data(), 1, nullptr, nullptr, nullptr),
        vesper_embed(reranker, documents.data(), 1, nullptr, nullptr, scores.data(), nullptr)}) {
    EXPECT_EQ(status, VESPER_ERROR_USAGE);
  }
  vesper_embedder_close(reranker);
}

}  // namespace
}  // namespace vesper::capi_embedding_test
