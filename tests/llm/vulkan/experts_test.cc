#include "tests/llm/kernels/experts_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::experts_test {
namespace {

class Experts : public VulkanTest {};

TEST_F(Experts, RouteToTheHighestLogits) {
  test::ExpertsCheck(device()).routes_to_the_highest_logits();
}
TEST_F(Experts, GroupSlotsByExpert) { test::ExpertsCheck(device()).groups_slots_by_expert(); }
TEST_F(Experts, CombineWithTheirWeights) { test::ExpertsCheck(device()).combines(); }
TEST_F(Experts, HaveAClampedSwiGlu) { test::ExpertsCheck(device()).clamped_swiglu(); }

TEST_F(Experts, MultiplyLikeThePlainLoopInEveryFormat) {
  test::ExpertsCheck check(device());
  for (const auto& [compute, tolerance] :
       {std::pair{Compute::kF32, 3e-6}, {Compute::kI8, 1.5e-2}}) {
    for (const DType dtype : {DType::kF32, DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K,
                              DType::kIQ4_XS, DType::kMXFP4}) {
      for (const bool per_slot : {false, true}) {
        check.multiplies(compute, dtype, 1, false, per_slot, tolerance);
        check.multiplies(compute, dtype, 9, false, per_slot, tolerance);
        check.multiplies(compute, dtype, 70, true, per_slot, tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace vesper::experts_test
