#include "decoder/words/alignment_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vesper::alignment_heads_test {
namespace {

using testing::ElementsAre;
using Head = std::array<uint32_t, 2>;

ModelConfig sizes(uint32_t n_layers, uint32_t n_heads, uint32_t n_vocab) {
  ModelConfig model;
  model.stacks.resize(2);
  model.decoder().n_layers = n_layers;
  model.decoder().n_heads = n_heads;
  model.n_vocab = n_vocab;
  return model;
}

TEST(AlignmentHeads, AreReadFromTheFile) {
  ModelConfig model = sizes(4, 6, 51864);
  model.alignment_heads = {{3, 1}, {0, 5}, {3, 1}};
  EXPECT_THAT(alignment_heads(model), ElementsAre(Head{0, 5}, Head{3, 1}));
}

TEST(AlignmentHeads, AreThoseOfThePublishedModelOfTheSameSize) {
  EXPECT_THAT(alignment_heads(sizes(4, 6, 51865)),  // tiny
              ElementsAre(Head{2, 2}, Head{3, 0}, Head{3, 2}, Head{3, 3}, Head{3, 4}, Head{3, 5}));
  EXPECT_THAT(alignment_heads(sizes(6, 8, 51864)),  // base.en
              ElementsAre(Head{3, 3}, Head{4, 7}, Head{5, 1}, Head{5, 5}, Head{5, 7}));
  EXPECT_EQ(alignment_heads(sizes(32, 20, 51865)).size(), 23u);  // large-v2
  EXPECT_EQ(alignment_heads(sizes(32, 20, 51866)).size(), 10u);  // large-v3
}

TEST(AlignmentHeads, AreTheUpperHalfOfAnUnknownModel) {
  EXPECT_THAT(alignment_heads(sizes(3, 2, 51865)),
              ElementsAre(Head{1, 0}, Head{1, 1}, Head{2, 0}, Head{2, 1}));
}

TEST(AlignmentHeads, OfKnownModelsAreInRange) {
  for (const auto& [n_layers, n_heads] :
       {std::array<uint32_t, 2>{4, 6}, {6, 8}, {12, 12}, {24, 16}, {32, 20}, {4, 20}}) {
    for (uint32_t n_vocab : {51864u, 51865u, 51866u}) {
      for (const auto& [layer, head] : alignment_heads(sizes(n_layers, n_heads, n_vocab))) {
        EXPECT_LT(layer, n_layers);
        EXPECT_LT(head, n_heads);
      }
    }
  }
}

}  // namespace
}  // namespace vesper::alignment_heads_test
