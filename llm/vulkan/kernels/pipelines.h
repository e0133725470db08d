// Compute pipelines. In: a shader and its specialization constants. Out: a pipeline, made once. The
// driver's pipeline cache is kept on disk, so a second start compiles nothing. It is written when a
// pipeline was made that the driver did not find in it.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "llm/vulkan/context/vulkan_context.h"

namespace vesper {

// Every shader, by the name of its source file in shaders/. The build compiles what these two
// lists name.
#define VESPER_SHADERS(X)                     \
  X(kEmbed, embed)                            \
  X(kNorm, norm)                              \
  X(kMatmulVector, matmul_vector)             \
  X(kMatmulInt8, matmul_int8)                 \
  X(kMatmulTiled, matmul_tiled)               \
  X(kWriteKv, write_kv)                       \
  X(kRope, rope)                              \
  X(kGatedActivation, gated_activation)       \
  X(kRouteExperts, route_experts)             \
  X(kGroupExperts, group_experts)             \
  X(kCombineExperts, combine_experts)         \
  X(kPagedAttention, paged_attention)         \
  X(kAttentionWeights, attention_weights)     \
  X(kAttention, attention)                    \
  X(kRangeProbabilities, range_probabilities) \
  X(kCopyPages, copy_pages)                   \
  X(kAdjustLogits, adjust_logits)             \
  X(kSamplingFilters, sampling_filters)       \
  X(kSamplePartials, sample_partials)         \
  X(kSelectBeams, select_beams)               \
  X(kSampleToken, sample_token)               \
  X(kActivation, activation)                  \
  X(kMagnitude, magnitude)                    \
  X(kLstm, lstm)                              \
  X(kPool, pool)                              \
  X(kCountReplay, count_replay)
// Those that wait for a counter (stage_order.h), built with the Vulkan memory model. It is not for
// all, because it makes them slower, and lavapipe of Mesa 22.3 does not run them: there it leaves
// loops that access shared memory too early.
#define VESPER_WAITING_SHADERS(X)                \
  X(kNormWaiting, norm_waiting)                  \
  X(kMatmulVectorWaiting, matmul_vector_waiting) \
  X(kMatmulInt8Waiting, matmul_int8_waiting)     \
  X(kPagedAttentionWaiting, paged_attention_waiting)
// Shaders that need a glslang with GL_KHR_cooperative_matrix (13 and later).
#define VESPER_COOPERATIVE_SHADERS(X)                    \
  X(kMatmulCooperative, matmul_cooperative)              \
  X(kMatrixLayoutCooperative, matrix_layout_cooperative) \
  X(kAttentionCooperative, attention_cooperative)        \
  X(kPagedAttentionCooperative, paged_attention_cooperative)

enum class Shader : uint32_t {
#define VESPER_SHADER_ENUM(id, name) id,
  VESPER_SHADERS(VESPER_SHADER_ENUM) VESPER_WAITING_SHADERS(VESPER_SHADER_ENUM)
      VESPER_COOPERATIVE_SHADERS(VESPER_SHADER_ENUM)
#undef VESPER_SHADER_ENUM
};
// SPIR-V words; empty if the build left the shader out.
std::span<const uint32_t> shader_code(Shader shader);
const char* shader_name(Shader shader);

// A pipeline: constant_id i has constants[i] (constant 0 is the workgroup's threads).
struct PipelineKey {
  static constexpr uint32_t kMaxConstants = 20;
  Shader shader{};
  std::array<uint32_t, kMaxConstants> constants{};
  auto operator<=>(const PipelineKey&) const = default;
};

// The constant of every kernel that shaders/stage_order.glsl can order: kOrder*.
inline constexpr uint32_t kOrderConstant = 19;

class Pipelines {
 public:
  // Size of every pipeline's push constants: guaranteed by Vulkan.
  static constexpr uint32_t kPushBytes = 128;

  explicit Pipelines(VulkanContext& context);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // Makes the missing ones in parallel. Throws Error(kDevice).
  void prepare(const std::vector<PipelineKey>& keys);
  // A prepared pipeline.
  VkPipeline get(const PipelineKey& key) const;
  // Bytes per lane of the registers that a prepared pipeline keeps in memory; 0 if not known.
  uint64_t spilled_bytes(const PipelineKey& key) const;
  VkPipelineLayout layout() const { return layout_; }

 private:
  // A pipeline, and whether the driver says that it was in the cache.
  std::pair<VkPipeline, bool> make(const PipelineKey& key) const;

  VulkanContext& context_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path cache_path_;  // empty: no cache
  std::map<PipelineKey, VkPipeline> pipelines_;
};

// The driver's data of a cache file, without our header (length and checksum). Empty if the file is
// damaged or belongs to another device.
std::vector<std::byte> unwrap_pipeline_cache(std::span<const std::byte> file,
                                             const VkPhysicalDeviceProperties& device);
std::vector<std::byte> wrap_pipeline_cache(std::span<const std::byte> driver_data);

}  // namespace vesper
