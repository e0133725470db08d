// Buffers of a Vulkan device: in come sizes, out go operands, their addresses, and copies to and
// from them. Buffers are parts of large blocks and live as long as the device.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "llm/table/dispatch_table.h"
#include "llm/vulkan/vulkan_context.h"

namespace vesper {

class VulkanMemory {
 public:
  // Operands are aligned to this, and may be read up to this far past their end.
  static constexpr uint64_t kAlignment = 256;

  // With host_visible false nothing but the staging memory is mapped.
  VulkanMemory(VulkanContext& context, bool host_visible);
  ~VulkanMemory();
  VulkanMemory(const VulkanMemory&) = delete;
  VulkanMemory& operator=(const VulkanMemory&) = delete;

  // A buffer of zeros. Throws Error(kDevice) saying how much was wanted and how much there is.
  Operand allocate(uint64_t bytes, std::string_view label);

  // Throws Error(kInternal) if the operand is not within its buffer.
  uint64_t address(const Operand& operand) const;
  struct Place {
    VkBuffer buffer;
    uint64_t offset_bytes;
  };
  Place place(const Operand& operand) const;

  // In order with what was submitted.
  void write(const Operand& to, const void* from);
  void read(const Operand& from, void* to);

  // Writes `to` by pieces, several at once on threads: `produce(offset, bytes, out)` writes the
  // bytes [offset, offset + bytes) of the operand to `out`; pieces begin and end at multiples of
  // `unit`.
  using Producer = std::function<void(uint64_t offset, uint64_t bytes, std::byte* out)>;
  void fill(const Operand& to, uint64_t unit, const Producer& produce);

 private:
  struct Block {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    uint64_t address = 0;
    uint64_t bytes = 0, used = 0;
    uint32_t memory_type = 0;
    std::byte* mapped = nullptr;  // null if the host cannot reach it
  };
  struct Allocation {
    uint32_t block;
    uint64_t offset, bytes;
  };

  // A memory type with all of `needed`, of those `preferred` too if there is one; -1 if none.
  int find_type(VkMemoryPropertyFlags needed, VkMemoryPropertyFlags preferred) const;
  Block make_block(uint64_t bytes, uint32_t memory_type, std::string_view label);
  void destroy(Block& block);
  void prepare_staging();
  // Copies after all that was submitted; returns the submission.
  uint64_t copy(VkCommandBuffer commands, VkBuffer from, uint64_t from_offset, VkBuffer to,
                uint64_t to_offset, uint64_t bytes);
  const Allocation& checked(const Operand& operand) const;

  VulkanContext& context_;
  VkPhysicalDeviceMemoryProperties properties_{};
  int device_type_ = -1;         // for what the host does not touch
  int mapped_type_ = -1;         // device-local and mapped; -1 if there is none
  bool map_everything_ = false;  // mapped_type_ reaches all of the device's memory
  std::vector<Block> blocks_;
  std::vector<Allocation> allocations_;  // by BufferId - 1
  Block staging_[2];
  VkCommandBuffer staging_commands_[2] = {};
  uint64_t staging_submission_[2] = {};
};

}  // namespace vesper
