// The SPIR-V that the build made of shaders/, as arrays.
#include "llm/vulkan/pipelines.h"

namespace vesper {
namespace {

#include "activation.spv.h"
#include "adjust_logits.spv.h"
#include "attention.spv.h"
#include "attention_weights.spv.h"
#include "copy_pages.spv.h"
#include "count_replay.spv.h"
#include "embed.spv.h"
#include "gated_activation.spv.h"
#include "lstm.spv.h"
#include "magnitude.spv.h"
#include "matmul_tiled.spv.h"
#include "matmul_vector.spv.h"
#include "norm.spv.h"
#include "paged_attention.spv.h"
#include "pool.spv.h"
#include "range_probabilities.spv.h"
#include "rope.spv.h"
#include "sample_partials.spv.h"
#include "sample_token.spv.h"
#include "sampling_filters.spv.h"
#include "select_beams.spv.h"
#include "write_kv.spv.h"
#ifdef VESPER_COOPERATIVE_MATRIX
#include "attention_cooperative.spv.h"
#include "matmul_cooperative.spv.h"
#include "paged_attention_cooperative.spv.h"
#endif

}  // namespace

std::span<const uint32_t> shader_code(Shader shader) {
  switch (shader) {
#define VESPER_SHADER_CODE(id, name) \
  case Shader::id:                   \
    return name##_spv;
    VESPER_SHADERS(VESPER_SHADER_CODE)
#ifdef VESPER_COOPERATIVE_MATRIX
    VESPER_COOPERATIVE_SHADERS(VESPER_SHADER_CODE)
#endif
#undef VESPER_SHADER_CODE
    default:
      return {};
  }
}

const char* shader_name(Shader shader) {
  switch (shader) {
#define VESPER_SHADER_NAME(id, name) \
  case Shader::id:                   \
    return #name;
    VESPER_SHADERS(VESPER_SHADER_NAME)
    VESPER_COOPERATIVE_SHADERS(VESPER_SHADER_NAME)
#undef VESPER_SHADER_NAME
  }
  return "";
}

}  // namespace vesper
