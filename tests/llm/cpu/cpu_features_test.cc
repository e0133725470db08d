#include "llm/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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

}  // namespace
}  // namespace vesper::cpu_features_test
