// matmul: cuts the command into tasks, converts its rows for the GEMM micro-kernel, and applies the
// epilogue to the sums.
#include <algorithm>

#include "llm/cpu/matmul/gemm.h"
#include "llm/cpu/prepared_command.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/matmul/epilogue-inl.h"
#include "llm/cpu/matmul/input_rows-inl.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_MATMUL_PLAN_
#define VESPER_LLM_CPU_MATMUL_PLAN_
namespace vesper {

// The result of prepare_matmul. The scratch of a thread is [sums][kernel
// scratch][RowOffsets][rows].
struct MatmulPlan {
  PackedLayout layout;
  GemmKernel kernel;
  bool may_read_in_place = false;                 // rows at a constant distance
  bool may_store_result = false;                  // by the kernel, without the epilogue
  uint32_t rows_at_once = 0, panels_at_once = 0;  // per call of the kernel
  size_t row_bytes = 0;                           // of a converted row
  size_t panel_stride = 0;                        // of the sums
  size_t kernel_offset = 0, row_offsets_start = 0, rows_offset = 0;
};

// Offset of row r of an operand.
inline size_t row_start(const MatmulParams& params, uint32_t row, uint32_t row_stride,
                        uint32_t batch_stride) {
  if (row < params.rows_per_batch) return size_t{row} * row_stride;
  const uint32_t batch = row / params.rows_per_batch;
  return size_t{batch} * batch_stride + size_t{row - batch * params.rows_per_batch} * row_stride;
}
inline size_t in_start(const MatmulParams& params, uint32_t row) {
  return row_start(params, row, params.in_row_stride, params.in_batch_stride);
}
inline size_t dtype_size(uint32_t dtype) { return dtype == kDTypeF32 ? 4 : 2; }

// The computed rows of a block.
struct BlockRows {
  uint32_t first;  // of the block
  uint32_t n = 0;
  const uint32_t* index = nullptr;  // index in the block; null: its first n
  uint32_t at(uint32_t r) const { return first + (index == nullptr ? r : index[r]); }
};

// The used ones of `n` rows, if known. `index` has n elements.
inline BlockRows rows_to_compute(const Row* rows, uint32_t first, uint32_t n, uint32_t* index) {
  BlockRows found{first, n};
  if (rows == nullptr) return found;
  found.n = 0;
  for (uint32_t r = 0; r < n; ++r) {
    if (rows[first + r].sequence >= 0) index[found.n++] = r;
  }
  if (found.n > 0 && index[found.n - 1] >= found.n) found.index = index;
  return found;
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Prefetches what the epilogue writes and adds: usually in other cores' caches.
HWY_INLINE void prefetch_results(const MatmulParams& params, const Epilogue& epilogue,
                                 const GemmSums& sums) {
  constexpr size_t kLine = 64;
  const size_t size = dtype_size(params.out_dtype);
  const size_t output = size_t{sums.first_panel} * kPanelOutputs;
  const size_t n = std::min<size_t>(size_t{sums.n_panels} * kPanelOutputs, params.n_out - output);
  const float* residual = epilogue.residual != epilogue.out ? epilogue.residual : nullptr;
  for (uint32_t r = 0; r < sums.n_rows; ++r) {
    const RowOffsets& row = epilogue.rows[sums.first_row + r];
    const auto* to = static_cast<const uint8_t*>(epilogue.out) + (row.out + output) * size;
    for (size_t at = 0; at < n * size; at += kLine) __builtin_prefetch(to + at, 1);
    if (residual == nullptr) continue;
    const float* from = residual + row.residual + output;
    for (size_t i = 0; i < n; i += kLine / sizeof(float)) __builtin_prefetch(from + i);
  }
}

void run_matmul(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<MatmulParams>();
  const auto& plan = *static_cast<const MatmulPlan*>(command.plan.get());
  const uint32_t row_block = task / command.tasks_per_row_block;
  const uint32_t first_row = row_block * command.rows_per_task;
  uint32_t index[kMaxGemmRows];
  const BlockRows block =
      rows_to_compute(command.operand<const Row>(6), first_row,
                      std::min(command.rows_per_task, params.n_rows - first_row), index);
  if (block.n == 0) return;
  const uint32_t first_panel = task % command.tasks_per_row_block * command.columns_per_task;
  const uint32_t end_panel = std::min(first_panel + command.columns_per_task, plan.layout.n_panels);
  const auto* const weight = command.operand<const std::byte>(2);
  auto* const offsets = reinterpret_cast<RowOffsets*>(scratch.data + plan.row_offsets_start);
  const size_t first_in = in_start(params, first_row);
  const bool in_place = plan.may_read_in_place && block.index == nullptr &&
                        in_start(params, first_row + block.n - 1) - first_in ==
                            size_t{block.n - 1} * params.in_row_stride;
  if (!scratch.keep(row_block)) {
    for (uint32_t r = 0; r < block.n; ++r) {
      const uint32_t row = block.at(r);
      const size_t out = row_start(params, row, params.out_row_stride, params.out_batch_stride);
      const bool by_row = (params.flags & kMatmulResidualByRow) != 0;
      offsets[r] = {out, by_row ? size_t{row % params.rows_per_batch} * params.n_out : out, 1.0f};
      if (in_place) continue;
      offsets[r].scale =
          convert_row(plan.kernel.rows, plan.layout, params.in_dtype, command.operands[1],
                      in_start(params, row), r, plan.row_bytes, scratch.data + plan.rows_offset,
                      reinterpret_cast<float*>(scratch.data));
    }
  }
  const auto* const rows = in_place ? command.operands[1] + first_in * dtype_size(params.in_dtype)
                                    : scratch.data + plan.rows_offset;

  Epilogue epilogue;
  epilogue.out = command.operands[0];
  epilogue.residual = command.operand<const float>(4);
  epilogue.bias = command.operand<const float>(3);
  epilogue.output_scale =
      plan.kernel.has(GemmKernel::kIntegerSums) ? command.operand<const float>(5) : nullptr;
  epilogue.rows = offsets;
  epilogue.activation = params.activation;
  epilogue.n_out = params.n_out;
  const FinishSums finish = choose_finish(params, plan.kernel);

  Gemm gemm;
  gemm.layout = &plan.layout;
  gemm.row_bytes = in_place ? params.in_row_stride * dtype_size(params.in_dtype) : plan.row_bytes;
  gemm.end_of_task = weight + end_panel * plan.layout.panel_bytes;
  gemm.scratch = scratch.data + plan.kernel_offset;
  gemm.sums.data = reinterpret_cast<float*>(scratch.data);
  gemm.sums.panel_stride = plan.panel_stride;
  gemm.out_stride = params.out_row_stride;
  if (plan.kernel.has(GemmKernel::kFinishesSums)) {
    const FinishContext context{&epilogue, finish};
    gemm.rows = rows;
    gemm.n_rows = block.n;
    gemm.panels = weight + first_panel * plan.layout.panel_bytes;
    gemm.n_panels = end_panel - first_panel;
    gemm.sums.first_panel = first_panel;
    gemm.finish = finish_in_context;
    gemm.context = &context;
    return plan.kernel.multiply(gemm);
  }
  const bool stores_result = plan.may_store_result && (block.index == nullptr ||
                                                       plan.kernel.has(GemmKernel::kStoresAnyRows));
  for (uint32_t panel = first_panel; panel < end_panel; panel += gemm.n_panels) {
    gemm.panels = weight + panel * plan.layout.panel_bytes;
    gemm.n_panels = std::min(plan.panels_at_once, end_panel - panel);
    gemm.sums.first_panel = panel;
    gemm.sums.n_panels = gemm.n_panels;
    const bool stores = stores_result && (panel + gemm.n_panels) * kPanelOutputs <= params.n_out;
    for (uint32_t row = 0; row < block.n; row += gemm.n_rows) {
      // Two calls of nearly equal numbers of rows instead of few rows at the end: with few rows,
      // products wait for loads.
      const uint32_t left = block.n - row, most = plan.rows_at_once;
      gemm.n_rows = left > most && 2 * left < 3 * most ? (left + 3) / 4 * 2 : std::min(left, most);
      gemm.rows = rows + row * gemm.row_bytes;
      gemm.sums.first_row = row;
      gemm.sums.n_rows = gemm.n_rows;
      gemm.out = nullptr;
      gemm.residual = nullptr;
      if (plan.kernel.rows_at_once < kMaxGemmRows) prefetch_results(params, epilogue, gemm.sums);
      if (stores) {
        const size_t first_out = size_t{first_row} + (block.index == nullptr ? row : 0);
        const size_t at = first_out * gemm.out_stride + size_t{panel} * kPanelOutputs;
        gemm.out = command.operand<float>(0) + at;
        gemm.residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + at;
        gemm.out_rows = block.index == nullptr ? nullptr : block.index + row;
        plan.kernel.multiply(gemm);
        continue;
      }
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

HWY_EXPORT(run_matmul);

namespace {

// Elements from the start of the first row to the end of the last.
uint64_t extent(const MatmulParams& params, uint64_t row_stride, uint64_t batch_stride,
                uint64_t width) {
  const uint64_t n_batches = (params.n_rows - 1) / params.rows_per_batch;
  const uint64_t last = n_batches > 0 ? params.rows_per_batch - 1 : params.n_rows - 1;
  const uint64_t last_row = (params.n_rows - 1) % params.rows_per_batch;
  return std::max(n_batches * batch_stride + last_row * row_stride,
                  (n_batches > 0 ? (n_batches - 1) * batch_stride : 0) + last * row_stride) +
         width;
}

void require_operands(const MatmulParams& params, const CommandToPrepare& command) {
  command.require(params.n_rows > 0 && params.n_out > 0 && params.n_in > 0, "a size is zero");
  command.require(params.rows_per_batch > 0, "rows_per_batch is zero");
  command.require(params.in_dtype <= kDTypeBF16 && params.out_dtype <= kDTypeBF16,
                  "in and out must be f32, f16 or bf16");
  command.require(!command.command().operands[7].present() && (params.flags & kMatmulGated) == 0,
                  "a norm or gates, which only int8 rows have");
  const bool by_row = params.flags & kMatmulResidualByRow;
  const uint64_t out_extent =
      extent(params, params.out_row_stride, params.out_batch_stride, params.n_out);
  command.require_bytes(0, out_extent * dtype_size(params.out_dtype));
  command.require_bytes(1,
                        extent(params, params.in_row_stride, params.in_batch_stride, params.n_in) *
                            dtype_size(params.in_dtype));
  command.require_bytes(3, uint64_t{params.n_out} * 4, true);
  command.require_bytes(
      4,
      (by_row ? uint64_t{std::min(params.rows_per_batch, params.n_rows)} * params.n_out
              : out_extent) *
          4,
      true);
  command.require_bytes(6, uint64_t{params.n_rows} * sizeof(Row), true);
}

// Rows of a task that takes all outputs: the number with which threads finish earliest, where 64
// rows more or fewer than 128 count as 1/64 of the time. A multiple of `step` unless there are
// fewer rows; the last task has the rest.
uint32_t rows_of_task(uint32_t n_rows, uint32_t step, uint32_t n_threads) {
  constexpr uint32_t kWanted = 128, kHalf = kWanted / 2;
  const uint32_t share = round_up((n_rows + n_threads - 1) / n_threads, step);
  uint32_t best = 0;
  double least = 0;
  for (uint32_t rows = std::min(kHalf, share); rows <= std::min(2 * kWanted, share); rows += step) {
    const uint32_t n_full = (n_rows - 1) / rows, last = round_up(n_rows - n_full * rows, step);
    // The short last task matters only if it begins a round.
    const uint32_t end = n_full / n_threads * rows + (n_full % n_threads == 0 ? last : rows);
    const uint32_t away = rows < kWanted ? kWanted - rows : rows - kWanted;
    const double cost = end * (1 + static_cast<double>(away) / (kHalf * 64));
    if (best == 0 || cost < least) best = rows, least = cost;
  }
  return std::min(best, n_rows);
}

// Panels of a task. Eight tasks per thread, so that a thread that the system suspends delays
// little; but at least as many panels as a kernel takes at once, and not so many that a task is
// long.
uint32_t panels_of_task(const PackedLayout& layout, uint32_t n_rows, uint32_t n_threads) {
  if (layout.is_quantized() && n_rows <= kFewRows) {
    // Limited by memory, which is prefetched up to the end of a task: few, long, equal tasks.
    uint32_t tasks = 4 * n_threads;
    while (tasks > 2 * n_threads && layout.n_panels % tasks != 0) tasks -= n_threads;
    if (layout.n_panels % tasks != 0) tasks = 4 * n_threads;
    return (layout.n_panels + tasks - 1) / tasks;
  }
  const uint32_t wanted = layout.n_panels / (8 * n_threads);
  return std::clamp(wanted / kMaxGemmPanels * kMaxGemmPanels, kMaxGemmPanels, 16 * kMaxGemmPanels);
}

// Cuts a command into blocks of rows by ranges of panels. Many rows are cut by rows only, so that
// each is converted once. Few rows, and rows for a kernel that unpacks panels, are cut by panels.
void cut_tasks(PreparedCommand& prepared, const PackedLayout& layout, const GemmKernel& kernel,
               uint32_t n_rows, uint32_t n_threads) {
  const bool finishes = kernel.has(GemmKernel::kFinishesSums);
  const bool unpacks = kernel.rows_at_once == kMaxGemmRows && !finishes;
  const uint32_t step = finishes ? 2 * kFewRows : 4;
  const uint32_t least = finishes ? step : kernel.rows_at_once;
  if (!unpacks && n_rows >= least * n_threads) {
    prepared.rows_per_task = rows_of_task(n_rows, step, n_threads);
    prepared.columns_per_task = layout.n_panels;
  } else {
    prepared.rows_per_task = std::min(n_rows, kMaxGemmRows);
    prepared.columns_per_task = panels_of_task(layout, n_rows, n_threads);
  }
  prepared.tasks_per_row_block =
      (layout.n_panels + prepared.columns_per_task - 1) / prepared.columns_per_task;
  if (!unpacks && prepared.tasks_per_row_block > 1) {
    // One task per thread, if there are enough rows.
    const uint32_t n_blocks =
        (n_threads + prepared.tasks_per_row_block - 1) / prepared.tasks_per_row_block;
    const uint32_t rows = std::max(least, round_up((n_rows + n_blocks - 1) / n_blocks, step));
    prepared.rows_per_task = std::min(prepared.rows_per_task, rows);
  }
  prepared.n_tasks =
      (n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task * prepared.tasks_per_row_block;
}

// Whether the kernel reads the rows of the input directly. Not for many rows a multiple of 4 KiB
// apart, whose cache lines would evict each other from the first-level cache.
bool may_read_in_place(const MatmulParams& params, const GemmKernel& kernel) {
  constexpr uint32_t kCacheWays = 8;
  const size_t row_bytes = params.in_row_stride * dtype_size(params.in_dtype);
  const bool has_layout =
      (kernel.rows == RowLayout::kF32 && params.in_dtype == kDTypeF32) ||
      (kernel.rows == RowLayout::kBF16 && params.in_dtype == kDTypeBF16 && params.n_in % 2 == 0);
  return has_layout && (params.n_rows <= kCacheWays || row_bytes % 4096 != 0);
}

}  // namespace

void prepare_matmul(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<MatmulParams>();
  require_operands(params, command);
  const std::optional<PackedFormat> format = PackedFormat::from_word(params.weight_format);
  command.require(format && !format->row_major, "no kernel for this weight_format");
  auto plan = std::make_shared<MatmulPlan>();
  plan->layout = packed_layout(*format, params.n_out, params.n_in);
  plan->kernel = choose_gemm_kernel(*format, params.n_rows);
  const GemmKernel& kernel = plan->kernel;
  command.require_bytes(2, plan->layout.bytes());
  if (plan->layout.has_row_scales()) command.require_bytes(5, uint64_t{params.n_out} * 4);
  command.require(!plan->layout.is_quantized() || params.n_in % kBlockInputs == 0,
                  "rows of a quantized weight are whole blocks of 32");
  cut_tasks(prepared, plan->layout, kernel, params.n_rows, command.n_threads());

  const bool one_batch = params.rows_per_batch >= params.n_rows;
  const std::array<Operand, kMaxOperands>& operands = command.command().operands;
  plan->may_read_in_place = may_read_in_place(params, kernel);
  plan->may_store_result = kernel.has(GemmKernel::kStoresResult) && one_batch &&
                           params.out_dtype == kDTypeF32 && params.flags == 0 &&
                           params.activation == kActivationNone && !operands[3].present() &&
                           (!operands[4].present() || kernel.has(GemmKernel::kAddsResidual));
  // Few rows: several panels at once, for enough sums in flight. Many: two, which stay in the cache
  // while all rows pass.
  plan->panels_at_once = params.n_rows <= kFewRows ? kMaxGemmPanels : 2;
  plan->rows_at_once = std::min(kernel.rows_at_once, prepared.rows_per_task);
  plan->row_bytes = converted_row_bytes(kernel.rows, plan->layout);
  const size_t rows = prepared.rows_per_task;
  plan->panel_stride = round_up(size_t{plan->rows_at_once}, kFewRows) * kPanelOutputs;
  const size_t sums = sizeof(float) * plan->panels_at_once * plan->panel_stride;
  plan->kernel_offset = round_up(std::max(sums, sizeof(float) * plan->layout.padded_n_in), 64);
  const size_t kernel_bytes =
      kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(plan->layout);
  plan->row_offsets_start = plan->kernel_offset + round_up(kernel_bytes, 64);
  plan->rows_offset = plan->row_offsets_start + round_up(sizeof(RowOffsets) * rows, 64);
  // Rows are converted even so if some are skipped, or a block has two batches.
  const bool always_in_place = plan->may_read_in_place && one_batch && !operands[6].present();
  prepared.scratch_bytes =
      plan->rows_offset + (always_in_place ? 0 : round_up(rows, kFewRows) * plan->row_bytes);
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_matmul);
}

}  // namespace vesper
#endif
