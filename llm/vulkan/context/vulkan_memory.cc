#include "llm/vulkan/context/vulkan_memory.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "error/error.h"
#include "error/tasks.h"

namespace vesper {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 20;
constexpr uint64_t kSmallBytes = uint64_t{1} << 20;  // mapped even if little memory is mappable
constexpr uint64_t kSmallBlockBytes = uint64_t{8} << 20;
constexpr uint64_t kStagingBytes = uint64_t{16} << 20;
// Mapped device memory that the host does not cache is read at about 50 MB/s: above this size, copy
// it first.
constexpr uint64_t kUncachedReadBytes = 4096;
// Longer writes go through staging memory: these are part of the commands (vkCmdUpdateBuffer).
constexpr uint64_t kMostUpdateBytes = uint64_t{1} << 16;
constexpr uint32_t kMostTransfers = 256;  // before one submission
constexpr uint64_t kPieceBytes = uint64_t{1} << 17;
constexpr uint32_t kMaxThreads = 16;

constexpr VkMemoryPropertyFlags kMapped =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

// Runs the pieces of `bytes` on up to kMaxThreads threads.
void produce_pieces(uint64_t first, uint64_t bytes, uint64_t unit, std::byte* out,
                    const VulkanMemory::Producer& produce) {
  const uint64_t piece = round_up(std::max(kPieceBytes, unit), unit);
  const uint64_t n_pieces = (bytes + piece - 1) / piece;
  if (n_pieces == 1) return produce(first, bytes, out);
  run_tasks(n_pieces, kMaxThreads, [&](size_t i) {
    const uint64_t offset = i * piece;
    produce(first + offset, std::min(piece, bytes - offset), out + offset);
  });
}

}  // namespace

VulkanMemory::VulkanMemory(VulkanContext& context, bool host_visible) : context_(context) {
  vkGetPhysicalDeviceMemoryProperties(context.physical(), &properties_);
  device_type_ = find_type(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
  if (device_type_ < 0) throw Error(ErrorKind::kDevice, "Vulkan: no device-local memory");
  if (host_visible) {
    mapped_type_ = find_type(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | kMapped,
                             VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    map_everything_ =
        mapped_type_ >= 0 &&
        properties_.memoryHeaps[properties_.memoryTypes[mapped_type_].heapIndex].size >=
            context.capabilities().memory_bytes;
  }
}

VulkanMemory::~VulkanMemory() {
  context_.wait_for_queue();
  for (Block& block : blocks_) destroy(block);
  for (Block& block : staging_) destroy(block);
}

int VulkanMemory::find_type(VkMemoryPropertyFlags needed, VkMemoryPropertyFlags preferred) const {
  for (const VkMemoryPropertyFlags flags : {needed | preferred, needed}) {
    // The type with the largest heap: on some devices the first one is small.
    int best = -1;
    for (uint32_t i = 0; i < properties_.memoryTypeCount; ++i) {
      const VkMemoryType& type = properties_.memoryTypes[i];
      if ((type.propertyFlags & flags) != flags) continue;
      if (best < 0 || properties_.memoryHeaps[type.heapIndex].size >
                          properties_.memoryHeaps[properties_.memoryTypes[best].heapIndex].size) {
        best = static_cast<int>(i);
      }
    }
    if (best >= 0) return best;
  }
  return -1;
}

VulkanMemory::Block VulkanMemory::make_block(uint64_t bytes, uint32_t memory_type,
                                             std::string_view label) {
  const VulkanCapabilities& capabilities = context_.capabilities();
  const auto too_much = [&](const std::string& reason) {
    std::string message = capabilities.name + ": no memory for " + std::string(label) + ": " +
                          mib(bytes) + " wanted, " + reason;
    return Error(ErrorKind::kDevice, message);
  };
  if (bytes > capabilities.max_allocation_bytes) {
    throw too_much("at most " + mib(capabilities.max_allocation_bytes) + " per allocation");
  }
  Block block;
  block.bytes = bytes;
  block.memory_type = memory_type;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (capabilities.conditional_rendering)
    info.usage |= VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT;
  check_vulkan(vkCreateBuffer(context_.device(), &info, nullptr, &block.buffer), "vkCreateBuffer");
  VkMemoryRequirements requirements;
  vkGetBufferMemoryRequirements(context_.device(), block.buffer, &requirements);
  if (!(requirements.memoryTypeBits >> memory_type & 1)) {
    destroy(block);
    throw Error(ErrorKind::kDevice, capabilities.name + ": its memory type " +
                                        std::to_string(memory_type) + " holds no buffers");
  }
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.pNext = &flags;
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = memory_type;
  const VkResult result = vkAllocateMemory(context_.device(), &allocate, nullptr, &block.memory);
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
    destroy(block);
    const uint32_t heap = properties_.memoryTypes[memory_type].heapIndex;
    std::string there_is = mib(properties_.memoryHeaps[heap].size) + " there";
    if (capabilities.memory_budget) {
      VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
      budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
      VkPhysicalDeviceMemoryProperties2 properties{};
      properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
      properties.pNext = &budget;
      vkGetPhysicalDeviceMemoryProperties2(context_.physical(), &properties);
      there_is += ", of which this program has taken " + mib(budget.heapUsage[heap]) +
                  " and may take " + mib(budget.heapBudget[heap]);
    }
    throw too_much(there_is);
  }
  if (result != VK_SUCCESS) destroy(block);
  check_vulkan(result, "vkAllocateMemory");
  const VkResult bound = vkBindBufferMemory(context_.device(), block.buffer, block.memory, 0);
  if (bound != VK_SUCCESS) destroy(block);
  check_vulkan(bound, "vkBindBufferMemory");
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = block.buffer;
  block.address = vkGetBufferDeviceAddress(context_.device(), &address);
  return block;
}

void VulkanMemory::destroy(Block& block) {
  if (block.buffer) vkDestroyBuffer(context_.device(), block.buffer, nullptr);
  if (block.memory) vkFreeMemory(context_.device(), block.memory, nullptr);
  block = {};
}

Operand VulkanMemory::allocate(uint64_t bytes, std::string_view label) {
  if (bytes == 0) throw Error(ErrorKind::kInternal, std::string(label) + ": a buffer of 0 bytes");
  if (bytes > context_.capabilities().max_allocation_bytes - 2 * kAlignment) {
    throw Error(ErrorKind::kDevice,
                context_.capabilities().name + ": no memory for " + std::string(label) + ": " +
                    mib(bytes) + " wanted, at most " +
                    mib(context_.capabilities().max_allocation_bytes) + " per allocation");
  }
  const bool small = bytes <= kSmallBytes;
  const bool mapped = mapped_type_ >= 0 && (map_everything_ || small);
  const uint32_t type = static_cast<uint32_t>(mapped ? mapped_type_ : device_type_);
  const uint64_t taken = round_up(bytes, kAlignment) + kAlignment;
  uint32_t index = 0;
  while (index < blocks_.size() && (blocks_[index].memory_type != type ||
                                    blocks_[index].bytes - blocks_[index].used < taken)) {
    ++index;
  }
  if (index == blocks_.size()) {
    const uint64_t usual = mapped && !map_everything_ ? kSmallBlockBytes : kBlockBytes;
    const uint64_t wanted =
        std::max(taken, std::min(usual, context_.capabilities().max_allocation_bytes));
    Block block = make_block(wanted, type, label);
    if (mapped) {
      void* pointer = nullptr;
      const VkResult result =
          vkMapMemory(context_.device(), block.memory, 0, VK_WHOLE_SIZE, 0, &pointer);
      if (result != VK_SUCCESS) destroy(block);
      check_vulkan(result, "vkMapMemory");
      block.mapped = static_cast<std::byte*>(pointer);
    }
    blocks_.push_back(block);
    // Zeroes the block once for all buffers in it.
    vkCmdFillBuffer(transfer_to(block.buffer, 0, block.bytes), block.buffer, 0, VK_WHOLE_SIZE, 0);
    context_.wait();
  }
  Block& block = blocks_[index];
  allocations_.push_back({index, block.used, bytes});
  block.used += taken;
  return {static_cast<BufferId>(allocations_.size()), 0, 0, bytes};
}

const VulkanMemory::Allocation& VulkanMemory::checked(const Operand& operand) const {
  if (operand.buffer == kNoBuffer || operand.buffer > allocations_.size()) {
    throw Error(ErrorKind::kInternal, "an operand of buffer " + std::to_string(operand.buffer) +
                                          ", of " + std::to_string(allocations_.size()));
  }
  const Allocation& allocation = allocations_[operand.buffer - 1];
  if (operand.offset_bytes > allocation.bytes ||
      operand.bytes > allocation.bytes - operand.offset_bytes) {
    throw Error(ErrorKind::kInternal, "an operand of bytes " +
                                          std::to_string(operand.offset_bytes) + " + " +
                                          std::to_string(operand.bytes) + " of a buffer of " +
                                          std::to_string(allocation.bytes));
  }
  return allocation;
}

uint64_t VulkanMemory::address(const Operand& operand) const {
  const Allocation& allocation = checked(operand);
  return blocks_[allocation.block].address + allocation.offset + operand.offset_bytes;
}

VulkanMemory::Range VulkanMemory::range(const Operand& operand) const {
  const Allocation& allocation = checked(operand);
  return {blocks_[allocation.block].buffer, allocation.offset + operand.offset_bytes};
}

VkCommandBuffer VulkanMemory::transfer_to(VkBuffer buffer, uint64_t offset, uint64_t bytes,
                                          bool reads_device) {
  const auto is_new = [&] { return transfers_submission_ != context_.next_submission(); };
  if (!is_new() && n_transfers_ == kMostTransfers) context_.submit(nullptr, 0);
  const bool is_first = is_new();
  if (is_first) n_transfers_ = 0;
  VkCommandBuffer commands = context_.before_next();
  const Written wanted{buffer, offset, offset + bytes};
  const bool overlaps = std::ranges::any_of(written_, [&](const Written& earlier) {
    return earlier.buffer == buffer && earlier.begin < wanted.end && wanted.begin < earlier.end;
  });
  if (is_first || overlaps || reads_device) {
    record_barrier(commands,
                   {VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                    VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT},
                   {VK_PIPELINE_STAGE_2_TRANSFER_BIT,
                    VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT});
    written_.clear();
  }
  transfers_submission_ = context_.next_submission();
  ++n_transfers_;
  written_.push_back(wanted);
  return commands;
}

void VulkanMemory::prepare_staging() {
  if (staging_[1].mapped) return;
  const int type = find_type(kMapped, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  if (type < 0) throw Error(ErrorKind::kDevice, "Vulkan: no memory that the host can reach");
  for (Block& staging : staging_) {
    if (staging.mapped) continue;
    if (!staging.buffer) {
      staging = make_block(kStagingBytes, static_cast<uint32_t>(type), "staging");
    }
    void* pointer = nullptr;
    check_vulkan(vkMapMemory(context_.device(), staging.memory, 0, VK_WHOLE_SIZE, 0, &pointer),
                 "vkMapMemory");
    staging.mapped = static_cast<std::byte*>(pointer);
  }
}

void VulkanMemory::write(const Operand& to, const void* from) {
  const auto* bytes = static_cast<const std::byte*>(from);
  const Allocation& allocation = checked(to);
  const Block& block = blocks_[allocation.block];
  const uint64_t start = allocation.offset + to.offset_bytes;
  const auto copy = [bytes](uint64_t offset, uint64_t n, std::byte* out) {
    std::memcpy(out, bytes + offset, n);
  };
  if (block.mapped && context_.is_idle()) {
    produce_pieces(0, to.bytes, 1, block.mapped + start, copy);
  } else if (to.bytes <= kMostUpdateBytes && start % 4 == 0 && to.bytes % 4 == 0) {
    vkCmdUpdateBuffer(transfer_to(block.buffer, start, to.bytes), block.buffer, start, to.bytes,
                      bytes);
  } else {
    fill_later(to, 1, copy);
  }
}

void VulkanMemory::fill(const Operand& to, uint64_t unit, const Producer& produce) {
  const Allocation& allocation = checked(to);
  const Block& block = blocks_[allocation.block];
  if (!block.mapped) return fill_later(to, unit, produce);
  context_.wait();
  produce_pieces(0, to.bytes, unit, block.mapped + allocation.offset + to.offset_bytes, produce);
}

void VulkanMemory::fill_later(const Operand& to, uint64_t unit, const Producer& produce) {
  const Allocation& allocation = checked(to);
  const Block& block = blocks_[allocation.block];
  prepare_staging();
  if (unit > kStagingBytes) {
    throw Error(ErrorKind::kDevice, context_.capabilities().name + ": rows of " + mib(unit) +
                                        " are more than the staging memory of " +
                                        mib(kStagingBytes));
  }
  const uint64_t step = kStagingBytes / unit * unit;
  for (uint64_t offset = 0; offset < to.bytes; offset += step) {
    const uint64_t bytes = std::min(step, to.bytes - offset);
    if (staging_[turn_].used + bytes > kStagingBytes) {
      turn_ ^= 1;
      context_.wait(staging_submission_[turn_]);
      staging_[turn_].used = 0;
    }
    Block& staging = staging_[turn_];
    produce_pieces(offset, bytes, unit, staging.mapped + staging.used, produce);
    const uint64_t start = allocation.offset + to.offset_bytes + offset;
    const VkBufferCopy region{staging.used, start, bytes};
    vkCmdCopyBuffer(transfer_to(block.buffer, start, bytes), staging.buffer, block.buffer, 1,
                    &region);
    staging_submission_[turn_] = context_.next_submission();
    staging.used += round_up(bytes, kAlignment);
    // The next part is produced while this one is copied.
    if (offset + bytes < to.bytes) context_.submit(nullptr, 0);
  }
}

void VulkanMemory::read(const Operand& from, void* to) {
  auto* out = static_cast<std::byte*>(to);
  const Allocation& allocation = checked(from);
  const Block& block = blocks_[allocation.block];
  const uint64_t start = allocation.offset + from.offset_bytes;
  const bool cached =
      properties_.memoryTypes[block.memory_type].propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  if (block.mapped && (cached || from.bytes <= kUncachedReadBytes)) {
    context_.wait();
    std::memcpy(out, block.mapped + start, from.bytes);
    return;
  }
  prepare_staging();
  Block& staging = staging_[turn_];
  context_.wait(staging_submission_[turn_]);
  for (uint64_t offset = 0; offset < from.bytes; offset += kStagingBytes) {
    const uint64_t bytes = std::min(kStagingBytes, from.bytes - offset);
    const VkBufferCopy region{start + offset, 0, bytes};
    vkCmdCopyBuffer(transfer_to(staging.buffer, 0, bytes, /*reads_device=*/true), block.buffer,
                    staging.buffer, 1, &region);
    context_.wait();
    std::memcpy(out + offset, staging.mapped, bytes);
  }
  staging.used = 0;
}

}  // namespace vesper
