// Counts calls of the allocator, of whatever library, while an encoder's kernels run.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "llm/cpu/attention/encoder_attention.h"
#include "llm/cpu/cpu_features.h"
#include "tests/llm/counted_allocations.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/cpu/encoder_operands.h"

namespace vesper::encoder_allocation_test {
namespace {

TEST(EncoderAllocations, AreSeenByThisTest) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "sanitizers bring an allocator of their own";
  const uint64_t before = n_allocations();
  std::vector<int>* made = new std::vector<int>(100);
  EXPECT_GE(n_allocations() - before, 2u);
  delete made;
}

TEST(EncoderAllocations, DoNotHappenInProducts) {
  std::mt19937 random(31);
  const auto device = testing::cpu();
  for (Compute compute : {Compute::kF32, Compute::kBF16, Compute::kI8}) {
    if (compute == Compute::kBF16 && !cpu_features().avx512_bf16) continue;
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
    const AttentionTasks tasks = prepare_attention(params, false, 2);
    auto scratch = hwy::AllocateAligned<uint8_t>(tasks.scratch_bytes);
    const uint64_t before = n_allocations();
    for (uint32_t t = 0; t < tasks.n_tasks; ++t) {
      run_attention_task(params, tasks,
                         {out.bytes.data(), in.bytes.data(), in.bytes.data(), in.bytes.data()}, t,
                         scratch.get());
    }
    EXPECT_EQ(n_allocations() - before, 0u);
  }
}

}  // namespace
}  // namespace vesper::encoder_allocation_test
