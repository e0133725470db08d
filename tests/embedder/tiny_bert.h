// A tiny BERT with random weights, as sentence-transformers would save it; and what it computes, by
// plain loops in double precision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace vesper {

struct TinyBert {
  static constexpr uint32_t kLayers = 2, kWidth = 64, kHeads = 2, kFfn = 96, kPositions = 40;
  static constexpr uint32_t kTypes = 2;
  static constexpr double kEpsilon = 1e-12;
  // XLM-R counts positions from behind the padding token's id on.
  static constexpr uint32_t kRobertaFirstPosition = 2;

  // The same weights every time; as a BERT, or under the names and with the positions of XLM-R.
  explicit TinyBert(bool as_xlm_roberta = false);

  // Writes config.json, model.safetensors, vocab.txt, modules.json and 1_Pooling/config.json, whose
  // pooling is `mode` ("mean_tokens", "cls_token", "lasttoken"). Vectors are normalized.
  void write(const std::filesystem::path& folder, const std::string& mode = "mean_tokens") const;

  // The rows of the last layer for one sequence, [ids.size(), kWidth].
  std::vector<double> rows(const std::vector<int32_t>& ids) const;

  bool xlm_roberta;
  std::vector<std::string> vocabulary;  // [PAD], [UNK], [CLS], [SEP], then words and letters
  std::map<std::string, std::vector<float>> tensors;  // by transformers' names
  std::map<std::string, std::vector<uint64_t>> shapes;
};

}  // namespace vesper
