// Rerankers compared with Hugging Face's transformers: tiny random models and their reference
// scores, made by tests/reference/make_rerankers.py.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "session/embedding/embedding_session.h"

namespace vesper {

inline std::filesystem::path reranker_folder(const std::string& kind) {
  return std::filesystem::path(RERANKERS) / kind;
}

inline nlohmann::json reranker_reference(const std::string& kind) {
  return nlohmann::json::parse(std::ifstream(reranker_folder(kind) / "reference.json"));
}

inline EmbeddingSessionOptions reranker_options(const std::string& device) {
  EmbeddingSessionOptions options;
  options.device = device;
  options.compute = "f32";
  options.is_reranker = true;
  return options;
}

// Token ids and scores of every pair, whole and cut.
inline void check_reranker(const std::string& kind, const std::string& device) {
  const nlohmann::json reference = reranker_reference(kind);
  const std::string query = reference["query"];
  const auto documents = reference["documents"].get<std::vector<std::string>>();
  EmbeddingSessionOptions options = reranker_options(device);
  for (const char* cut : {"", "cut_"}) {
    if (*cut != '\0') options.embedder.max_tokens = reference["cut"];
    EmbeddingSession session(reranker_folder(kind), options);
    EXPECT_EQ(session.dimensions(), 1u);
    const auto ids = reference[std::string(cut) + "ids"].get<std::vector<std::vector<int32_t>>>();
    const auto wanted = reference[std::string(cut) + "scores"].get<std::vector<float>>();
    for (size_t i = 0; i < documents.size(); ++i) {
      EXPECT_EQ(session.tokenize_pair(query, documents[i]).ids, ids[i]) << kind << " " << cut << i;
    }
    const std::vector<float> found = session.rerank(query, documents);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 2e-5) << kind << " " << cut << i;
    }
  }
}

inline constexpr const char* kRerankers[] = {"bert",           "xlm-roberta", "modernbert",
                                             "modernbert-cls", "qwen3",       "qwen3-untied"};

}  // namespace vesper
