// The validation layers report each kind of mistake that the tests under them rely on. A layer or a
// check that is silently off fails here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llm/vulkan/context/vulkan_context.h"
#include "llm/vulkan/context/vulkan_features.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/kernel_plan.h"
#include "llm/vulkan/kernels/pipelines.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::validation_layers_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// A buffer with an address, in memory of twice its size.
struct Buffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t address = 0;
};

class ValidationLayers : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 64 * 1024, kRowBytes = 256;

  ValidationLayers() {
    VulkanOptions options = validated_options();
    options.on_message = [this](const std::string& message) {
      if (is_about_program(message)) messages_.push_back(message);
    };
    context_ =
        std::make_unique<VulkanContext>(vulkan_instance(options), test_device_index(), options);
    memory_ = std::make_unique<VulkanMemory>(*context_, true);
    pipelines_ = std::make_unique<Pipelines>(*context_);
  }
  ~ValidationLayers() override {
    for (const Buffer& each : buffers_) {
      vkDestroyBuffer(context_->device(), each.buffer, nullptr);
      vkFreeMemory(context_->device(), each.memory, nullptr);
    }
  }

  Buffer buffer() {
    auto info = vulkan_struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    info.size = kBytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    Buffer made;
    check_vulkan(vkCreateBuffer(context_->device(), &info, nullptr, &made.buffer),
                 "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(context_->device(), made.buffer, &needs);
    auto flags =
        vulkan_struct<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    auto allocation = vulkan_struct<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    allocation.pNext = &flags;
    allocation.allocationSize = 2 * needs.size;
    while (!(needs.memoryTypeBits >> allocation.memoryTypeIndex & 1)) ++allocation.memoryTypeIndex;
    check_vulkan(vkAllocateMemory(context_->device(), &allocation, nullptr, &made.memory),
                 "vkAllocateMemory");
    check_vulkan(vkBindBufferMemory(context_->device(), made.buffer, made.memory, 0),
                 "vkBindBufferMemory");
    auto of =
        vulkan_struct<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
    of.buffer = made.buffer;
    made.address = vkGetBufferDeviceAddress(context_->device(), &of);
    buffers_.push_back(made);
    return made;
  }

  void run(const std::function<void(VkCommandBuffer)>& record) {
    VkCommandBuffer commands = context_->allocate_command_buffer();
    const auto begin =
        vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    check_vulkan(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    record(commands);
    check_vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    context_->submit(&commands, 1);
    context_->wait();
  }

  // Runs a shader that reads a row of kRowBytes and writes one at an address.
  void run_norm(VkCommandBuffer commands, uint64_t out) {
    DispatchTable table;
    const Operand row = memory_->allocate(kRowBytes, "row");
    emit::norm(table, "norm",
               {1, kRowBytes / sizeof(float), 1e-5f, kNormLayer, kDTypeF32, kDTypeF32,
                kRowBytes / sizeof(float)},
               row, row, row, row, {});
    KernelPlan plan = plan_kernel(table.commands()[0], "norm", *memory_, context_->capabilities());
    std::memcpy(plan.push.data(), &out, sizeof out);  // the address of the first operand
    pipelines_->prepare({plan.pipeline});
    dispatch(commands, pipelines_->get(plan.pipeline), plan.push.data(), plan.push_bytes,
             plan.groups);
  }

  void dispatch(VkCommandBuffer commands, VkPipeline pipeline, const void* push,
                uint32_t push_bytes, const std::array<uint32_t, 3>& groups) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(commands, pipelines_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes,
                       push);
    vkCmdDispatch(commands, groups[0], groups[1], groups[2]);
  }

  void barrier(VkCommandBuffer commands) {
    auto barrier = vulkan_struct<VkMemoryBarrier2>(VK_STRUCTURE_TYPE_MEMORY_BARRIER_2);
    barrier.srcStageMask = barrier.dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    barrier.srcAccessMask = barrier.dstAccessMask =
        VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT;
    auto dependency = vulkan_struct<VkDependencyInfo>(VK_STRUCTURE_TYPE_DEPENDENCY_INFO);
    dependency.memoryBarrierCount = 1;
    dependency.pMemoryBarriers = &barrier;
    vkCmdPipelineBarrier2(commands, &dependency);
  }

  std::vector<std::string> messages_;
  std::unique_ptr<VulkanContext> context_;
  std::unique_ptr<VulkanMemory> memory_;
  std::unique_ptr<Pipelines> pipelines_;
  std::vector<Buffer> buffers_;
};

TEST_F(ValidationLayers, AcceptCorrectCalls) {
  const Buffer one = buffer();
  run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, one.buffer, 0, kBytes, 1);
    barrier(commands);
    run_norm(commands, one.address + kBytes - kRowBytes);
    barrier(commands);
    vkCmdFillBuffer(commands, one.buffer, 0, kBytes, 2);
  });
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(ValidationLayers, ReportMisuseOfTheApi) {
  auto info = vulkan_struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  VkBuffer empty = VK_NULL_HANDLE;
  vkCreateBuffer(context_->device(), &info, nullptr, &empty);
  EXPECT_THAT(messages_, Contains(HasSubstr("VUID-VkBufferCreateInfo-size-00912")));
  vkDestroyBuffer(context_->device(), empty, nullptr);
}

TEST_F(ValidationLayers, ReportAMissingBarrierBetweenCopies) {
  const Buffer one = buffer();
  run([&](VkCommandBuffer commands) {
    vkCmdFillBuffer(commands, one.buffer, 0, kBytes, 1);
    vkCmdFillBuffer(commands, one.buffer, 0, kBytes, 2);
  });
  EXPECT_THAT(messages_, Contains(HasSubstr("SYNC-HAZARD-WRITE")));
}

TEST_F(ValidationLayers, ReportAShaderThatWritesBeyondABuffer) {
  const Buffer one = buffer();
  run([&](VkCommandBuffer commands) { run_norm(commands, one.address + kBytes); });
  EXPECT_THAT(messages_, Contains(HasSubstr("out of bounds")));
}

// Those between stages of a table.
TEST_F(ValidationLayers, ReportAMissingBarrierBetweenShaders) {
  const Buffer one = buffer();
  run([&](VkCommandBuffer commands) {
    run_norm(commands, one.address);
    run_norm(commands, one.address);
  });
  if (messages_.empty()) {
    GTEST_SKIP() << "not run: these layers do not see which addresses a shader accesses";
  }
  EXPECT_THAT(messages_, Contains(HasSubstr("SYNC-HAZARD")));
}

TEST_F(ValidationLayers, ReportAnAtomicBeyondABuffer) {
  const Buffer one = buffer();
  run([&](VkCommandBuffer commands) {
    PipelineKey key{Shader::kCountReplay, {}};
    key.constants[0] = context_->capabilities().subgroup_size;
    const uint64_t address = one.address + kBytes;
    pipelines_->prepare({key});
    dispatch(commands, pipelines_->get(key), &address, sizeof address, {1, 1, 1});
  });
  if (messages_.empty()) GTEST_SKIP() << "not run: these layers do not check atomics";
  EXPECT_THAT(messages_, Contains(HasSubstr("out of bounds")));
}

TEST_F(ValidationLayers, CheckCooperativeMatrixShaders) {
  if (!context_->capabilities().has_cooperative_matrix()) {
    GTEST_SKIP() << "not run: this device has no cooperative matrices";
  }
}

}  // namespace
}  // namespace vesper::validation_layers_test
