#include "tests/llm/kernels/sampling_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::sampling_test {
namespace {

class Sampling : public VulkanTest {};

TEST_F(Sampling, FollowsTheDefinitionOfEachFilter) {
  test::SamplingCheck check(device(), 500, 4);
  test::check_every_sampler(check);
}

TEST_F(Sampling, IsGreedyAtTemperatureZero) { test::SamplingCheck(device(), 10, 1).greedy(); }

TEST_F(Sampling, StoresTokensLogProbabilitiesAndStops) {
  test::SamplingCheck(device(), 500, 1).advances();
}

TEST_F(Sampling, MasksAreOfSequences) { test::SamplingCheck(device(), 30, 1).masks_of_sequences(); }

}  // namespace
}  // namespace vesper::sampling_test
