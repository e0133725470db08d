#include "llm/vulkan/vulkan_device.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "error/error.h"
#include "llm/vulkan/kernel_plan.h"
#include "llm/vulkan/pipelines.h"
#include "llm/vulkan/vulkan_context.h"
#include "llm/vulkan/vulkan_memory.h"
#include "llm/vulkan/weight_layout.h"

namespace vesper {
namespace {

// Command buffers handed to the driver at once.
constexpr uint32_t kMaxSubmit = 64;

struct Recording {
  std::vector<KernelPlan> kernels;
  std::vector<uint32_t> stages;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  // The same, skipped while a stop word is not zero; by the word's place.
  std::map<std::pair<BufferId, uint64_t>, VkCommandBuffer> conditional;
};

void compute_barrier(VkCommandBuffer commands) {
  VkMemoryBarrier2 barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
  barrier.srcStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
  barrier.srcAccessMask = VK_ACCESS_2_SHADER_WRITE_BIT;
  barrier.dstStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
  barrier.dstAccessMask = VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT;
  VkDependencyInfo dependency{};
  dependency.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  vkCmdPipelineBarrier2(commands, &dependency);
}

class VulkanDevice : public Device {
 public:
  VulkanDevice(uint32_t index, const VulkanOptions& options)
      : full_barriers_(options.full_barriers),
        context_(index, options),
        memory_(context_, options.host_visible),
        pipelines_(context_) {
    const VulkanCapabilities& c = context_.capabilities();
    info_ = {"vulkan", c.name, c.is_hardware_gpu, c.memory_bytes};
  }

  const DeviceInfo& info() const override { return info_; }

  Compute resolve(Compute wanted) const override {
    switch (wanted) {
      case Compute::kAuto:
        return context_.capabilities().has_cooperative_matrix() ? Compute::kF16 : Compute::kF32;
      case Compute::kBF16:
        throw Error(ErrorKind::kUsage, "--compute: bf16 was asked for, but " + info_.name +
                                           " computes in f32, f16 or int8 here");
      default:
        return wanted;
    }
  }

  DType activation_dtype(Compute resolved, WeightUse use) const override {
    // A few rows are read from cache: f16 would gain nothing.
    if (resolved == Compute::kF32 || use != WeightUse::kManyRows) return DType::kF32;
    // int8 weights meet f16 in the matrix units; without these there is nothing to gain.
    if (resolved == Compute::kI8 && !context_.capabilities().has_cooperative_matrix()) {
      return DType::kF32;
    }
    return DType::kF16;
  }

  Operand allocate(uint64_t bytes, std::string_view label) override {
    return memory_.allocate(bytes, label);
  }

  uint64_t stored_bytes(const MatrixSource& source, WeightUse, Compute resolved) const override {
    const WeightLayout layout = weight_layout(source, resolved);
    const uint64_t scales = layout.format == DType::kI8 ? layout.n_out * sizeof(float) : 0;
    return layout.bytes() + scales;
  }

  Weight upload(const MatrixSource& source, WeightUse, Compute resolved) override {
    const WeightLayout layout = weight_layout(source, resolved);
    const std::string& label = source.parts[0]->name;
    Weight weight;
    weight.format = static_cast<uint32_t>(layout.format);
    if (resolved != Compute::kF32) weight.format |= kWeightHalfProducts;
    weight.n_out = layout.n_out;
    weight.n_in = layout.n_in;
    weight.data = memory_.allocate(layout.bytes(), label);
    std::vector<float> scales;
    if (layout.format == DType::kI8) scales.resize(layout.n_out);
    memory_.fill(
        weight.data, layout.row_bytes, [&](uint64_t offset, uint64_t bytes, std::byte* out) {
          const uint32_t first = static_cast<uint32_t>(offset / layout.row_bytes);
          write_rows(source, layout, first, static_cast<uint32_t>(bytes / layout.row_bytes), out,
                     scales.empty() ? nullptr : scales.data() + first);
        });
    if (!scales.empty()) {
      weight.scale = memory_.allocate(scales.size() * sizeof(float), label);
      memory_.write(weight.scale, scales.data());
    }
    return weight;
  }

  void write(const Operand& to, const void* from) override { memory_.write(to, from); }
  void read(const Operand& from, void* to) override { memory_.read(from, to); }

  RecordingId record(const DispatchTable& table) override {
    Recording recording;
    recording.stages = table.stages();
    std::vector<PipelineKey> keys;
    for (size_t i = 0; i < table.commands().size(); ++i) {
      recording.kernels.push_back(
          plan_kernel(table.commands()[i], table.labels()[i], memory_, context_.capabilities()));
      keys.push_back(recording.kernels.back().pipeline);
    }
    pipelines_.prepare(keys);
    recording.commands = write_commands(recording, std::nullopt);
    recordings_.push_back(std::move(recording));
    return static_cast<RecordingId>(recordings_.size() - 1);
  }

  void run(RecordingId id, uint32_t times, const Operand& stop) override {
    Recording& recording = recordings_.at(id);
    if (!stop.present()) return submit(recording.commands, times);
    if (context_.capabilities().conditional_rendering) {
      VkCommandBuffer& commands = recording.conditional[{stop.buffer, stop.offset_bytes}];
      if (!commands) commands = write_commands(recording, memory_.place(stop));
      return submit(commands, times);
    }
    for (uint32_t i = 0; i < times; ++i) {
      uint32_t stopped = 0;
      memory_.read(stop.part(0, sizeof stopped), &stopped);
      if (stopped) return;
      submit(recording.commands, 1);
    }
  }

  std::vector<double> profile_us(RecordingId id) override;

 private:
  void submit(VkCommandBuffer commands, uint32_t times) {
    const std::array<VkCommandBuffer, kMaxSubmit> buffers = [&] {
      std::array<VkCommandBuffer, kMaxSubmit> same;
      same.fill(commands);
      return same;
    }();
    while (times > 0) {
      const uint32_t n = std::min(times, kMaxSubmit);
      context_.submit(buffers.data(), n);
      times -= n;
    }
  }

  void begin(VkCommandBuffer commands, bool conditional) const {
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    check_vulkan(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
    // After whatever was submitted before: runs, copies.
    VkMemoryBarrier2 barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
    barrier.srcStageMask =
        VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_TRANSFER_BIT;
    barrier.srcAccessMask = VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT;
    barrier.dstStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
    barrier.dstAccessMask = VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT;
    if (conditional) {
      barrier.dstStageMask |= VK_PIPELINE_STAGE_2_CONDITIONAL_RENDERING_BIT_EXT;
      barrier.dstAccessMask |= VK_ACCESS_2_CONDITIONAL_RENDERING_READ_BIT_EXT;
    }
    VkDependencyInfo dependency{};
    dependency.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
    dependency.memoryBarrierCount = 1;
    dependency.pMemoryBarriers = &barrier;
    vkCmdPipelineBarrier2(commands, &dependency);
  }

  void dispatch(VkCommandBuffer commands, const KernelPlan& kernel, VkPipeline& bound) const {
    const VkPipeline pipeline = pipelines_.get(kernel.pipeline);
    if (pipeline != bound) vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    bound = pipeline;
    vkCmdPushConstants(commands, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       kernel.push_bytes, kernel.push.data());
    vkCmdDispatch(commands, kernel.groups[0], kernel.groups[1], kernel.groups[2]);
  }

  VkCommandBuffer write_commands(const Recording& recording,
                                 std::optional<VulkanMemory::Place> stop) {
    VkCommandBuffer commands = context_.allocate_command_buffer();
    begin(commands, stop.has_value());
    if (stop) context_.begin_conditional(commands, stop->buffer, stop->offset_bytes);
    VkPipeline bound = VK_NULL_HANDLE;
    for (size_t i = 0; i < recording.kernels.size(); ++i) {
      if (i > 0 && (full_barriers_ || recording.stages[i] != recording.stages[i - 1])) {
        compute_barrier(commands);
      }
      dispatch(commands, recording.kernels[i], bound);
    }
    if (stop) context_.end_conditional(commands);
    check_vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
  }

  const bool full_barriers_;
  VulkanContext context_;
  VulkanMemory memory_;
  Pipelines pipelines_;
  DeviceInfo info_;
  std::vector<Recording> recordings_;
};

std::vector<double> VulkanDevice::profile_us(RecordingId id) {
  const Recording& recording = recordings_.at(id);
  const double tick_ns = context_.capabilities().timestamp_ns;
  if (tick_ns == 0) throw Error(ErrorKind::kDevice, info_.name + ": its queue has no timestamps");
  const uint32_t n = static_cast<uint32_t>(recording.kernels.size());
  VkQueryPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  pool_info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  pool_info.queryCount = n + 1;
  VkQueryPool queries = VK_NULL_HANDLE;
  check_vulkan(vkCreateQueryPool(context_.device(), &pool_info, nullptr, &queries),
               "vkCreateQueryPool");
  VkCommandBuffer commands = context_.allocate_command_buffer();
  begin(commands, false);
  vkCmdResetQueryPool(commands, queries, 0, n + 1);
  VkPipeline bound = VK_NULL_HANDLE;
  vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, queries, 0);
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0) compute_barrier(commands);
    dispatch(commands, recording.kernels[i], bound);
    vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, queries, i + 1);
  }
  check_vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  context_.submit(&commands, 1);
  context_.wait();
  std::vector<uint64_t> ticks(n + 1);
  const VkResult result = vkGetQueryPoolResults(
      context_.device(), queries, 0, n + 1, ticks.size() * sizeof(uint64_t), ticks.data(),
      sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  vkDestroyQueryPool(context_.device(), queries, nullptr);
  check_vulkan(result, "vkGetQueryPoolResults");
  std::vector<double> us(n);
  for (uint32_t i = 0; i < n; ++i)
    us[i] = static_cast<double>(ticks[i + 1] - ticks[i]) * tick_ns / 1000;
  return us;
}

}  // namespace

bool has_hardware_vulkan_device() {
  const std::vector<VulkanListing> devices = list_vulkan_devices();
  return std::any_of(devices.begin(), devices.end(), [](const VulkanListing& device) {
    return device.is_hardware_gpu && device.unusable.empty();
  });
}

std::unique_ptr<Device> open_vulkan_device(uint32_t index, const VulkanOptions& options) {
  return std::make_unique<VulkanDevice>(index, options);
}

std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options) {
  VulkanOptions vulkan;
  vulkan.full_barriers = options.full_barriers;
  constexpr std::string_view kPrefix = "vulkan:";
  if (name.starts_with(kPrefix)) {
    const std::string_view number = name.substr(kPrefix.size());
    uint32_t index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size()) {
      throw Error(ErrorKind::kUsage,
                  "--device: expected vulkan:N with a number N, found '" + std::string(name) + "'");
    }
    return open_vulkan_device(index, vulkan);
  }
  if (name != "vulkan" && name != "auto") {
    throw Error(ErrorKind::kUsage,
                "--device: expected auto, vulkan or vulkan:N, found '" + std::string(name) + "'");
  }
  const std::vector<VulkanListing> devices = list_vulkan_devices();
  if (devices.empty()) {
    throw Error(ErrorKind::kDevice, "no Vulkan device: there is no driver, or it sees none");
  }
  std::optional<uint32_t> chosen;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].unusable.empty()) continue;
    if (devices[i].is_hardware_gpu) {
      chosen = i;
      break;
    }
    if (!chosen && name == "vulkan") chosen = i;
  }
  if (!chosen) {
    std::string reasons;
    for (const VulkanListing& device : devices) {
      reasons += "; " + device.name +
                 (device.unusable.empty() ? " is no GPU" : " lacks " + device.unusable);
    }
    throw Error(ErrorKind::kDevice, "no usable Vulkan device" + reasons);
  }
  return open_vulkan_device(*chosen, vulkan);
}

}  // namespace vesper
