#include "tests/llm/kernels/language_kernels_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::language_kernels_test {
namespace {

class LanguageKernels : public VulkanTest {};

TEST_F(LanguageKernels, RopeNormalizesAndRotatesHeadsInPlace) {
  test::LanguageKernelsCheck(device()).rope_without_pages();
}
TEST_F(LanguageKernels, RopeWritesKeysAndValuesToPages) {
  test::LanguageKernelsCheck(device()).rope_into_pages();
}
TEST_F(LanguageKernels, GatedActivationEqualsPlainFormulas) {
  test::LanguageKernelsCheck(device()).gated_activation();
}
TEST_F(LanguageKernels, NormAddsAResidualToItsResult) {
  test::LanguageKernelsCheck(device()).norm_with_residual();
}
TEST_F(LanguageKernels, NormReplacesPartsOfWiderRows) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    test::LanguageKernelsCheck(device()).norm_of_strided_rows(dtype);
  }
}
TEST_F(LanguageKernels, ActivationAppliesSoftCaps) {
  test::LanguageKernelsCheck(device()).soft_cap();
}
TEST_F(LanguageKernels, AttentionUsesWindowsAndSoftCaps) {
  for (const uint32_t window : {0u, 1u, 5u, 17u, 200u}) {
    for (const float soft_cap : {0.0f, 2.0f}) {
      test::LanguageKernelsCheck(device()).attention_with_window(12, window, soft_cap);
      test::LanguageKernelsCheck(device()).attention_with_window(100, window, soft_cap);
      test::LanguageKernelsCheck(device()).attention_with_window(12, window, soft_cap, true);
      test::LanguageKernelsCheck(device()).attention_with_window(100, window, soft_cap, true);
    }
  }
}

}  // namespace
}  // namespace vesper::language_kernels_test
