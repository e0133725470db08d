#include <gmock/gmock.h>

#include "error/error.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/kv_pages_check.h"

namespace vesper::testing::cpu_kv_pages_test {
namespace {

TEST(CpuKvPages, HaveTheNearestCodes) {
  const auto device = cpu();
  for (const KvTypes& types : test::all_kv_types()) {
    for (const uint32_t head_dim : {32u, 64u, 96u}) {
      test::KvPagesCheck(*device).writes_rows(types, head_dim);
    }
  }
}

TEST(CpuKvPages, AreCopiedWithTheirScales) {
  const auto device = cpu();
  for (const KvTypes& types : test::all_kv_types()) test::KvPagesCheck(*device).copies_pages(types);
}

TEST(CpuKvPages, AreReadByAttention) {
  const std::unique_ptr<Device> devices[] = {cpu(1), cpu(2)};
  for (const KvTypes& types : test::some_kv_types()) {
    for (const test::KvPagesCheck::AttentionCase& c : test::kv_attention_cases()) {
      for (const auto& device : devices) test::KvPagesCheck(*device).attends(types, c);
    }
  }
}

TEST(CpuAttention, HasSinks) {
  const auto device = cpu(2);
  for (const KvTypes& types : {KvTypes(DType::kF32), KvTypes(DType::kF16), KvTypes(DType::kQ8_0)}) {
    for (test::KvPagesCheck::AttentionCase c : test::sink_cases()) {
      test::KvPagesCheck(*device).attends(types, c);
      c.flags |= kAttentionRounds;
      test::KvPagesCheck(*device).attends(types, c);
    }
  }
}

TEST(CpuKvPages, AreReadByAttentionWeights) {
  const auto device = cpu();
  for (const DType keys : {DType::kQ8_0, DType::kQ4_0}) test::KvPagesCheck(*device).weighs(keys);
}

// A row that has no whole blocks is refused.
TEST(CpuKvPages, NeedWholeBlocks) {
  const auto device = cpu();
  const Operand memory = device->allocate(1 << 12, "rows and pages");
  WriteKvParams p{};
  p.n_rows = p.n_kv_heads = p.pages_per_sequence = p.rows_per_sequence = 1;
  p.head_dim = p.in_row_stride = 80;
  p.page_rows = 8;
  p.kv_dtypes = KvTypes(DType::kQ8_0).codes();
  DispatchTable table;
  emit::write_kv(table, "write", p, memory, memory, memory, memory, {}, memory);
  try {
    device->record(table);
    ADD_FAILURE() << "rows of 80 elements were accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("quantized rows have whole blocks"));
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_kv_pages_test
