#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/sampling_check.h"

namespace vesper::testing::cpu_sampling_test {
namespace {

TEST(CpuSampling, FollowsTheDefinitionOfEachFilter) {
  const auto device = cpu();
  // 2000 * 500 samples of each of 14 settings.
  test::SamplingCheck check(*device, 2000, 500);
  test::check_every_sampler(check);
}

TEST(CpuSampling, IsGreedyAtTemperatureZero) {
  const auto device = cpu();
  test::SamplingCheck(*device, 10, 1).greedy();
}

TEST(CpuSampling, StoresTokensLogProbabilitiesAndStops) {
  const auto device = cpu();
  test::SamplingCheck(*device, 500, 1).advances();
}

TEST(CpuSampling, MasksAreOfSequences) {
  const auto device = cpu();
  test::SamplingCheck(*device, 30, 1).masks_of_sequences();
}

}  // namespace
}  // namespace vesper::testing::cpu_sampling_test
