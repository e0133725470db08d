// Compute pipelines: in come a shader and its specialization constants, out goes a pipeline, made
// once. Keeps the driver's pipeline cache on disk, so that a second start compiles nothing.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <vector>

#include "llm/vulkan/vulkan_context.h"

namespace vesper {

// Every shader, by the name of its source in shaders/.
#define VESPER_SHADERS(X)                     \
  X(kEmbed, embed)                            \
  X(kNorm, norm)                              \
  X(kMatmulVector, matmul_vector)             \
  X(kMatmulTiled, matmul_tiled)               \
  X(kWriteKv, write_kv)                       \
  X(kRope, rope)                              \
  X(kGatedActivation, gated_activation)       \
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
// Those that need a glslang with GL_KHR_cooperative_matrix (13 and later).
#define VESPER_COOPERATIVE_SHADERS(X)             \
  X(kMatmulCooperative, matmul_cooperative)       \
  X(kAttentionCooperative, attention_cooperative) \
  X(kPagedAttentionCooperative, paged_attention_cooperative)

enum class Shader : uint32_t {
#define VESPER_SHADER_ENUM(id, name) id,
  VESPER_SHADERS(VESPER_SHADER_ENUM) VESPER_COOPERATIVE_SHADERS(VESPER_SHADER_ENUM)
#undef VESPER_SHADER_ENUM
};
// SPIR-V words; empty for a shader that this build left out.
std::span<const uint32_t> shader_code(Shader shader);
const char* shader_name(Shader shader);

// A pipeline: constant_id i has constants[i] (constant 0 is the workgroup's threads).
struct PipelineKey {
  static constexpr uint32_t kMaxConstants = 14;
  Shader shader{};
  std::array<uint32_t, kMaxConstants> constants{};
  auto operator<=>(const PipelineKey&) const = default;
};

class Pipelines {
 public:
  // Every pipeline can be pushed this much: what every Vulkan device has.
  static constexpr uint32_t kPushBytes = 128;

  explicit Pipelines(VulkanContext& context);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // Makes those that are not there yet, several at once. Throws Error(kDevice).
  void prepare(const std::vector<PipelineKey>& keys);
  // One that was prepared.
  VkPipeline get(const PipelineKey& key) const;
  VkPipelineLayout layout() const { return layout_; }

 private:
  VkPipeline make(const PipelineKey& key) const;

  VulkanContext& context_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::filesystem::path cache_path_;  // empty: nowhere to keep one
  std::map<PipelineKey, VkPipeline> pipelines_;
};

// What is kept on disk for a device, and the checks that it is that: a header of ours (length and
// checksum of the rest), then the driver's data with its own header. Empty if it is damaged or of
// another device.
std::vector<std::byte> unwrap_pipeline_cache(std::span<const std::byte> file,
                                             const VkPhysicalDeviceProperties& device);
std::vector<std::byte> wrap_pipeline_cache(std::span<const std::byte> driver_data);

}  // namespace vesper
