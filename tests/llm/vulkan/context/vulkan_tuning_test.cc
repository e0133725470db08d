#include "llm/vulkan/context/vulkan_tuning.h"

#include <gmock/gmock.h>

#include <string>

#include "error/error.h"

namespace vesper {
namespace {

TEST(VulkanTuning, IsFoundByKindOfDevice) {
  EXPECT_TRUE(vulkan_tuning(true, "").polls);
  EXPECT_FALSE(vulkan_tuning(false, "").polls);
  EXPECT_EQ(vulkan_tuning(true, "").tiles.front().rows, 16u);
  EXPECT_EQ(vulkan_tuning(false, "").tiles.front().rows, 64u);
}

TEST(VulkanTuning, CanBeChangedByFieldName) {
  const VulkanTuning tuning = vulkan_tuning(true,
                                            "matmul_tile=1x2x3x4x5,attention_splits=7,vector_"
                                            "shape=6x2,attention_tile=2x1x32x1,attention_shared=1,"
                                            "step_attention=3x2x96,order_groups=0");
  EXPECT_EQ(tuning.tiles.front().rows, 1u);
  EXPECT_EQ(tuning.tiles.back().subgroup_outs, 5u);
  EXPECT_EQ(tuning.attention_splits, 7u);
  EXPECT_EQ(tuning.vector_outs_of_many, 6u);
  EXPECT_EQ(tuning.vector_split, 2u);
  EXPECT_EQ(tuning.attention_tile.keys, 32u);
  EXPECT_EQ(tuning.attention_tile.buffers, 1u);
  EXPECT_EQ(tuning.attention_tile_of_wide_heads.keys, 32u);
  EXPECT_EQ(tuning.attention_shared, 1u);
  EXPECT_EQ(tuning.order_groups, 0u);
  EXPECT_EQ(tuning.step_attention.heads, 3u);
  EXPECT_EQ(tuning.step_attention_of_codes.keys, 2u);
  EXPECT_EQ(tuning.step_attention_of_many.threads, 96u);
  EXPECT_EQ(tuning.vector_rows, vulkan_tuning(true, "").vector_rows);
}

TEST(VulkanTuning, ReportsInvalidEntries) {
  for (const std::string wrong :
       {"matmul_tiles=1x2x3x4x5", "matmul_tile=1x2", "vector_rows=", "vector_rows",
        "vector_rows=0x1", "vector_rows=4x", "=4", "attention_splits=99999999999"}) {
    try {
      vulkan_tuning(true, "vector_rows=8x2," + wrong);
      ADD_FAILURE() << wrong << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), testing::HasSubstr("expected matmul_tile=NxNxNxNxN, "));
      EXPECT_THAT(error.what(), testing::HasSubstr("step_attention=NxNxN, "));
      EXPECT_THAT(error.what(), testing::HasSubstr("found '" + wrong + "'"));
    }
  }
}

}  // namespace
}  // namespace vesper
