#include "tests/llm/vulkan/matrix_model.h"

namespace vesper {
namespace {

#include "all_shaders.h"

}  // namespace

std::span<const uint32_t> matrix_model(Shader shader) {
  switch (shader) {
    case Shader::kMatmulCooperative:
      return matmul_cooperative_spv;
    case Shader::kAttentionCooperative:
      return attention_cooperative_spv;
    case Shader::kPagedAttentionCooperative:
      return paged_attention_cooperative_spv;
    default:
      return {};
  }
}

}  // namespace vesper
