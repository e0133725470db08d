// expert_matmul: products of slots with the weights of their experts. A task is a slot, or a tile
// of one expert's slots, by a range of panels.
#include <algorithm>

#include "llm/cpu/matmul/gemm.h"
#include "llm/cpu/prepared_command.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/expert_matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/matmul/epilogue-inl.h"
#include "llm/cpu/matmul/input_rows-inl.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_EXPERT_MATMUL_PLAN_
#define VESPER_LLM_CPU_EXPERT_MATMUL_PLAN_
namespace vesper {

// The result of prepare_expert_matmul. The scratch of a thread is [sums][kernel scratch][rows].
struct ExpertMatmulPlan {
  PackedLayout layout;  // of one expert
  GemmKernel kernel;
  bool reads_in_place = false;  // a single row
  uint32_t panels_at_once = 0;
  size_t row_bytes = 0;  // of a converted row
  size_t panel_stride = 0;
  size_t kernel_offset = 0, rows_offset = 0;
};

// The slots of a task, all of one expert; none if there is nothing to do.
struct ExpertSlots {
  const uint32_t* slots = nullptr;
  uint32_t n = 0, expert = 0;
};
inline ExpertSlots slots_of_task(const PreparedCommand& command, uint32_t task,
                                 const uint32_t& slot) {
  const auto& params = command.params_as<ExpertMatmulParams>();
  if (const auto* groups = command.operand<const uint32_t>(7)) {
    const auto& tile = reinterpret_cast<const ExpertTile*>(groups + params.n_slots)[task];
    return {groups + tile.first, tile.n, tile.expert};
  }
  const auto* rows = command.operand<const Row>(6);
  if (rows != nullptr && rows[slot / params.n_used].sequence < 0) return {};
  return {&slot, 1, command.operand<const uint32_t>(5)[slot]};
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

void run_expert_matmul(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<ExpertMatmulParams>();
  const auto& plan = *static_cast<const ExpertMatmulPlan*>(command.plan.get());
  const PackedLayout& layout = plan.layout;
  const uint32_t block = task / command.tasks_per_row_block;
  const ExpertSlots at = slots_of_task(command, block, block);
  if (at.n == 0) return;
  const uint32_t first_panel = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t end_panel = std::min(first_panel + command.columns_per_task, layout.n_panels);
  const uint32_t in_slots = params.in_per_slot != 0 ? 1 : params.n_used;
  const size_t in_bytes = params.in_dtype == kDTypeF32 ? sizeof(float) : sizeof(uint16_t);

  // Slots of one row share its converted form.
  const uint32_t kept = command.operands[7] != nullptr ? block : at.slots[0] / in_slots;
  const bool is_kept = plan.reads_in_place || scratch.keep(kept);
  RowOffsets rows[kExpertTileRows];
  auto* const scales = reinterpret_cast<float*>(scratch.data + plan.rows_offset);
  std::byte* const converted = scratch.data + plan.rows_offset + sizeof(float) * kExpertTileRows;
  for (uint32_t r = 0; r < at.n; ++r) {
    if (!is_kept) {
      scales[r] = convert_row(plan.kernel.rows, layout, params.in_dtype, command.operands[1],
                              size_t{at.slots[r] / in_slots} * params.n_in, r, plan.row_bytes,
                              converted, reinterpret_cast<float*>(scratch.data));
    }
    rows[r] = {size_t{at.slots[r]} * params.n_out, 0, plan.reads_in_place ? 1.0f : scales[r]};
  }

  const size_t first_output = size_t{at.expert} * params.n_out;
  Epilogue epilogue;
  epilogue.out = command.operands[0];
  epilogue.bias = command.operand<const float>(3);
  if (epilogue.bias != nullptr) epilogue.bias += first_output;
  if (plan.kernel.has(GemmKernel::kIntegerSums)) {
    epilogue.output_scale = command.operand<const float>(4) + first_output;
  }
  epilogue.rows = rows;
  epilogue.n_out = params.n_out;
  MatmulParams finished{};
  finished.out_dtype = params.out_dtype;
  const FinishSums finish = choose_finish(finished, plan.kernel);
  const FinishContext context{&epilogue, finish};

  const std::byte* const weight =
      command.operand<const std::byte>(2) + size_t{at.expert} * layout.bytes();
  const std::byte* const in =
      plan.reads_in_place
          ? command.operands[1] + size_t{at.slots[0] / in_slots} * params.n_in * in_bytes
          : converted;
  Gemm gemm;
  gemm.layout = &layout;
  gemm.row_bytes = plan.row_bytes;
  gemm.end_of_task = weight + end_panel * layout.panel_bytes;
  gemm.scratch = scratch.data + plan.kernel_offset;
  gemm.sums.data = reinterpret_cast<float*>(scratch.data);
  gemm.sums.panel_stride = plan.panel_stride;
  gemm.context = &context;
  if (plan.kernel.has(GemmKernel::kFinishesSums)) {
    gemm.rows = in;
    gemm.n_rows = at.n;
    gemm.panels = weight + first_panel * layout.panel_bytes;
    gemm.n_panels = end_panel - first_panel;
    gemm.sums.first_panel = first_panel;
    gemm.finish = finish_in_context;
    return plan.kernel.multiply(gemm);
  }
  for (uint32_t panel = first_panel; panel < end_panel; panel += gemm.n_panels) {
    gemm.panels = weight + panel * layout.panel_bytes;
    gemm.n_panels = std::min(plan.panels_at_once, end_panel - panel);
    gemm.sums.first_panel = panel;
    gemm.sums.n_panels = gemm.n_panels;
    for (uint32_t row = 0; row < at.n; row += gemm.n_rows) {
      gemm.n_rows = std::min(at.n - row, plan.kernel.rows_at_once);
      gemm.rows = in + row * gemm.row_bytes;
      gemm.sums.first_row = row;
      gemm.sums.n_rows = gemm.n_rows;
      plan.kernel.multiply(gemm);
      finish(epilogue, gemm.sums, 0, gemm.n_rows);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_expert_matmul);

void prepare_expert_matmul(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<ExpertMatmulParams>();
  command.require(params.n_slots > 0 && params.n_used > 0 && params.n_experts > 0 &&
                      params.n_out > 0 && params.n_in > 0,
                  "a size is zero");
  command.require(params.n_slots % params.n_used == 0, "slots of a part of a row");
  command.require(params.n_out % kPanelOutputs == 0, "n_out is not a multiple of 16");
  command.require(params.in_dtype <= kDTypeBF16 && params.out_dtype <= kDTypeBF16,
                  "in and out must be f32, f16 or bf16");
  const std::optional<PackedFormat> format = PackedFormat::from_word(params.weight_format);
  command.require(format && !format->row_major, "no kernel for this weight_format");
  const bool grouped = command.command().operands[7].present();
  const uint64_t n_outputs = uint64_t{params.n_experts} * params.n_out;
  const uint64_t n_rows = params.n_slots / params.n_used;
  const auto bytes = [](uint32_t dtype) { return dtype == kDTypeF32 ? 4 : 2; };

  auto plan = std::make_shared<ExpertMatmulPlan>();
  PackedLayout& layout = plan->layout;
  layout = packed_layout(*format, params.n_out, params.n_in);
  command.require(!layout.is_quantized() || params.n_in % kBlockInputs == 0,
                  "rows of a quantized weight are whole blocks of 32");
  command.require_bytes(0, uint64_t{params.n_slots} * params.n_out * bytes(params.out_dtype));
  command.require_bytes(1, (params.in_per_slot != 0 ? params.n_slots : n_rows) * params.n_in *
                               bytes(params.in_dtype));
  command.require_bytes(2, params.n_experts * layout.bytes());
  command.require_bytes(3, n_outputs * 4, true);
  if (layout.has_row_scales()) command.require_bytes(4, n_outputs * 4);
  command.require_bytes(5, uint64_t{params.n_slots} * 4);
  command.require_bytes(6, n_rows * sizeof(Row), true);
  command.require_bytes(7, uint64_t{params.n_slots} * 4 + params.n_tiles * sizeof(ExpertTile),
                        true);

  // The kernel for the usual number of an expert's slots: the rows of a pass get the same one.
  const uint32_t usual = std::max(1u, params.n_slots / params.n_experts);
  plan->kernel = choose_gemm_kernel(*format, grouped ? usual : 1);
  const GemmKernel& kernel = plan->kernel;
  plan->reads_in_place = !grouped && kernel.rows == RowLayout::kF32 && params.in_dtype == kDTypeF32;
  plan->panels_at_once = grouped && usual > kFewRows ? 2 : kMaxGemmPanels;
  plan->row_bytes = converted_row_bytes(kernel.rows, layout);
  const uint32_t most_rows = grouped ? kExpertTileRows : 1;
  plan->panel_stride = round_up(size_t{most_rows}, kFewRows) * kPanelOutputs;
  const size_t sums = sizeof(float) * plan->panels_at_once * plan->panel_stride;
  plan->kernel_offset = round_up(std::max(sums, sizeof(float) * layout.padded_n_in), 64);
  const size_t kernel_bytes = kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(layout);
  plan->rows_offset = plan->kernel_offset + round_up(kernel_bytes, 64);
  prepared.scratch_bytes = plan->rows_offset + sizeof(float) * kExpertTileRows +
                           round_up(most_rows, kFewRows) * plan->row_bytes;

  // Enough tasks for every thread, and none with more than 64 panels.
  const uint32_t n_blocks = grouped ? params.n_tiles : params.n_slots;
  const uint32_t expected = grouped ? std::min(params.n_experts, params.n_tiles) : n_blocks;
  constexpr uint32_t kMostPanels = 16 * kMaxGemmPanels;
  const uint32_t ranges = std::max((4 * command.n_threads() + expected - 1) / expected,
                                   (layout.n_panels + kMostPanels - 1) / kMostPanels);
  prepared.columns_per_task =
      std::min(round_up((layout.n_panels + ranges - 1) / ranges, kMaxGemmPanels), layout.n_panels);
  prepared.tasks_per_row_block =
      (layout.n_panels + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.n_tasks = n_blocks * prepared.tasks_per_row_block;
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_expert_matmul);
}

}  // namespace vesper
#endif
