// The barriers in the command buffers of a table. Neither lavapipe, which waits after each
// dispatch, nor the validation layers, which do not see the addresses that a shader accesses, would
// show that one is missing. This program has its own vkCmdDispatch and vkCmdPipelineBarrier2, which
// note the call and forward it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llm/vulkan/vulkan_device.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace {

// By command buffer: D for a dispatch, B for a barrier between compute shaders.
std::map<VkCommandBuffer, std::string>& calls() {
  static std::map<VkCommandBuffer, std::string> all;
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
  next(commands, x, y, z);
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
  // Replays the table and returns the calls of the command buffers with dispatches. There
  // is one without a stop and a clock, and possibly another with them.
  std::vector<std::string> calls_of(const VulkanOptions& options, Clock clock, bool has_stop) {
    const std::unique_ptr<Device> device = open_vulkan_device(test_device_index(), options);
    constexpr uint32_t kWidth = 64;
    const auto row = [&] { return device->allocate(kWidth * sizeof(float), "row"); };
    const Operand a = row(), b = row(), c = row(), d = row(), weight = row(), stop = row();
    DispatchTable table;
    const auto add_norm = [&](const Operand& out, const Operand& in) {
      emit::norm(table, "norm", {1, kWidth, 1e-5f, kNormLayer, kDTypeF32}, out, in, weight, weight,
                 {});
    };
    add_norm(b, a);
    add_norm(c, b);
    add_norm(d, b);
    add_norm(b, weight);
    add_norm(b, weight);
    add_norm(c, weight);
    add_norm(d, weight);
    EXPECT_THAT(table.stages(), ElementsAre(0, 1, 1, 2, 3, 3, 3));
    device->set_clock(clock);
    calls().clear();
    device->run(device->record(table), 1, has_stop ? stop : Operand());
    std::vector<float> result(kWidth);
    device->read(d, result.data());
    std::vector<std::string> found;
    for (const auto& [commands, of_commands] : calls()) {
      if (of_commands.find('D') != std::string::npos) found.push_back(of_commands);
    }
    return found;
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

}  // namespace
}  // namespace vesper::recorded_barriers_test
