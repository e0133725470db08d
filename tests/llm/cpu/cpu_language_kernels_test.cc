#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/language_kernels_check.h"

namespace vesper::testing::cpu_language_kernels_test {
namespace {

TEST(CpuRope, NormalizesAndRotatesHeadsInPlace) {
  test::LanguageKernelsCheck(*cpu()).rope_without_pages();
}
TEST(CpuRope, WritesKeysAndValuesToPages) { test::LanguageKernelsCheck(*cpu()).rope_into_pages(); }
TEST(CpuGatedActivation, EqualsPlainFormulas) {
  test::LanguageKernelsCheck(*cpu()).gated_activation();
}
TEST(CpuNorm, AddsAResidualToItsResult) { test::LanguageKernelsCheck(*cpu()).norm_with_residual(); }
TEST(CpuNorm, ReplacesPartsOfWiderRows) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    test::LanguageKernelsCheck(*cpu()).norm_of_strided_rows(dtype);
  }
}
TEST(CpuActivation, AppliesSoftCaps) { test::LanguageKernelsCheck(*cpu()).soft_cap(); }
TEST(CpuPagedAttention, UsesWindowsAndSoftCaps) {
  const auto device = cpu();
  for (const uint32_t window : {0u, 1u, 5u, 17u, 200u}) {
    for (const float soft_cap : {0.0f, 2.0f}) {
      test::LanguageKernelsCheck(*device).attention_with_window(12, window, soft_cap);
      test::LanguageKernelsCheck(*device).attention_with_window(100, window, soft_cap);
      test::LanguageKernelsCheck(*device).attention_with_window(12, window, soft_cap, true);
      test::LanguageKernelsCheck(*device).attention_with_window(100, window, soft_cap, true);
    }
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_language_kernels_test
