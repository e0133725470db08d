#include "decoder/words/alignment_heads.h"

#include <algorithm>

namespace vesper {
namespace {

using Heads = std::vector<std::array<uint32_t, 2>>;

struct KnownModel {
  uint32_t n_layers, n_heads;  // of the decoder
  uint32_t n_vocab;
  Heads heads;
};

// Vocabulary sizes: English-only, multilingual, and multilingual since large-v3.
constexpr uint32_t kEnglish = 51864, kMultilingual = 51865, kWithCantonese = 51866;

// openai-whisper 20250625, whisper/__init__.py, _ALIGNMENT_HEADS. large and large-v2 have one
// shape; this is large-v2.
const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      // tiny.en, tiny
      {4, 6, kEnglish, {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}}},
      {4, 6, kMultilingual, {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}}},
      // base.en, base
      {6, 8, kEnglish, {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}}},
      {6, 8, kMultilingual, {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1}, {5, 2}, {5, 4}, {5, 6}}},
      // small.en, small
      {12,
       12,
       kEnglish,
       {{6, 6},
        {7, 0},
        {7, 3},
        {7, 8},
        {8, 2},
        {8, 5},
        {8, 7},
        {9, 0},
        {9, 4},
        {9, 8},
        {9, 10},
        {10, 0},
        {10, 1},
        {10, 2},
        {10, 3},
        {10, 6},
        {10, 11},
        {11, 2},
        {11, 4}}},
      {12,
       12,
       kMultilingual,
       {{5, 3}, {5, 9}, {8, 0}, {8, 4}, {8, 7}, {8, 8}, {9, 0}, {9, 7}, {9, 9}, {10, 5}}},
      // medium.en, medium
      {24,
       16,
       kEnglish,
       {{11, 4},
        {14, 1},
        {14, 12},
        {14, 14},
        {15, 4},
        {16, 0},
        {16, 4},
        {16, 9},
        {17, 12},
        {17, 14},
        {18, 7},
        {18, 10},
        {18, 15},
        {20, 0},
        {20, 3},
        {20, 9},
        {20, 14},
        {21, 12}}},
      {24, 16, kMultilingual, {{13, 15}, {15, 4}, {15, 15}, {16, 1}, {20, 0}, {23, 4}}},
      // large-v2, large-v3
      {32, 20, kMultilingual, {{10, 12}, {13, 17}, {16, 11}, {16, 12}, {16, 13}, {17, 15},
                               {17, 16}, {18, 4},  {18, 11}, {18, 19}, {19, 11}, {21, 2},
                               {21, 3},  {22, 3},  {22, 9},  {22, 12}, {23, 5},  {23, 7},
                               {23, 13}, {25, 5},  {26, 1},  {26, 12}, {27, 15}}},
      {32,
       20,
       kWithCantonese,
       {{7, 0},
        {10, 17},
        {12, 18},
        {13, 12},
        {16, 1},
        {17, 14},
        {19, 11},
        {21, 4},
        {24, 1},
        {25, 6}}},
      // turbo
      {4, 20, kWithCantonese, {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}}},
  };
  return models;
}

}  // namespace

std::vector<std::array<uint32_t, 2>> alignment_heads(const ModelConfig& model) {
  Heads heads = model.alignment_heads;
  if (heads.empty()) {
    for (const KnownModel& known : known_models()) {
      if (known.n_layers == model.decoder().n_layers && known.n_heads == model.decoder().n_heads &&
          known.n_vocab == model.n_vocab) {
        heads = known.heads;
      }
    }
  }
  if (heads.empty()) {
    for (uint32_t layer = model.decoder().n_layers / 2; layer < model.decoder().n_layers; ++layer) {
      for (uint32_t head = 0; head < model.decoder().n_heads; ++head)
        heads.push_back({layer, head});
    }
  }
  std::sort(heads.begin(), heads.end());
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  return heads;
}

}  // namespace vesper
