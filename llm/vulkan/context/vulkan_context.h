// A queue of an open Vulkan device: capabilities and submission.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "llm/vulkan/context/vulkan_instance.h"

namespace vesper {

// Orders the commands recorded after it: what they do in the stages and accesses `after` waits for
// those `before`.
struct BarrierScope {
  VkPipelineStageFlags2 stages;
  VkAccessFlags2 accesses;
};
void record_barrier(VkCommandBuffer commands, const BarrierScope& before,
                    const BarrierScope& after);

// One thread at a time uses a context. Contexts of the same device can be used side by side.
class VulkanContext {
 public:
  // Device `index` of the instance, which must be usable.
  VulkanContext(std::unique_ptr<VulkanInstance> instance, uint32_t index,
                const VulkanOptions& options);
  // The device of `first`, on another queue if it has two, otherwise on the same.
  struct Beside {
    const VulkanContext& first;
  };
  explicit VulkanContext(Beside beside);
  ~VulkanContext();
  VulkanContext(const VulkanContext&) = delete;
  VulkanContext& operator=(const VulkanContext&) = delete;

  VkDevice device() const { return opened_->device; }
  VkPhysicalDevice physical() const { return opened_->physical; }
  const VulkanCapabilities& capabilities() const { return opened_->capabilities; }
  // Whether pipelines can be asked for statistics.
  bool pipeline_statistics() const { return opened_->pipeline_statistics; }
  auto matrix_model() const { return opened_->matrix_model; }  // of VulkanOptions
  // Before another context of the device is opened.
  void set_matrix_rows_in_quads() {
    opened_->capabilities.matrix_rows_in_quads = true;
    opened_->capabilities.weight_matrix_side = opened_->capabilities.matrix_m;
  }
  const VkPhysicalDeviceProperties& properties() const { return opened_->properties; }

  // A primary command buffer that lives as long as the context.
  VkCommandBuffer allocate_command_buffer();
  // Submits after everything submitted before; each buffer begins and ends with the barriers it
  // needs. Does not wait. Returns the number of this submission.
  uint64_t submit(const VkCommandBuffer* buffers, uint32_t count);
  // A command buffer that runs before the next submission, and after everything submitted before.
  // It is begun; its user records the barriers.
  VkCommandBuffer before_next();
  // The number of the submission that runs it.
  uint64_t next_submission() const { return submitted_ + 1; }
  // Returns when submissions up to this number have run and the host can read their results.
  // Submits what before_next() has recorded if that has this number.
  void wait(uint64_t submission);
  void wait() { wait(is_recording_ ? next_submission() : submitted_); }
  // Whether everything submitted has run, and nothing is recorded.
  bool is_idle();
  // Returns when everything submitted has run, also after an error.
  void wait_for_queue();
  void begin_conditional(VkCommandBuffer commands, VkBuffer buffer, uint64_t offset_bytes) const;
  void end_conditional(VkCommandBuffer commands) const;

 private:
  struct Queue {
    VkQueue queue = VK_NULL_HANDLE;
    std::mutex mutex;  // of contexts that share it
  };
  // What the contexts of a device share.
  struct Opened {
    Opened(std::unique_ptr<VulkanInstance> from, uint32_t index, const VulkanOptions& options);
    ~Opened();
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

    const std::unique_ptr<VulkanInstance> instance;
    const VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties{};
    VulkanCapabilities capabilities;
    bool pipeline_statistics = false;
    const decltype(VulkanOptions::matrix_model) matrix_model;
    VkDevice device = VK_NULL_HANDLE;
    uint32_t queue_family = 0;
    uint32_t n_queues = 0;
    std::array<Queue, 2> queues;
    PFN_vkCmdBeginConditionalRenderingEXT begin_conditional = nullptr;
    PFN_vkCmdEndConditionalRenderingEXT end_conditional = nullptr;
  };

  // The public constructors call it first: if they fail then, the destructor runs.
  VulkanContext(std::shared_ptr<Opened> opened, uint32_t queue);
  void open_queue();

  const std::shared_ptr<Opened> opened_;
  Queue& queue_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  // Submission n signals fences_[n % kMaxInFlight].
  static constexpr uint32_t kMaxInFlight = 16;
  std::array<VkFence, kMaxInFlight> fences_{};
  uint64_t submitted_ = 0;  // number of the last submission
  uint64_t waited_ = 0;     // last submission known to have run
  // Of before_next(), in turns.
  struct Recorded {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    uint64_t submission = 0;
  };
  std::array<Recorded, kMaxInFlight> recorded_{};
  uint32_t recorded_turn_ = 0;
  bool is_recording_ = false;  // in recorded_[recorded_turn_]
  VkCommandBuffer host_barrier_ = VK_NULL_HANDLE;
  std::vector<VkCommandBufferSubmitInfo> submit_infos_;
};

}  // namespace vesper
