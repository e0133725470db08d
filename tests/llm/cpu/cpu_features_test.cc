#include "llm/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/llm/cpu/required_instructions.h"

namespace vesper::cpu_features_test {
namespace {

// Run with each value of VESPER_CPU_TARGET, and without one.
TEST(CpuFeatures, LimitTheInstructionSetOfKernels) {
  const char* wanted = std::getenv("VESPER_CPU_TARGET");
  const std::string limit = wanted == nullptr || *wanted == 0 ? "amx" : wanted;
  const std::string used = vector_target_name();
  const bool is_avx512 = used.starts_with("AVX3");
  if (limit == "generic") {
    EXPECT_NE(used, "AVX2");
  }
  if (limit == "generic" || limit.starts_with("avx2")) {
    EXPECT_FALSE(is_avx512) << used;
    EXPECT_FALSE(cpu_features().avx512_vnni);
  }
  if (limit != "amx" && limit != "avx512_bf16") {
    EXPECT_FALSE(cpu_features().avx512_bf16);
  }
  EXPECT_EQ(cpu_features().amx && limit != "amx", false);
}

TEST(CpuFeatures, OfAnOlderCpuAreMissedByRerunsForANewerOne) {
  const CpuFeatures avx2{.avx2 = true};
  const CpuFeatures zen5{.avx2 = true, .avx_vnni = true, .avx512_vnni = true, .avx512_bf16 = true};
  using testing::missing_instructions;
  EXPECT_EQ(missing_instructions("generic", {}, "SSE4"), "");
  EXPECT_EQ(missing_instructions("avx2", {}, "SSE4"), "AVX2");
  EXPECT_EQ(missing_instructions("avx2", avx2, "AVX2"), "");
  EXPECT_EQ(missing_instructions("avx2_vnni", avx2, "AVX2"), "AVX-VNNI");
  EXPECT_EQ(missing_instructions("avx512", avx2, "AVX2"), "AVX-512");
  EXPECT_EQ(missing_instructions("avx512_vnni", avx2, "AVX3"), "AVX512-VNNI");
  EXPECT_EQ(missing_instructions("avx512_bf16", avx2, "AVX2"), "AVX512-BF16");
  EXPECT_EQ(missing_instructions("avx512_bf16", zen5, "AVX3"), "");
  EXPECT_NE(missing_instructions("amx", zen5, "AVX3"), "");
}

}  // namespace
}  // namespace vesper::cpu_features_test
