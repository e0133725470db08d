// The barriers in the command buffers of a table. Neither lavapipe, which waits after each
// dispatch, nor the validation layers, which do not see the addresses that a shader accesses, would
// show that one is missing. This program has its own vkCmdDispatch, vkCmdPipelineBarrier2 and
// vkCmdPushConstants, which note the call and forward it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "error/error.h"
#include "llm/vulkan/vulkan_device.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace {

// The number of vkCmdDispatch calls until one is left out; 0: none.
int& calls_until_left_out() {
  static int n = 0;
  return n;
}

// By command buffer: D for a dispatch, B for a barrier between compute shaders.
std::map<VkCommandBuffer, std::string>& calls() {
  static std::map<VkCommandBuffer, std::string> all;
  return all;
}

// Addresses at the end of push constants, for kernels with scratch memory.
struct Scratch {
  uint64_t scratch, counters;
  bool operator==(const Scratch&) const = default;
};
std::vector<Scratch>& pushed_scratch() {
  static std::vector<Scratch> all;
  return all;
}

bool orders_shaders(const VkDependencyInfo& info) {
  constexpr VkAccessFlags2 kRead = VK_ACCESS_2_SHADER_READ_BIT,
                           kWrite = VK_ACCESS_2_SHADER_WRITE_BIT;
  for (uint32_t i = 0; i < info.memoryBarrierCount; ++i) {
    const VkMemoryBarrier2& barrier = info.pMemoryBarriers[i];
    if ((barrier.srcStageMask & VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT) &&
        (barrier.dstStageMask & VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT) &&
        (barrier.srcAccessMask & kWrite) && (barrier.dstAccessMask & kRead) &&
        (barrier.dstAccessMask & kWrite)) {
      return true;
    }
  }
  return false;
}

}  // namespace

extern "C" {

VKAPI_ATTR void VKAPI_CALL vkCmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y,
                                         uint32_t z) {
  static const auto next = reinterpret_cast<PFN_vkCmdDispatch>(dlsym(RTLD_NEXT, "vkCmdDispatch"));
  calls()[commands] += 'D';
  if (calls_until_left_out() != 0 && --calls_until_left_out() == 0) return;
  next(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL vkCmdPushConstants(VkCommandBuffer commands, VkPipelineLayout layout,
                                              VkShaderStageFlags stages, uint32_t offset,
                                              uint32_t size, const void* values) {
  static const auto next =
      reinterpret_cast<PFN_vkCmdPushConstants>(dlsym(RTLD_NEXT, "vkCmdPushConstants"));
  Scratch& scratch = pushed_scratch().emplace_back();
  std::memcpy(&scratch, static_cast<const std::byte*>(values) + size - sizeof scratch,
              sizeof scratch);
  next(commands, layout, stages, offset, size, values);
}

VKAPI_ATTR void VKAPI_CALL vkCmdPipelineBarrier2(VkCommandBuffer commands,
                                                 const VkDependencyInfo* info) {
  static const auto next =
      reinterpret_cast<PFN_vkCmdPipelineBarrier2>(dlsym(RTLD_NEXT, "vkCmdPipelineBarrier2"));
  if (orders_shaders(*info)) calls()[commands] += 'B';
  next(commands, info);
}

}  // extern "C"

namespace vesper::recorded_barriers_test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Four stages of one, two, one and three commands, with a write after a read and a write after a
// write.
class RecordedBarriers : public testing::Test {
 protected:
  // Replays a table and returns the calls of the command buffers with dispatches. There
  // is one without a stop and a clock, and possibly another with them.
  static std::vector<std::string> replay(Device& device, const DispatchTable& table, Clock clock,
                                         const Operand& stop, const Operand& result) {
    device.set_clock(clock);
    calls().clear();
    device.run(device.record(table), 1, stop);
    std::vector<std::byte> read(result.bytes);
    device.read(result, read.data());
    std::vector<std::string> found;
    for (const auto& [commands, of_commands] : calls()) {
      if (of_commands.find('D') != std::string::npos) found.push_back(of_commands);
    }
    return found;
  }

  // Of the table above.
  std::vector<std::string> calls_of(const VulkanOptions& options, Clock clock, bool has_stop) {
    const std::unique_ptr<Device> device = open_vulkan_device(test_device_index(), options);
    constexpr uint32_t kWidth = 64;
    const auto row = [&] { return device->allocate(kWidth * sizeof(float), "row"); };
    const Operand a = row(), b = row(), c = row(), d = row(), weight = row(), stop = row();
    DispatchTable table;
    const auto add_norm = [&](const Operand& out, const Operand& in) {
      emit::norm(table, "norm", {1, kWidth, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, kWidth}, out,
                 in, weight, weight, {});
    };
    add_norm(b, a);
    add_norm(c, b);
    add_norm(d, b);
    add_norm(b, weight);
    add_norm(b, weight);
    add_norm(c, weight);
    add_norm(d, weight);
    EXPECT_THAT(table.stages(), ElementsAre(0, 1, 1, 2, 3, 3, 3));
    return replay(*device, table, clock, has_stop ? stop : Operand(), d);
  }

  // Of a table with `stages[i]` products in stage i.
  static std::vector<std::string> calls_of_products(const std::vector<int>& stages,
                                                    const VulkanOptions& options = {},
                                                    Clock clock = Clock::kOff) {
    const std::unique_ptr<Device> device = open_vulkan_device(test_device_index(), options);
    constexpr uint32_t kWidth = 64;
    const auto floats = [&](uint64_t n) { return device->allocate(n * sizeof(float), "floats"); };
    const Operand weight = floats(uint64_t{kWidth} * kWidth);
    MatmulParams p{};
    p.n_rows = p.rows_per_batch = 1;
    p.n_out = p.n_in = p.in_row_stride = p.out_row_stride = kWidth;
    Operand in = floats(kWidth);
    DispatchTable table;
    for (const int n : stages) {
      Operand out;
      for (int i = 0; i < n; ++i) {
        out = floats(kWidth);
        emit::matmul(table, "product", p, out, in, weight, {}, {}, {});
      }
      in = out;
    }
    return replay(*device, table, clock, {}, in);
  }
};

TEST_F(RecordedBarriers, AreBetweenStages) {
  EXPECT_THAT(calls_of({}, Clock::kOff, false), ElementsAre("BDBDDBDBDDD"));
}

TEST_F(RecordedBarriers, AreBetweenStagesWithAStop) {
  const std::string expected = "BDBDDBDBDDD";
  EXPECT_THAT(calls_of({}, Clock::kOff, true), ElementsAre(expected, expected));
  VulkanOptions unconditional;
  unconditional.conditional_rendering = false;
  EXPECT_THAT(calls_of(unconditional, Clock::kOff, true), ElementsAre(expected));
}

TEST_F(RecordedBarriers, AreBetweenStagesWithAClock) {
  EXPECT_THAT(calls_of({}, Clock::kPerStage, false), ElementsAre("BDBDDBDBDDD", "BDBDDBDBDDD"));
  EXPECT_THAT(calls_of({}, Clock::kPerCommand, false),
              UnorderedElementsAre("BDBDDBDBDDD", "BDBDBDBDBDBDBD"));
}

TEST_F(RecordedBarriers, AreBetweenAllCommandsIfWanted) {
  VulkanOptions full;
  full.full_barriers = true;
  EXPECT_THAT(calls_of(full, Clock::kOff, false), ElementsAre("BDBDBDBDBDBDBD"));
}

// Lavapipe and NVIDIA's driver start workgroups in order.
TEST_F(RecordedBarriers, AreNotBetweenStagesThatWaitByCounters) {
  EXPECT_THAT(calls_of_products({1, 1, 1, 1}), ElementsAre("BDDDD"));
  EXPECT_THAT(calls_of_products({1, 1}), ElementsAre("BDBD"));
  EXPECT_THAT(calls_of_products({1, 1, 1, 2, 1, 1, 1}), ElementsAre("BDDDBDDBDDD"));
  VulkanOptions full;
  full.full_barriers = true;
  EXPECT_THAT(calls_of_products({1, 1, 1}, full), ElementsAre("BDBDBD"));
  EXPECT_THAT(calls_of_products({1, 1, 1}, {}, Clock::kPerStage),
              UnorderedElementsAre("BDDD", "BDBDBD"));
}

TEST_F(RecordedBarriers, AStageThatWaitsInVainIsReported) {
  calls_until_left_out() = 2;
  try {
    calls_of_products({1, 1, 1});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(error.what(), testing::HasSubstr("waited in vain"));
  }
}

// Attention of one row that workgroups share: they exchange partial results in scratch memory.
TEST_F(RecordedBarriers, CommandsOfAStageHaveTheirOwnScratchMemory) {
  ASSERT_EQ(0, setenv("VESPER_TUNING", "attention_splits=2", 1));
  const std::unique_ptr<Device> device = open_vulkan_device(test_device_index(), VulkanOptions());
  ASSERT_EQ(0, unsetenv("VESPER_TUNING"));
  PagedAttentionParams params{};
  params.n_rows = params.n_heads = params.n_kv_heads = params.pages_per_sequence = 1;
  params.head_dim = params.q_row_stride = params.out_row_stride = 8;
  params.page_rows = 32;
  const auto floats = [&](uint64_t n) { return device->allocate(n * sizeof(float), "floats"); };
  const Operand q = floats(8), k = floats(32 * 8), v = floats(32 * 8);
  const Operand rows = device->allocate(sizeof(Row), "rows"), pages = floats(1);
  const Operand first = floats(8), second = floats(8);
  DispatchTable table;
  for (const Operand& out : {first, second, first}) {
    emit::paged_attention(table, "attention", params, out, q, k, v, rows, pages);
  }
  ASSERT_THAT(table.stages(), ElementsAre(0, 0, 1));
  pushed_scratch().clear();
  device->record(table);
  const std::vector<Scratch>& found = pushed_scratch();
  ASSERT_EQ(found.size(), 3u);
  constexpr uint64_t kScratchBytes = 2 * (8 + 2) * sizeof(float);  // of a head with two splits
  EXPECT_GE(found[1].scratch, found[0].scratch + kScratchBytes);
  EXPECT_GE(found[1].counters, found[0].counters + sizeof(uint32_t));
  EXPECT_EQ(found[2], found[0]);
}

}  // namespace
}  // namespace vesper::recorded_barriers_test
