#include "tests/llm/kernels/kv_pages_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::kv_pages_test {
namespace {

class KvPages : public VulkanTest {};

TEST_F(KvPages, HaveTheNearestCodes) {
  for (const KvTypes& types : test::all_kv_types()) {
    for (const uint32_t head_dim : {32u, 64u, 96u}) {
      test::KvPagesCheck(device()).writes_rows(types, head_dim);
    }
  }
}

TEST_F(KvPages, AreCopiedWithTheirScales) {
  for (const KvTypes& types : test::all_kv_types())
    test::KvPagesCheck(device()).copies_pages(types);
}

// With queries of f16, prompts run on matrix units where there are some.
TEST_F(KvPages, AreReadByAttention) {
  for (const KvTypes& types : test::some_kv_types()) {
    for (test::KvPagesCheck::AttentionCase c : test::kv_attention_cases()) {
      test::KvPagesCheck(device()).attends(types, c);
      if (c.flags == 0) continue;
      c.q = DType::kF16;
      test::KvPagesCheck(device()).attends(types, c);
    }
  }
}

TEST_F(KvPages, AreReadByAttentionWithSinks) {
  for (const KvTypes& types : {KvTypes(DType::kF32), KvTypes(DType::kF16), KvTypes(DType::kQ8_0)}) {
    for (test::KvPagesCheck::AttentionCase c : test::sink_cases()) {
      test::KvPagesCheck(device()).attends(types, c);
      if (c.flags == 0) continue;
      c.q = DType::kF16;
      test::KvPagesCheck(device()).attends(types, c);
    }
  }
}

TEST_F(KvPages, AreReadByAttentionWeights) {
  for (const DType keys : {DType::kQ8_0, DType::kQ4_0}) test::KvPagesCheck(device()).weighs(keys);
}

}  // namespace
}  // namespace vesper::kv_pages_test
