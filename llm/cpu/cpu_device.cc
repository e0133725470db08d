#include "llm/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "error/error.h"
#include "llm/cpu/buffer_memory.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/gemm.h"
#include "llm/cpu/matmul/packed_weight.h"
#include "llm/cpu/prepared_command.h"
#include "llm/cpu/thread_pool.h"

namespace vesper {

void CommandToPrepare::fail(const std::string& what) const {
  throw Error(ErrorKind::kInternal,
              "cpu: command " + label_ + " (" + kernel_name(command_.kernel) + "): " + what);
}

void CommandToPrepare::require_bytes(uint32_t index, uint64_t bytes, bool optional) const {
  const Operand& operand = command_.operands[index];
  if (index < command_.n_operands && operand.present()) {
    if (operand.bytes >= bytes) return;
    fail("operand " + std::to_string(index) + ": expected at least " + std::to_string(bytes) +
         " bytes, found " + std::to_string(operand.bytes));
  }
  if (!optional) fail("operand " + std::to_string(index) + " is absent");
}

namespace {

using PrepareKernel = void (*)(PreparedCommand&, const CommandToPrepare&);
constexpr PrepareKernel kPrepareKernels[] = {
#define VESPER_PREPARE_KERNEL(id, name, params) prepare_##name,
    VESPER_KERNELS(VESPER_PREPARE_KERNEL)
#undef VESPER_PREPARE_KERNEL
};
static_assert(std::size(kPrepareKernels) == kKernelCount);

// A task of a stage: its command, and its index there.
struct TaskOfStage {
  uint32_t command, task;
};

// The tasks of a program's commands by stage. Stages of the table without tasks are left out.
struct StagedTasks {
  const PreparedCommand* commands = nullptr;
  ThreadScratch* scratch = nullptr;       // [n_threads], of the device
  std::vector<TaskOfStage> tasks;         // stage by stage
  std::vector<size_t> first_of_stage;     // index in tasks
  std::vector<uint32_t> n_tasks;          // of each stage
  std::vector<uint32_t> number_in_table;  // of each stage
  uint32_t n_table_stages = 0;
  StageClock clock;
};

struct Program {
  std::vector<PreparedCommand> commands;
  std::vector<const char*> variants;  // of their kernels; may be empty
  StagedTasks by_stage;
  StagedTasks by_command;  // empty until timed per command
};

void run_task_of_stage(const void* context, uint32_t stage, uint32_t task, uint32_t thread,
                       uint32_t serial) {
  const auto& staged = *static_cast<const StagedTasks*>(context);
  const TaskOfStage& at = staged.tasks[staged.first_of_stage[stage] + task];
  const PreparedCommand& command = staged.commands[at.command];
  ThreadScratch& scratch = staged.scratch[thread];
  scratch.begin_task(command, serial);
  command.run(command, at.task, scratch);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : options_(options),
        features_(cpu_features()),
        pool_(options.n_threads != 0 ? options.n_threads : available_cores()),
        scratch_(pool_.n_threads()) {
    info_.kind = "cpu";
    info_.name = cpu_name();
    info_.memory_bytes = available_memory_bytes();
    if (info_.memory_bytes == UINT64_MAX) info_.memory_bytes = 0;
    describe_capabilities();
    fill_policy();
  }

  const DeviceInfo& info() const override { return info_; }

  Compute resolve(Compute wanted, WeightUse use) const override {
    // A decoder's matrices are stored in 16 bits, or quantized as in the file, and multiplied in
    // any available format. An encoder's rows and weights are both rounded to bf16.
    const bool has_bf16 = use != WeightUse::kManyRows || features_.amx || features_.avx512_bf16;
    switch (wanted) {
      case Compute::kAuto:
        if (use != WeightUse::kManyRows) return wanted;  // choose_packed_format decides
        return has_bf16 ? Compute::kBF16 : Compute::kF32;
      case Compute::kF16:
        throw Error(ErrorKind::kUsage, "compute",
                    "the CPU device has f32, bf16 and int8, found 'f16'");
      case Compute::kBF16:
        if (!has_bf16) {
          throw Error(ErrorKind::kUsage, "compute",
                      "bf16 needs a CPU with AVX512-BF16 or AMX; this one (" + info_.name +
                          ") has f32 and int8");
        }
        return wanted;
      default:
        return wanted;
    }
  }

  DType activation_dtype(Compute resolved, WeightUse use, uint32_t) const override {
    return use == WeightUse::kManyRows && resolved == Compute::kBF16 ? DType::kBF16 : DType::kF32;
  }

  Operand allocate(uint64_t bytes, std::string_view label) override {
    buffers_.emplace_back(bytes, std::string(label), &arena_);
    return {static_cast<BufferId>(buffers_.size()), 0, 0, bytes};
  }

  uint64_t stored_bytes(const MatrixSource& source, WeightUse use,
                        Compute resolved) const override {
    const PackedLayout layout = layout_of(source, use, resolved);
    return layout.bytes() + (layout.has_row_scales() ? layout.n_out * sizeof(float) : 0);
  }

  Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) override {
    const std::string& label = source.parts.front()->file_name;
    const PackedLayout layout = layout_of(source, use, resolved);
    Weight weight;
    weight.n_out = layout.n_out;
    weight.n_in = layout.n_in;
    weight.format = layout.format.word();
    weight.data = allocate(layout.bytes(), label);
    float* scale = nullptr;
    if (layout.has_row_scales()) {
      weight.scale = allocate(uint64_t{weight.n_out} * sizeof(float), label + " scales");
      scale = reinterpret_cast<float*>(data_of(weight.scale));
    }
    pack_weight(source, layout, data_of(weight.data), scale, pool_);
    return weight;
  }

  void write(const Operand& to, const void* from) override {
    std::memcpy(data_of(to), from, to.bytes);
  }

  void read(const Operand& from, void* to) override { std::memcpy(to, data_of(from), from.bytes); }

  ProgramId record(const DispatchTable& table) override {
    auto program = std::make_unique<Program>();
    const std::vector<Command>& commands = table.commands();
    size_t scratch_bytes = 0;
    for (size_t i = 0; i < commands.size(); ++i) {
      program->commands.push_back(prepare(commands[i], table.labels()[i]));
      program->variants.push_back(variant_of(commands[i]));
      scratch_bytes = std::max(scratch_bytes, program->commands.back().scratch_bytes);
    }
    reserve_scratch(scratch_bytes);
    std::vector<uint32_t> stages = table.stages();
    if (options_.full_barriers) std::iota(stages.begin(), stages.end(), 0u);
    program->by_stage = cut(program->commands, stages);
    programs_.push_back(std::move(program));
    return static_cast<ProgramId>(programs_.size() - 1);
  }

  void run(ProgramId id, uint32_t times, const Operand& stop) override {
    Program& program = program_of(id);
    const auto* stop_word =
        stop.present() ? reinterpret_cast<const uint32_t*>(data_of(stop)) : nullptr;
    if (clock_ == Clock::kPerCommand && program.by_command.commands == nullptr) {
      std::vector<uint32_t> stages(program.commands.size());
      std::iota(stages.begin(), stages.end(), 0u);
      program.by_command = cut(program.commands, stages);
    }
    StagedTasks& staged = clock_ == Clock::kPerCommand ? program.by_command : program.by_stage;
    TaskStages stages;
    stages.run_task = run_task_of_stage;
    stages.context = &staged;
    stages.n_tasks = staged.n_tasks.data();
    stages.n_stages = static_cast<uint32_t>(staged.n_tasks.size());
    if (clock_ != Clock::kOff) stages.clock = &staged.clock;
    pool_.run(stages, times, stop_word);
#ifndef NDEBUG
    for (const BufferMemory& buffer : buffers_) buffer.check_canaries();
#endif
  }

  std::vector<CommandVariant> variants(ProgramId id) const override {
    const Program& program = *programs_.at(id);
    std::vector<CommandVariant> forms;
    for (size_t i = 0; i < program.commands.size(); ++i) {
      forms.push_back({program.variants[i], {program.commands[i].n_tasks, 1, 1}});
    }
    return forms;
  }

  void set_clock(Clock clock) override {
    clock_ = clock;
    for (const auto& program : programs_) {
      for (StagedTasks* staged : {&program->by_stage, &program->by_command}) {
        staged->clock.n_runs = 0;
        std::fill(staged->clock.ns.begin(), staged->clock.ns.end(), 0);
      }
    }
  }

  ReplayTimes replay_times(ProgramId id) override {
    const Program& program = program_of(id);
    const StagedTasks& staged =
        clock_ == Clock::kPerCommand ? program.by_command : program.by_stage;
    ReplayTimes times;
    if (staged.clock.n_runs == 0) return times;
    times.n_runs = staged.clock.n_runs;
    times.us.resize(staged.n_table_stages);
    for (size_t i = 0; i < staged.n_tasks.size(); ++i) {
      times.us[staged.number_in_table[i]] = static_cast<double>(staged.clock.ns[i]) / 1000;
    }
    return times;
  }

 private:
  void fill_policy() {
    info_.policy.keeps_layers_together = true;
    // Products have other kernels from kFewRows + 1 rows on, attention from kPromptRows on.
    static_assert(kFewRows == kPromptRows);
    info_.policy.most_alike_rows = kFewRows - 1;
    for (const bool is_quantized : {false, true}) {
      const bool has_int8 = !is_quantized || features_.avx2;
      // The format of many rows, if it differs.
      const std::string of_many = features_.amx                            ? ", bf16"
                                  : !is_quantized && features_.avx512_vnni ? ", int16"
                                                                           : "";
      for (size_t i = 0; i < kComputeCount; ++i) {
        const auto compute = static_cast<Compute>(i);
        const bool chooses_int8 = compute == Compute::kAuto && is_quantized;
        DevicePolicy::Products& products = info_.policy.products(compute, is_quantized);
        products.activations = compute == Compute::kI8
                                   ? (has_int8 ? "int8" : "f32")
                                   : (chooses_int8 && has_int8 ? "int8" : "f32") +
                                         (compute == Compute::kF32 ? "" : of_many);
        products.rounds_attention =
            features_.avx512_bf16 &&
            (compute == Compute::kBF16 || compute == Compute::kI8 || chooses_int8);
      }
    }
  }

  void describe_capabilities() {
    info_.capabilities = {{"threads", std::to_string(pool_.n_threads())},
                          {"vectors", vector_target_name()}};
    info_.capabilities.push_back(
        {"encoder products, f32", features_.amx ? "AMX tiles" : "vectors"});
    info_.capabilities.push_back(
        {"encoder products, bf16", product_name(Storage::kBF16, InputFormat::kBF16)});
    info_.capabilities.push_back(
        {"encoder products, int8", product_name(Storage::kI8, InputFormat::kI8)});
    AttentionParams in_bf16{};
    in_bf16.in_dtype = kDTypeBF16;
    info_.capabilities.push_back({"encoder attention, bf16", attention_variant_name(in_bf16)});
    info_.capabilities.push_back(
        {"decoder products, f16",
         !features_.amx && !features_.avx512_vnni
             ? "vectors"
             : "vectors to " + std::to_string(kFewRows) + " rows, " +
                   (features_.amx ? "AMX tiles" : "16-bit integers by VNNI") + " above"});
    info_.capabilities.push_back(
        {"decoder products, int8", features_.avx512_vnni ? "VNNI" : "vectors"});
    info_.capabilities.push_back({"quantized products, int8", features_.avx512_vnni ? "VNNI"
                                                              : features_.avx_vnni  ? "AVX-VNNI"
                                                              : features_.avx2      ? "AVX2"
                                                                               : "none: in f32"});
  }

  // The product for many rows, for people.
  static const char* product_name(Storage storage, InputFormat inputs) {
    return choose_gemm_kernel({storage, inputs}, kMaxGemmRows).name;
  }

  // `stages`: of each command, never decreasing.
  StagedTasks cut(const std::vector<PreparedCommand>& commands,
                  const std::vector<uint32_t>& stages) {
    StagedTasks staged;
    staged.commands = commands.data();
    staged.scratch = scratch_.data();
    staged.n_table_stages = stages.empty() ? 0 : stages.back() + 1;
    std::mt19937_64 random(options_.shuffle_seed);
    for (size_t i = 0; i < commands.size();) {
      const size_t first = staged.tasks.size();
      const uint32_t stage = stages[i];
      for (; i < commands.size() && stages[i] == stage; ++i) {
        for (uint32_t task = 0; task < commands[i].n_tasks; ++task) {
          staged.tasks.push_back({static_cast<uint32_t>(i), task});
        }
      }
      const size_t n = staged.tasks.size() - first;
      if (n == 0) continue;
      if (options_.shuffle_seed != 0) {
        std::shuffle(staged.tasks.begin() + static_cast<std::ptrdiff_t>(first), staged.tasks.end(),
                     random);
      }
      staged.first_of_stage.push_back(first);
      staged.n_tasks.push_back(static_cast<uint32_t>(n));
      staged.number_in_table.push_back(stage);
    }
    staged.clock.ns.resize(staged.n_tasks.size());
    return staged;
  }

  Program& program_of(ProgramId id) const {
    if (id >= programs_.size()) {
      throw Error(ErrorKind::kInternal, "cpu: no program " + std::to_string(id));
    }
    return *programs_[id];
  }

  // Throws Error(kModel) unless the parts are readable matrices of one width.
  PackedLayout layout_of(const MatrixSource& source, WeightUse use, Compute resolved) const {
    check_matrix("cpu", source);
    uint64_t n_out = 0, n_in = 0;
    for (const TensorView* part : source.parts) {
      n_out += part->shape[0];
      n_in = part->n_elements() / part->shape[0];
    }
    if (n_out == 0 || n_out > UINT32_MAX / 2 || n_in > UINT32_MAX / 2) {
      throw Error(ErrorKind::kInternal, "cpu: a matrix of " + std::to_string(n_out) + " rows of " +
                                            std::to_string(n_in) + " cannot be stored");
    }
    if (use == WeightUse::kManyRows) resolved = resolve(resolved, use);
    return packed_layout(choose_packed_format(source, use, resolved), static_cast<uint32_t>(n_out),
                         static_cast<uint32_t>(n_in));
  }

  const BufferMemory& buffer_of(const Operand& operand) const {
    if (operand.buffer == kNoBuffer || operand.buffer > buffers_.size()) {
      throw Error(ErrorKind::kInternal, "cpu: no buffer " + std::to_string(operand.buffer));
    }
    return buffers_[operand.buffer - 1];
  }

  std::byte* data_of(const Operand& operand) const {
    const BufferMemory& buffer = buffer_of(operand);
    if (operand.offset_bytes > buffer.bytes() ||
        operand.bytes > buffer.bytes() - operand.offset_bytes) {
      throw Error(ErrorKind::kInternal,
                  "cpu: buffer " + buffer.label() + " has " + std::to_string(buffer.bytes()) +
                      " bytes, bytes " + std::to_string(operand.offset_bytes) + " to " +
                      std::to_string(operand.offset_bytes + operand.bytes) + " were asked for");
    }
    return buffer.data() + operand.offset_bytes;
  }

  PreparedCommand prepare(const Command& command, const std::string& label) {
    CommandToPrepare to_prepare(command, label, pool_.n_threads());
    PreparedCommand prepared;
    prepared.params = command.params;
    for (uint32_t i = 0; i < command.n_operands; ++i) {
      if (!command.operands[i].present()) continue;
      prepared.operands[i] = data_of(command.operands[i]);
    }
    if (command.kernel == Kernel::kPagedAttention) {
      auto& parts = attention_parts_[prepared.operands[0]];
      if (!parts) parts = std::make_shared<AttentionParts>();
      to_prepare.attention_parts = parts;
    }
    kPrepareKernels[static_cast<uint32_t>(command.kernel)](prepared, to_prepare);
    return prepared;
  }

  const char* variant_of(const Command& command) const {
    if (command.kernel == Kernel::kAttention) {
      return attention_variant_name(command.params_as<AttentionParams>());
    }
    if (command.kernel == Kernel::kPagedAttention) {
      return attention_variant_name(command.params_as<PagedAttentionParams>());
    }
    if (command.kernel != Kernel::kMatmul) return "";
    const auto& p = command.params_as<MatmulParams>();
    return choose_gemm_kernel(PackedFormat::from_word(p.weight_format).value(), p.n_rows).name;
  }

  // Allocates scratch for every thread before replays.
  void reserve_scratch(size_t bytes) {
    if (bytes <= scratch_bytes_) return;
    scratch_memory_.clear();
    for (ThreadScratch& scratch : scratch_) {
      scratch_memory_.emplace_back(bytes, "scratch of a thread");
      scratch.data = scratch_memory_.back().data();
    }
    scratch_bytes_ = bytes;
  }

  DeviceOptions options_;
  Clock clock_ = Clock::kOff;
  CpuFeatures features_;
  DeviceInfo info_;
  ThreadPool pool_;
  BufferArena arena_;                  // of buffers_
  std::vector<BufferMemory> buffers_;  // BufferId - 1
  std::vector<std::unique_ptr<Program>> programs_;
  std::map<const std::byte*, std::shared_ptr<AttentionParts>> attention_parts_;  // by output
  std::vector<ThreadScratch> scratch_;                                           // [n_threads]
  std::vector<BufferMemory> scratch_memory_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace vesper
