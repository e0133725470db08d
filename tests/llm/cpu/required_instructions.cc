#include "tests/llm/cpu/required_instructions.h"

#include <gtest/gtest.h>

#include <cstdlib>

// In programs with the vector model.
extern "C" __attribute__((weak)) const char vesper_vector_model;

namespace vesper::testing {
namespace {

class RequiredInstructions : public ::testing::Environment {
  void SetUp() override {
    const char* target = std::getenv("VESPER_CPU_TARGET");
    if (target == nullptr) return;
    // The vector model needs AVX2, and has all else.
    const std::string missing = missing_instructions(models_vectors() ? "avx2" : target,
                                                     cpu_features(), vector_target_name());
    if (!missing.empty()) GTEST_SKIP() << "not run: this CPU lacks " << missing;
  }
};

[[maybe_unused]] const auto* const kAdded =
    ::testing::AddGlobalTestEnvironment(new RequiredInstructions);

}  // namespace

bool models_vectors() { return &vesper_vector_model != nullptr; }

std::string missing_instructions(std::string_view target, const CpuFeatures& features,
                                 std::string_view vectors) {
  const struct {
    std::string_view target;
    bool is_there;
    const char* name;
  } kRequired[] = {
      {"avx2", features.avx2, "AVX2"},
      {"avx2_vnni", features.avx_vnni, "AVX-VNNI"},
      {"avx512", vectors.starts_with("AVX3"), "AVX-512"},
      {"avx512_vnni", features.avx512_vnni, "AVX512-VNNI"},
      {"avx512_bf16", features.avx512_bf16, "AVX512-BF16"},
      {"amx", features.amx, "AMX, and AVX512-BF16 for its model"},
  };
  for (const auto& required : kRequired) {
    if (required.target == target && !required.is_there) return required.name;
  }
  return "";
}

}  // namespace vesper::testing
