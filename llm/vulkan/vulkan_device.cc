#include "llm/vulkan/vulkan_device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "error/error.h"
#include "llm/vulkan/context/gpu_nodes.h"
#include "llm/vulkan/context/vulkan_context.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/kernel_plan.h"
#include "llm/vulkan/kernels/matrix_layout.h"
#include "llm/vulkan/kernels/pipelines.h"
#include "llm/vulkan/kernels/weight_layout.h"
#include "llm/vulkan/replay_clock.h"
#include "llm/vulkan/stage_order.h"

namespace vesper {
namespace {

// Command buffers per submission.
constexpr uint32_t kMaxSubmit = 64;

// A program's command buffers with a clock, one per slot.
struct ClockedCommands {
  std::unique_ptr<ReplayClock> clock;
  std::array<VkCommandBuffer, ReplayClock::kSlots + 1> commands{};  // the last: kUnclocked
};

struct Program {
  std::vector<KernelPlan> kernels;
  std::vector<uint32_t> stages;
  std::vector<bool> waits;  // kernels without a barrier before them (stage_order.h)
  VkCommandBuffer commands = VK_NULL_HANDLE;
  // The same, skipped while a stop word is not zero; by buffer and offset of the word.
  std::map<std::pair<BufferId, uint64_t>, VkCommandBuffer> conditional;
  // By clock, and by buffer and offset of the stop word, if any.
  std::map<std::tuple<Clock, BufferId, uint64_t>, ClockedCommands> clocked;
};

void compute_barrier(VkCommandBuffer commands) {
  record_barrier(commands, {VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_ACCESS_2_SHADER_WRITE_BIT},
                 {VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                  VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT});
}

std::vector<DeviceInfo::Capability> abilities_of(const VulkanCapabilities& c) {
  const auto number = [](uint64_t n) { return std::to_string(n); };
  std::string matrices = "none";
  if (c.has_cooperative_matrix()) {
    matrices = number(c.matrix_m) + "x" + number(c.matrix_n) + "x" + number(c.matrix_k) + " of f16";
  } else if (c.lacks_matrix_shaders) {
    matrices = "not used: this build was made with a glslang older than 13";
  }
  const bool tiles = c.has_cooperative_matrix() && !shader_code(Shader::kMatmulCooperative).empty();
  const std::string large = tiles ? "matmul_cooperative" : "matmul_tiled";
  return {{"subgroups", number(c.subgroup_size) + (c.fixed_subgroups ? ", fixed" : "")},
          {"processors", c.n_processors == 0 ? "not told" : number(c.n_processors)},
          {"shared memory", number(c.shared_bytes / 1024) + " KiB"},
          {"matrix units", matrices},
          {"products", "matmul_vector to " + number(kMaxVectorRows) + " rows, " + large + " above"},
          {"quantized products", c.tuning.int8_rows == 0
                                     ? "not in int8"
                                     : "matmul_int8 to " + number(c.tuning.int8_rows) + " rows"},
          {"attention", tiles ? "attention_cooperative where f16" : "attention"},
          {"after a stop", c.conditional_rendering ? "the rest of a chain is skipped"
                                                   : "the host looks before each step"},
          {"stages", c.starts_in_order && c.tuning.order_groups != 0 ? "wait by counters if small"
                                                                     : "wait at barriers"},
          {"clock", c.timestamp_ns == 0 ? "none" : "timestamps"}};
}

// The choices that follow from a device's capabilities.
class VulkanChoices : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }

  Compute resolve(Compute wanted, WeightUse use) const override {
    switch (wanted) {
      case Compute::kAuto:
        // The file's format decides whether products of few rows use int8.
        if (use != WeightUse::kManyRows && capabilities_.tuning.int8_rows != 0) return wanted;
        return of_many_rows(wanted);
      case Compute::kBF16:
        throw Error(ErrorKind::kUsage, "compute",
                    "bf16 was asked for, but " + info_.name + " computes in f32, f16 or int8 here");
      default:
        return wanted;
    }
  }

  DType activation_dtype(Compute resolved, WeightUse use, uint32_t n_rows) const override {
    resolved = of_many_rows(resolved);
    if (resolved == Compute::kF32) return DType::kF32;
    const bool has_matrices = capabilities_.has_cooperative_matrix();
    // A few rows are read from the cache: f16 would gain nothing.
    if (use != WeightUse::kManyRows) {
      return has_matrices && n_rows > kMaxVectorRows ? DType::kF16 : DType::kF32;
    }
    // Matrix units multiply int8 weights as f16. Without them f16 gains nothing.
    return resolved == Compute::kI8 && !has_matrices ? DType::kF32 : DType::kF16;
  }

  uint64_t stored_bytes(const MatrixSource& source, WeightUse use,
                        Compute resolved) const override {
    // The order of matrices takes the same memory, and only an open device knows it.
    const WeightLayout layout = weight_layout(source, use, of_many_rows(resolved), 0);
    return layout.bytes() + layout.all_scale_bytes();
  }

 protected:
  // The format of products of many rows.
  Compute of_many_rows(Compute resolved) const {
    if (resolved != Compute::kAuto) return resolved;
    return capabilities_.has_cooperative_matrix() ? Compute::kF16 : Compute::kF32;
  }
  void take(const VulkanCapabilities& c) {
    capabilities_ = c;
    info_ = {"vulkan", c.name, c.is_hardware_gpu, c.memory_bytes, abilities_of(c)};
    info_.policy.is_emulated_gpu = !c.is_hardware_gpu;
    info_.policy.attention_writes_kv = true;
    info_.policy.sequences_are_cheap = true;
    if (c.is_hardware_gpu) {
      info_.policy.embedding_batch_tokens = 16384;
      info_.policy.encoded_windows = 8;
    }
    if (c.has_cooperative_matrix()) {
      // Enough for several tiles of each product per processor; a pass takes no longer on a GPU
      // with fewer processors.
      info_.policy.most_pass_rows = std::clamp(16 * c.n_processors, 512u, 2048u);
    }
    info_.policy.speech_chunks = c.is_hardware_gpu ? 2048 : 512;
    const std::string of_many(compute_name(of_many_rows(Compute::kAuto)));
    info_.policy.products(Compute::kAuto, false).activations = of_many;
    info_.policy.products(Compute::kAuto, true).activations =
        c.tuning.int8_rows == 0 ? of_many : "int8, " + of_many;
  }

 private:
  VulkanCapabilities capabilities_;
  DeviceInfo info_;
};

class PlannedVulkanDevice final : public VulkanChoices {
 public:
  explicit PlannedVulkanDevice(const VulkanCapabilities& capabilities) { take(capabilities); }

  Operand allocate(uint64_t, std::string_view) override { not_open(); }
  Weight upload(const MatrixSource&, WeightUse, Compute) override { not_open(); }
  void write(const Operand&, const void*) override { not_open(); }
  void read(const Operand&, void*) override { not_open(); }
  ProgramId record(const DispatchTable&) override { not_open(); }
  void run(ProgramId, uint32_t, const Operand&) override { not_open(); }
  std::vector<CommandVariant> variants(ProgramId) const override { not_open(); }
  void set_clock(Clock) override { not_open(); }
  ReplayTimes replay_times(ProgramId) override { not_open(); }

 private:
  [[noreturn]] void not_open() const {
    throw Error(ErrorKind::kInternal, info().name + ": is only planned on, not open");
  }
};

class VulkanDevice final : public VulkanChoices {
 public:
  VulkanDevice(std::unique_ptr<VulkanInstance> instance, uint32_t index,
               const VulkanOptions& options)
      : full_barriers_(options.full_barriers),
        host_visible_(options.host_visible),
        opens_beside_(options.opens_beside),
        context_(std::move(instance), index, options),
        memory_(context_, host_visible_),
        pipelines_(context_) {
    if (has_rows_in_quads(context_, memory_, pipelines_)) context_.set_matrix_rows_in_quads();
    take(context_.capabilities());
  }

  std::unique_ptr<Device> open_beside() override {
    return std::unique_ptr<Device>(opens_beside_ ? new VulkanDevice(*this) : nullptr);
  }

  Operand allocate(uint64_t bytes, std::string_view label) override {
    return memory_.allocate(bytes, label);
  }

  Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) override {
    const Compute of_many = of_many_rows(resolved);
    const WeightLayout layout =
        weight_layout(source, use, of_many, context_.capabilities().weight_matrix_side);
    const std::string& label = source.parts[0]->name;
    Weight weight;
    weight.format = layout.weight_format();
    if (of_many != Compute::kF32) weight.format |= kWeightHalfProducts;
    const VulkanTuning& tuning = context_.capabilities().tuning;
    const bool on_matrix_units = of_many != Compute::kF32 &&
                                 context_.capabilities().has_cooperative_matrix() &&
                                 layout.n_in % 8 == 0;
    if (layout.blocks.bits == 0) {
      if (use != WeightUse::kManyRows) {
        weight.gate_rows = std::min(on_matrix_units ? tuning.vector_rows : tuning.vector_gate_rows,
                                    kMaxVectorRows);
        weight.norm_rows = std::min(weight.gate_rows, tuning.vector_norm_rows);
        weight.layer_norm_rows =
            std::min(tuning.vector_layer_norm_columns / layout.n_in, kMaxVectorRows);
      }
    } else if (resolved == Compute::kAuto || resolved == Compute::kI8) {
      weight.int8_rows = weight.gate_rows = tuning.int8_rows;
      weight.norm_rows = std::min(tuning.int8_rows, tuning.int8_norm_rows);
      if (weight.int8_rows != 0) weight.format |= kWeightInt8Products;
    }
    if (layout.matrix_side != 0) {
      if (layout.has_gates) weight.gate_from_rows = 1;
    } else if (on_matrix_units) {
      weight.gate_from_rows = kMaxVectorRows + 1;
    }
    weight.n_out = layout.n_out;
    weight.n_in = layout.n_in;
    weight.data = memory_.allocate(layout.bytes(), label);
    // Aligned for any type by operator new.
    std::vector<std::byte> scales(layout.all_scale_bytes());
    memory_.fill(weight.data, layout.row_bytes * layout.row_unit(),
                 [&](uint64_t offset, uint64_t bytes, std::byte* out) {
                   const uint32_t first = static_cast<uint32_t>(offset / layout.row_bytes);
                   write_rows(source, layout, first,
                              static_cast<uint32_t>(bytes / layout.row_bytes), out,
                              scales.data() + first * layout.scale_bytes);
                 });
    if (!scales.empty()) {
      weight.scale = memory_.allocate(scales.size(), label);
      memory_.write(weight.scale, scales.data());
    }
    return weight;
  }

  void write(const Operand& to, const void* from) override { memory_.write(to, from); }
  void read(const Operand& from, void* to) override {
    memory_.read(from, to);
    stage_order_.check();
  }

  ProgramId record(const DispatchTable& table) override { return record_all({&table, 1}).front(); }

  std::vector<ProgramId> record_all(std::span<const DispatchTable> tables) override {
    std::vector<Program> programs;
    std::vector<PipelineKey> keys;
    for (const DispatchTable& table : tables) {
      Program& program = programs.emplace_back();
      program.stages = table.stages();
      for (size_t i = 0; i < table.commands().size(); ++i) {
        program.kernels.push_back(
            plan_kernel(table.commands()[i], table.labels()[i], memory_, context_.capabilities()));
      }
      assign_scratch(program);
      program.waits = stage_order_.apply(program.kernels, program.stages);
      for (const KernelPlan& kernel : program.kernels) keys.push_back(kernel.pipeline);
    }
    pipelines_.prepare(keys);
    std::vector<ProgramId> ids;
    for (Program& program : programs) {
      program.commands = write_commands(program, std::nullopt, {});
      ids.push_back(static_cast<ProgramId>(programs_.size()));
      programs_.push_back(std::move(program));
    }
    return ids;
  }

  void run(ProgramId id, uint32_t times, const Operand& stop) override {
    Program& program = programs_.at(id);
    if (clock_ != Clock::kOff) return run_clocked(program, times, stop);
    if (!stop.present()) return submit(program.commands, times);
    if (context_.capabilities().conditional_rendering) {
      VkCommandBuffer& commands = program.conditional[{stop.buffer, stop.offset_bytes}];
      if (!commands) commands = write_commands(program, memory_.range(stop), {});
      return submit(commands, times);
    }
    for (uint32_t i = 0; i < times && !is_stopped(stop); ++i) submit(program.commands, 1);
  }

  std::vector<CommandVariant> variants(ProgramId id) const override {
    std::vector<CommandVariant> forms;
    for (const KernelPlan& kernel : programs_.at(id).kernels) {
      forms.push_back({shader_name(kernel.pipeline.shader), kernel.groups,
                       pipelines_.spilled_bytes(kernel.pipeline)});
    }
    return forms;
  }

  void set_clock(Clock clock) override {
    clock_ = clock;
    for (Program& program : programs_) {
      for (auto& [key, clocked] : program.clocked) clocked.clock->forget();
    }
  }

  ReplayTimes replay_times(ProgramId id) override {
    ReplayTimes times;
    for (auto& [key, clocked] : programs_.at(id).clocked) {
      if (std::get<Clock>(key) != clock_) continue;
      clocked.clock->collect();
      const ReplayTimes& more = clocked.clock->times();
      times.n_runs += more.n_runs;
      times.us.resize(std::max(times.us.size(), more.us.size()));
      for (size_t i = 0; i < more.us.size(); ++i) times.us[i] += more.us[i];
    }
    return times;
  }

 private:
  // For open_beside().
  explicit VulkanDevice(const VulkanDevice& first)
      : full_barriers_(first.full_barriers_),
        host_visible_(first.host_visible_),
        opens_beside_(false),
        context_(VulkanContext::Beside{first.context_}),
        memory_(context_, host_visible_),
        pipelines_(context_) {
    take(context_.capabilities());
  }

  // Gives the kernels of each stage separate scratch memory. Stages and programs share it.
  void assign_scratch(Program& program) {
    const auto assign = [&](const auto& bytes_of, Operand& buffer, const char* label,
                            uint32_t from_end) {
      std::vector<uint64_t> offsets(program.kernels.size());
      uint64_t of_stage = 0, most = 0;
      for (size_t i = 0; i < offsets.size(); ++i) {
        if (i > 0 && program.stages[i] != program.stages[i - 1]) of_stage = 0;
        offsets[i] = of_stage;
        constexpr uint64_t kUnit = VulkanMemory::kAlignment;
        of_stage += (bytes_of(program.kernels[i]) + kUnit - 1) / kUnit * kUnit;
        most = std::max(most, of_stage);
      }
      if (most > buffer.bytes) buffer = memory_.allocate(most, label);
      for (size_t i = 0; i < offsets.size(); ++i) {
        KernelPlan& kernel = program.kernels[i];
        const uint64_t bytes = bytes_of(kernel);
        if (bytes == 0) continue;
        const uint64_t address = memory_.address(buffer.part(offsets[i], bytes));
        std::memcpy(kernel.push.data() + kernel.push_bytes - from_end, &address, sizeof address);
      }
    };
    assign([](const KernelPlan& kernel) { return kernel.scratch_bytes; }, scratch_, "partial sums",
           16);
    assign([](const KernelPlan& kernel) { return uint64_t{kernel.n_counters} * sizeof(uint32_t); },
           counters_, "counters", 8);
  }

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

  bool is_stopped(const Operand& stop) {
    uint32_t stopped = 0;
    memory_.read(stop.part(0, sizeof stopped), &stopped);
    return stopped != 0;
  }

  void run_clocked(Program& program, uint32_t times, const Operand& stop) {
    const bool conditional = stop.present() && context_.capabilities().conditional_rendering;
    const Operand word = conditional ? stop : Operand();
    ClockedCommands& clocked = program.clocked[{clock_, word.buffer, word.offset_bytes}];
    if (!clocked.clock) {
      const size_t n_commands = program.stages.size();
      const uint32_t n_stages = clock_ == Clock::kPerCommand ? static_cast<uint32_t>(n_commands)
                                : n_commands == 0            ? 0
                                                             : program.stages.back() + 1;
      clocked.clock =
          std::make_unique<ReplayClock>(context_, memory_, pipelines_, n_stages, clock_);
    }
    while (times > 0) {
      uint32_t n = std::min(times, ReplayClock::kSlots);
      if (stop.present() && !conditional) {
        if (is_stopped(stop)) return;
        n = 1;
      }
      std::optional<VulkanMemory::Range> range;
      if (conditional) range = memory_.range(stop);
      std::array<VkCommandBuffer, ReplayClock::kSlots> chain;
      const std::vector<uint32_t>& slots = clocked.clock->take(n, conditional);
      for (uint32_t i = 0; i < n; ++i) {
        VkCommandBuffer& commands = clocked.commands[slots[i]];
        if (!commands) commands = write_commands(program, range, {clocked.clock.get(), slots[i]});
        chain[i] = commands;
      }
      context_.submit(chain.data(), n);
      times -= n;
    }
  }

  void begin(VkCommandBuffer commands, bool conditional) const {
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    check_vulkan(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
    // Ordered after previous submissions: runs and copies.
    BarrierScope after{VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                       VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT};
    if (conditional) {
      after.stages |= VK_PIPELINE_STAGE_2_CONDITIONAL_RENDERING_BIT_EXT;
      after.accesses |= VK_ACCESS_2_CONDITIONAL_RENDERING_READ_BIT_EXT;
    }
    record_barrier(commands,
                   {VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_TRANSFER_BIT,
                    VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT},
                   after);
  }

  void dispatch(VkCommandBuffer commands, const KernelPlan& kernel, VkPipeline& bound) const {
    const VkPipeline pipeline = pipelines_.get(kernel.pipeline);
    if (pipeline != bound) vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    bound = pipeline;
    vkCmdPushConstants(commands, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       kernel.push_bytes, kernel.push.data());
    vkCmdDispatch(commands, kernel.groups[0], kernel.groups[1], kernel.groups[2]);
  }

  // Clock and slot of a command buffer; none by default.
  struct ClockSlot {
    ReplayClock* clock = nullptr;
    uint32_t slot = ReplayClock::kUnclocked;
  };

  VkCommandBuffer write_commands(const Program& program, std::optional<VulkanMemory::Range> stop,
                                 ClockSlot at) {
    VkCommandBuffer commands = context_.allocate_command_buffer();
    begin(commands, stop.has_value());
    const bool has_marks = at.slot != ReplayClock::kUnclocked;
    if (has_marks) at.clock->mark_done(commands, at.slot, 0);
    if (stop) context_.begin_conditional(commands, stop->buffer, stop->offset_bytes);
    VkPipeline bound = VK_NULL_HANDLE;
    if (at.clock && stop) dispatch(commands, at.clock->counting(at.slot), bound);
    // A software device runs a dispatch before it reaches the next command. A mark after it would
    // count the first dispatch of a stage to the stage before.
    const bool runs_in_order = context_.capabilities().tuning.runs_in_order;
    const bool each = has_marks && clock_ == Clock::kPerCommand;
    uint32_t mark = 0;
    for (size_t i = 0; i < program.kernels.size(); ++i) {
      const bool new_stage = i > 0 && program.stages[i] != program.stages[i - 1];
      const bool ends_here = each ? i > 0 : has_marks && runs_in_order && new_stage;
      if (ends_here) at.clock->mark_done(commands, at.slot, ++mark);
      if (i > 0 && (full_barriers_ || each || (new_stage && (has_marks || !program.waits[i])))) {
        compute_barrier(commands);
      }
      dispatch(commands, program.kernels[i], bound);
      if (has_marks && !each && !runs_in_order && new_stage)
        at.clock->mark_reached(commands, at.slot, ++mark);
    }
    if (has_marks && !program.kernels.empty()) at.clock->mark_done(commands, at.slot, ++mark);
    if (stop) context_.end_conditional(commands);
    check_vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
  }

  const bool full_barriers_, host_visible_, opens_beside_;
  VulkanContext context_;
  VulkanMemory memory_;
  Pipelines pipelines_;
  StageOrder stage_order_{context_.capabilities(), memory_};
  Clock clock_ = Clock::kOff;
  std::vector<Program> programs_;
  Operand scratch_, counters_;  // of the programs that are recorded next; earlier programs keep
                                // theirs
};

// The number of "vulkan:N"; empty for another name. Throws Error(kUsage) if N is no number.
std::optional<uint32_t> device_number(std::string_view name) {
  constexpr std::string_view kPrefix = "vulkan:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view number = name.substr(kPrefix.size());
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc() || end != number.data() + number.size()) {
    throw Error(ErrorKind::kUsage, "device",
                "expected vulkan:N with a number N, found '" + std::string(name) + "'");
  }
  return index;
}

std::optional<uint32_t> first_usable_gpu(const std::vector<VulkanListing>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(), [](const VulkanListing& device) {
    return device.is_hardware_gpu && device.unusable.empty();
  });
  if (found == devices.end()) return std::nullopt;
  return static_cast<uint32_t>(found - devices.begin());
}

VulkanOptions vulkan_options(const DeviceOptions& options) {
  VulkanOptions vulkan;
  vulkan.full_barriers = options.full_barriers;
  vulkan.opens_beside = options.opens_beside;
  return vulkan;
}

const std::vector<VulkanListing>& devices_of(const std::unique_ptr<VulkanInstance>& instance) {
  static const std::vector<VulkanListing> kNone;
  return instance ? instance->devices() : kNone;
}

}  // namespace

uint32_t choose_vulkan_device(std::string_view name, const std::vector<VulkanListing>& devices) {
  if (const std::optional<uint32_t> number = device_number(name)) {
    const std::string label = "vulkan:" + std::to_string(*number);
    if (*number >= devices.size()) {
      throw Error(ErrorKind::kDevice,
                  label + ": there are " + std::to_string(devices.size()) + " Vulkan devices");
    }
    const VulkanListing& device = devices[*number];
    if (!device.unusable.empty()) {
      throw Error(ErrorKind::kDevice, label + " (" + device.name + ") lacks " + device.unusable);
    }
    return *number;
  }
  if (name != "vulkan" && name != "auto") {
    throw Error(ErrorKind::kUsage, "device",
                "expected auto, vulkan or vulkan:N, found '" + std::string(name) + "'");
  }
  if (devices.empty()) {
    throw Error(ErrorKind::kDevice, "no Vulkan device: there is no driver, or it sees none");
  }
  if (const std::optional<uint32_t> gpu = first_usable_gpu(devices)) return *gpu;
  for (uint32_t i = 0; i < devices.size() && name == "vulkan"; ++i) {
    if (devices[i].unusable.empty()) return i;
  }
  std::string reasons;
  for (const VulkanListing& device : devices) {
    reasons +=
        "; " + device.name + (device.unusable.empty() ? " is no GPU" : " lacks " + device.unusable);
  }
  throw Error(ErrorKind::kDevice, "no usable Vulkan device" + reasons);
}

std::unique_ptr<Device> plan_vulkan_device(const VulkanListing& listing) {
  return std::make_unique<PlannedVulkanDevice>(*listing.capabilities);
}

std::unique_ptr<Device> open_vulkan_device(uint32_t index, const VulkanOptions& options) {
  auto instance = vulkan_instance(options);
  choose_vulkan_device("vulkan:" + std::to_string(index), devices_of(instance));
  return std::make_unique<VulkanDevice>(std::move(instance), index, options);
}

std::unique_ptr<Device> open_vulkan_device(std::string_view name, const DeviceOptions& options) {
  const VulkanOptions vulkan = vulkan_options(options);
  auto instance = vulkan_instance(vulkan);
  const uint32_t index = choose_vulkan_device(name, devices_of(instance));
  return std::make_unique<VulkanDevice>(std::move(instance), index, vulkan);
}

std::unique_ptr<Device> open_vulkan_gpu(const DeviceOptions& options) {
  if (!may_have_gpu()) return nullptr;
  const VulkanOptions vulkan = vulkan_options(options);
  auto instance = vulkan_instance(vulkan);
  const std::optional<uint32_t> index = first_usable_gpu(devices_of(instance));
  if (!index) return nullptr;
  return std::make_unique<VulkanDevice>(std::move(instance), *index, vulkan);
}

}  // namespace vesper
