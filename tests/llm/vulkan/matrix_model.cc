#include "tests/llm/vulkan/matrix_model.h"

namespace vesper {
namespace {

#include "all_shaders.h"

}  // namespace

std::span<const uint32_t> matrix_model(Shader shader) {
  if (shader == Shader::kMatmulCooperative) return matmul_cooperative_spv;
  return {};
}

}  // namespace vesper
