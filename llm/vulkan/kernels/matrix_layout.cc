#include "llm/vulkan/kernels/matrix_layout.h"

#include <cstdint>
#include <vector>

namespace vesper {

bool has_rows_in_quads(VulkanContext& context, VulkanMemory& memory, Pipelines& pipelines) {
  constexpr uint32_t kSide = 16, kLanes = 32, kElements = kSide * kSide / kLanes;
  const VulkanCapabilities& c = context.capabilities();
  if (c.matrix_m != kSide || c.matrix_k != kSide || c.subgroup_size != kLanes ||
      !c.fixed_subgroups) {
    return false;
  }
  const Operand out = memory.allocate(3 * kSide * kSide * sizeof(float), "layout of a matrix");
  const PipelineKey key{Shader::kMatrixLayoutCooperative, {kLanes, kSide}};
  pipelines.prepare({key});
  VkCommandBuffer commands = context.allocate_command_buffer();
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check_vulkan(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines.get(key));
  const uint64_t address = memory.address(out);
  vkCmdPushConstants(commands, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address,
                     &address);
  vkCmdDispatch(commands, 1, 1, 1);
  check_vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  context.submit(&commands, 1);
  std::vector<float> found(3 * kSide * kSide);
  memory.read(out, found.data());
  for (uint32_t i = 0; i < kSide * kSide; ++i) {
    const uint32_t lane = i / kElements, e = i % kElements;
    const uint32_t row = lane / 4 + e / 4 * 8, column = e / 2 % 2 * 8 + lane % 4 * 2 + e % 2;
    const auto wanted = static_cast<float>(row * kSide + column);
    for (uint32_t matrix = 0; matrix < 3; ++matrix) {
      if (found[matrix * kSide * kSide + i] != wanted) return false;
    }
  }
  return true;
}

}  // namespace vesper
