// Counts allocations of all libraries while an encoder's kernels run.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/llm/counted_allocations.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/cpu/encoder_operands.h"

namespace vesper::encoder_allocation_test {
namespace {

TEST(EncoderAllocations, AreCounted) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  const uint64_t before = n_allocations();
  std::vector<int>* made = new std::vector<int>(100);
  EXPECT_GE(n_allocations() - before, 2u);
  delete made;
}

TEST(EncoderAllocations, DoNotHappenInProducts) {
  std::mt19937 random(31);
  const auto device = testing::cpu();
  for (Compute compute : {Compute::kF32, Compute::kAuto, Compute::kI8}) {
    for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
      const testing::FileMatrix file(std::vector<float>(70 * 90, 0.1f), 70, 90, DType::kF32);
      const Weight weight = device->upload(file.source(), WeightUse::kManyRows, compute);
      MatmulParams params{};
      params.n_rows = params.rows_per_batch = 203;
      params.n_out = params.out_row_stride = 70;
      params.n_in = params.in_row_stride = 90;
      params.in_dtype = params.out_dtype = dtype;
      params.activation = kActivationGelu;
      params.weight_format = weight.format;
      Buffer in(dtype, 203 * 90);
      in.fill_random(random);
      DispatchTable table;
      emit::matmul(table, "test", params, device->allocate(203 * 70 * dtype_size(dtype), "out"),
                   testing::store(*device, in.bytes), weight.data, {}, {}, weight.scale);
      const ProgramId program = device->record(table);
      const uint64_t before = n_allocations();
      device->run(program);
      EXPECT_EQ(n_allocations() - before, 0u);
    }
  }
}

TEST(EncoderAllocations, DoNotHappenInAttention) {
  std::mt19937 random(32);
  const auto device = testing::cpu();
  for (uint32_t dtype : {kDTypeF32, kDTypeF16, kDTypeBF16}) {
    AttentionParams params{};
    params.n_sequences = 1;
    params.rows_per_sequence = 203;
    params.n_heads = params.n_kv_heads = 2;
    params.head_dim = 64;
    params.q_row_stride = params.k_row_stride = params.v_row_stride = params.out_row_stride = 128;
    params.scale = 0.125f;
    params.in_dtype = params.out_dtype = dtype;
    Buffer in(dtype, 203 * 128), out(dtype, 203 * 128);
    in.fill_random(random);
    const Operand rows = testing::store(*device, in.bytes);
    DispatchTable table;
    emit::attention(table, "test", params, testing::store(*device, out.bytes), rows, rows, rows);
    const ProgramId program = device->record(table);
    const uint64_t before = n_allocations();
    device->run(program);
    EXPECT_EQ(n_allocations() - before, 0u);
  }
}

}  // namespace
}  // namespace vesper::encoder_allocation_test
