// Buffers of a Vulkan device: allocation, addresses, and copies in both directions. Buffers are
// parts of large blocks and live as long as the device.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "llm/table/dispatch_table.h"
#include "llm/vulkan/context/vulkan_context.h"

namespace vesper {

class VulkanMemory {
 public:
  // Alignment of operands, and how far past the end of an operand may be read.
  static constexpr uint64_t kAlignment = 256;

  // host_visible false: only staging memory is mapped.
  VulkanMemory(VulkanContext& context, bool host_visible);
  ~VulkanMemory();
  VulkanMemory(const VulkanMemory&) = delete;
  VulkanMemory& operator=(const VulkanMemory&) = delete;

  // A zeroed buffer. Throws Error(kDevice) with the requested and the available size.
  Operand allocate(uint64_t bytes, std::string_view label);

  // Throws Error(kInternal) if the operand is not within its buffer.
  uint64_t address(const Operand& operand) const;
  struct Range {
    VkBuffer buffer;
    uint64_t offset_bytes;
  };
  Range range(const Operand& operand) const;

  // Ordered with submissions. write() does not wait for them.
  void write(const Operand& to, const void* from);
  void read(const Operand& from, void* to);

  // Writes `to` in pieces, on several threads. `produce(offset, bytes, out)` writes the bytes
  // [offset, offset + bytes) of the operand to `out`; pieces begin and end at multiples of `unit`.
  using Producer = std::function<void(uint64_t offset, uint64_t bytes, std::byte* out)>;
  void fill(const Operand& to, uint64_t unit, const Producer& produce);

 private:
  struct Block {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    uint64_t address = 0;
    uint64_t bytes = 0, used = 0;
    uint32_t memory_type = 0;
    std::byte* mapped = nullptr;  // null: not visible to the host
  };
  struct Allocation {
    uint32_t block;
    uint64_t offset, bytes;
  };

  // A memory type with all `needed` properties, and the `preferred` ones if possible; -1 if none.
  int find_type(VkMemoryPropertyFlags needed, VkMemoryPropertyFlags preferred) const;
  Block make_block(uint64_t bytes, uint32_t memory_type, std::string_view label);
  void destroy(Block& block);
  void prepare_staging();
  // A command buffer for a transfer to these bytes, which runs before the next submission.
  // `reads_device`: from memory that earlier transfers may have written.
  VkCommandBuffer transfer_to(VkBuffer buffer, uint64_t offset, uint64_t bytes,
                              bool reads_device = false);
  // Like fill(), through staging memory: the host need not wait for what has been submitted.
  void fill_later(const Operand& to, uint64_t unit, const Producer& produce);
  const Allocation& checked(const Operand& operand) const;

  VulkanContext& context_;
  VkPhysicalDeviceMemoryProperties properties_{};
  int device_type_ = -1;         // for memory that the host does not touch
  int mapped_type_ = -1;         // device-local and mappable; -1: none
  bool map_everything_ = false;  // all device memory is mappable with mapped_type_
  std::vector<Block> blocks_;
  std::vector<Allocation> allocations_;  // by BufferId - 1
  // Staging memory: the turn of staging_ that is in use, from its start to its `used`. Both are
  // free after their submissions.
  Block staging_[2];
  uint32_t turn_ = 0;
  uint64_t staging_submission_[2] = {};
  // What the transfers before submission transfers_submission_ write.
  struct Written {
    VkBuffer buffer;
    uint64_t begin, end;
  };
  std::vector<Written> written_;
  uint64_t transfers_submission_ = 0;
  uint32_t n_transfers_ = 0;  // of them
};

}  // namespace vesper
