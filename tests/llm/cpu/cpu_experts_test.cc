#include "llm/cpu/cpu_features.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/experts_check.h"

namespace vesper::testing::cpu_experts_test {
namespace {

TEST(CpuExperts, RouteToTheHighestLogits) {
  test::ExpertsCheck(*cpu()).routes_to_the_highest_logits();
}
TEST(CpuExperts, GroupSlotsByExpert) { test::ExpertsCheck(*cpu()).groups_slots_by_expert(); }
TEST(CpuExperts, CombineWithTheirWeights) { test::ExpertsCheck(*cpu()).combines(); }
TEST(CpuExperts, HaveAClampedSwiGlu) { test::ExpertsCheck(*cpu()).clamped_swiglu(); }

TEST(CpuExperts, MultiplyLikeThePlainLoopInEveryFormat) {
  for (const uint32_t n_threads : {1u, 3u}) {
    const auto device = cpu(n_threads);
    test::ExpertsCheck check(*device);
    // Rounding of the inputs to int8 or bf16, and of the weights.
    for (const auto& [compute, tolerance] :
         {std::pair{Compute::kF32, 2e-6}, {Compute::kAuto, 1.5e-2}, {Compute::kI8, 1.5e-2}}) {
      for (const DType dtype : {DType::kF32, DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K,
                                DType::kIQ4_XS, DType::kMXFP4}) {
        for (const bool per_slot : {false, true}) {
          for (const uint32_t n_rows : {1u, 9u}) {
            check.multiplies(compute, dtype, n_rows, false, per_slot, tolerance);
          }
          for (const uint32_t n_rows : {9u, 200u}) {
            check.multiplies(compute, dtype, n_rows, true, per_slot, tolerance);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_experts_test
