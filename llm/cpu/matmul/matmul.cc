// matmul on the panels of weight_layout.h: cuts the command into tasks, brings its rows into the
// form the panel kernel reads, and finishes the sums (scale, bias, GELU, residual, format).
#include <algorithm>

#include "llm/cpu/matmul/block_product.h"
#include "llm/cpu/matmul/encoder_matmul.h"
#include "llm/cpu/matmul/i16_rows.h"
#include "llm/cpu/matmul/panel_product.h"
#include "llm/cpu/prepared_command.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway demands.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_MATMUL_PLAN_
#define VESPER_LLM_CPU_MATMUL_PLAN_
namespace vesper {

// What prepare_matmul decided. The scratch of a thread is [sums][the kernel's][row scales][rows].
struct MatmulPlan {
  WeightLayout layout;
  PanelKernel kernel;
  bool rows_in_place = false;  // the kernel reads the operand itself
  size_t row_bytes = 0;        // that a converted row takes
  size_t panels_offset = 0, scales_offset = 0, rows_offset = 0;
};

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Where row r of an operand starts.
HWY_INLINE size_t row_start(const MatmulParams& params, uint32_t row, uint32_t row_stride,
                            uint32_t batch_stride) {
  if (row < params.rows_per_batch) return size_t{row} * row_stride;
  const uint32_t batch = row / params.rows_per_batch;
  return size_t{batch} * batch_stride + size_t{row - batch * params.rows_per_batch} * row_stride;
}

// A row as f32 [n], zeros up to `padded`.
HWY_NOINLINE void widen_row(uint32_t dtype, const void* in, size_t start, uint32_t n,
                            uint32_t padded, float* out) {
  read_numbers(dtype, in, start, n, out);
  std::fill(out + n, out + padded, 0.0f);
}

// A row of f32 as whole numbers in -127..127, still f32; answers what one of them is worth.
HWY_NOINLINE float quantize_row(float* row, uint32_t padded) {
  const F32 d;
  VF32 most = hn::Zero(d);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    most = hn::Max(most, hn::Abs(hn::LoadU(d, row + i)));
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  const VF32 inverse = hn::Set(d, largest > 0.0f ? 127.0f / largest : 0.0f);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    hn::StoreU(hn::Round(hn::Mul(hn::LoadU(d, row + i), inverse)), d, row + i);
  }
  return largest / 127.0f;
}

// A row of f32 as int8 by blocks of 32 (Int8BlockRow).
HWY_NOINLINE void quantize_blocks(const float* row, const WeightLayout& layout, std::byte* to) {
  const F32 d;
  const hn::Rebind<int32_t, F32> d32;
  const hn::Rebind<int8_t, F32> d8;
  const Int8BlockRow at(layout);
  const uint32_t group = expanded_group(layout.blocks);
  const auto zero = static_cast<int32_t>(layout.blocks.zero);
  for (uint32_t i = 0; i < layout.n_in; i += kBlockInputs) {
    VF32 most = hn::Zero(d);
    for (uint32_t j = i; j < i + kBlockInputs; j += kLanes) {
      most = hn::Max(most, hn::Abs(hn::LoadU(d, row + j)));
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
    const VF32 inverse = hn::Set(d, largest > 0.0f ? 127.0f / largest : 0.0f);
    const float scale = largest / 127.0f;
    std::memcpy(to + Int8BlockRow::kScale, &scale, sizeof scale);
    for (uint32_t g = 0; g < kBlockInputs; g += group) {
      auto sum = hn::Zero(d32);
      for (uint32_t j = g; j < g + group; j += kLanes) {
        const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, row + i + j), inverse));
        hn::StoreU(hn::DemoteTo(d8, whole), d8, reinterpret_cast<int8_t*>(to) + j);
        sum = hn::Add(sum, whole);
      }
      const int32_t total = hn::GetLane(hn::SumOfLanes(d32, sum)), start = -zero * total;
      const float of_numbers = static_cast<float>(total) * scale;
      const uint32_t place = g / group * 4;
      std::memcpy(to + Int8BlockRow::kStarts + place, &start, sizeof start);
      std::memcpy(to + Int8BlockRow::kSums + place, &of_numbers, sizeof of_numbers);
    }
    to += at.block_bytes;
  }
}

// A row of f32 [padded_n_in] as 16-bit whole numbers (I16Row).
HWY_NOINLINE void quantize_to_i16(const float* row, const WeightLayout& layout, std::byte* to) {
  const F32 d;
  const hn::Rebind<int16_t, F32> d16;
  const I16Row at(layout);
  for (uint32_t block = 0; block < at.n_blocks; ++block) {
    const uint32_t begin = block * kI16Inputs;
    const uint32_t end = std::min(begin + kI16Inputs, layout.padded_n_in);
    VF32 most = hn::Zero(d);
    for (uint32_t i = begin; i < end; i += kLanes) {
      most = hn::Max(most, hn::Abs(hn::LoadU(d, row + i)));
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
    const VF32 inverse = hn::Set(d, largest > 0.0f ? kI16RowLimit / largest : 0.0f);
    for (uint32_t i = begin; i < end; i += kLanes) {
      const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, row + i), inverse));
      hn::StoreU(hn::DemoteTo(d16, whole), d16, reinterpret_cast<int16_t*>(to) + i);
    }
    const float scale = largest / kI16RowLimit;
    std::memcpy(to + at.scales_offset + block * sizeof scale, &scale, sizeof scale);
  }
}

// The rows of a block that are to be computed.
struct BlockRows {
  uint32_t first;  // of the block
  uint32_t n = 0;
  // Which of the block's; null: its first n.
  const uint32_t* index = nullptr;
  uint32_t at(uint32_t r) const { return first + (index == nullptr ? r : index[r]); }
};

// Of `n` rows those that have a sequence, if it is known. `index` has room for n.
BlockRows rows_to_compute(const Row* rows, uint32_t first, uint32_t n, uint32_t* index) {
  BlockRows found{first, n};
  if (rows == nullptr) return found;
  found.n = 0;
  for (uint32_t r = 0; r < n; ++r) {
    if (rows[first + r].sequence >= 0) index[found.n++] = r;
  }
  if (found.n > 0 && index[found.n - 1] >= found.n) found.index = index;
  return found;
}

// Brings rows into scratch as the kernel wants them.
void convert_rows(const MatmulParams& params, const MatmulPlan& plan, const void* in,
                  const BlockRows& block, std::byte* scratch) {
  const uint32_t n_in = params.n_in, padded = plan.layout.padded_n_in;
  const F32 d;
  float* const scales = reinterpret_cast<float*>(scratch + plan.scales_offset);
  std::byte* const rows = scratch + plan.rows_offset;
  // Where the sums will be there is room for a row on its way.
  float* const passing = reinterpret_cast<float*>(scratch);
  const bool stays_f32 =
      plan.kernel.rows == RowFormat::kF32 || plan.kernel.rows == RowFormat::kI8Floats;
  for (uint32_t r = 0; r < block.n; ++r) {
    float* const row = stays_f32 ? reinterpret_cast<float*>(rows) + size_t{r} * padded : passing;
    widen_row(params.in_dtype, in,
              row_start(params, block.at(r), params.in_row_stride, params.in_batch_stride), n_in,
              padded, row);
    switch (plan.kernel.rows) {
      case RowFormat::kF32:
        break;
      case RowFormat::kI8Floats:
        scales[r] = quantize_row(row, padded);
        break;
      case RowFormat::kI8Unsigned: {
        scales[r] = quantize_row(row, padded);
        auto* bytes = reinterpret_cast<uint8_t*>(rows) + size_t{r} * padded;
        const hn::Rebind<uint8_t, F32> d8;
        const hn::Rebind<int32_t, F32> d32;
        for (uint32_t i = 0; i < padded; i += kLanes) {
          const auto whole = hn::NearestInt(hn::LoadU(d, row + i));
          hn::StoreU(hn::DemoteTo(d8, hn::Add(whole, hn::Set(d32, 128))), d8, bytes + i);
        }
        break;
      }
      case RowFormat::kI8Blocks:
        quantize_blocks(row, plan.layout, rows + size_t{r} * plan.row_bytes);
        break;
      case RowFormat::kI16Blocks:
        quantize_to_i16(row, plan.layout, rows + size_t{r} * plan.row_bytes);
        break;
      case RowFormat::kBF16Tiles: {
        constexpr uint32_t kWidth = 32, kTile = kTileRows * kWidth;
        BF16* tiles = reinterpret_cast<BF16*>(rows) + size_t{r / kTileRows} * kTileRows * padded +
                      r % kTileRows * kWidth;
        for (uint32_t i = 0; i < padded; i += kLanes) {
          store_f32(hn::LoadU(d, row + i), tiles + size_t{i / kWidth} * kTile + i % kWidth);
        }
        break;
      }
      case RowFormat::kBF16Split: {
        constexpr uint32_t kWidth = 32, kTile = kTileRows * kWidth;
        BF16* tiles = reinterpret_cast<BF16*>(rows) +
                      size_t{r / kTileRows} * kTileRows * padded * 2 + r % kTileRows * kWidth;
        for (uint32_t i = 0; i < padded; i += kLanes) {
          BF16* high = tiles + i / kWidth * 2 * kTile + i % kWidth;
          const VF32 value = hn::LoadU(d, row + i);
          store_f32(value, high);
          store_f32(hn::Sub(value, load_f32(high)), high + kTile);
        }
        break;
      }
    }
  }
}

// What is done to a row's sums of one panel: pointers to what belongs to its first output, or null.
struct Finish {
  uint32_t activation;
  float row_scale;
  const float* column_scale;
  const float* bias;
  const float* residual;
};

// Finishes 16 sums in place, of which `n_columns` are there (fewer at the right edge).
HWY_NOINLINE void finish_sums(const Finish& how, uint32_t n_columns, float* sums) {
  const F32 d;
  float edge[3][kPanelOutputs];
  const float* operands[3] = {how.column_scale, how.bias, how.residual};
  if (n_columns < kPanelOutputs) {
    for (uint32_t k = 0; k < 3; ++k) {
      if (operands[k] == nullptr) continue;
      std::copy_n(operands[k], n_columns, edge[k]);
      std::fill(edge[k] + n_columns, edge[k] + kPanelOutputs, 0.0f);
      operands[k] = edge[k];
    }
  }
  for (uint32_t i = 0; i < kPanelOutputs; i += kLanes) {
    VF32 value = hn::LoadU(d, sums + i);
    if (operands[0] != nullptr) {
      value = hn::Mul(value, hn::Mul(hn::LoadU(d, operands[0] + i), hn::Set(d, how.row_scale)));
    }
    if (operands[1] != nullptr) value = hn::Add(value, hn::LoadU(d, operands[1] + i));
    if (how.activation != kActivationNone) value = activate(how.activation, value);
    if (operands[2] != nullptr) value = hn::Add(value, hn::LoadU(d, operands[2] + i));
    hn::StoreU(value, d, sums + i);
  }
}

// The same where nothing but the residual is added and all outputs are there: what most products of
// a language model do, hundreds of rows at a time.
template <class Out>
HWY_INLINE void finish_plain_sums(const float* sums, const float* residual, Out* out) {
  for (uint32_t i = 0; i < kPanelOutputs; i += kLanes) {
    VF32 value = load_f32(sums + i);
    if (residual != nullptr) value = hn::Add(value, load_f32(residual + i));
    store_f32(value, out + i);
  }
}

// Finishes the sums of a product whose panels begin at `first_panel` of the weight.
template <class Out>
HWY_INLINE void finish_panels(const PreparedCommand& command, const PanelProduct& product,
                              const BlockRows& block, uint32_t first_panel, const float* row_scales,
                              Out* out) {
  const auto& params = command.params_as<MatmulParams>();
  const bool scaled = product.layout->has_row_scales();
  const float* const bias = command.operand<const float>(3);
  const float* const residual = command.operand<const float>(4);
  const float* const column_scales = scaled ? command.operand<const float>(5) : nullptr;
  const bool plain = !scaled && bias == nullptr && params.activation == kActivationNone;
  for (uint32_t r = 0; r < product.n_rows; ++r) {
    const uint32_t row = block.at(r);
    const size_t out_start = row_start(params, row, params.out_row_stride, params.out_batch_stride);
    const size_t residual_start = params.flags & kMatmulResidualByRow
                                      ? size_t{row % params.rows_per_batch} * params.n_out
                                      : out_start;
    for (uint32_t p = 0; p < product.n_panels; ++p) {
      const uint32_t column = (first_panel + p) * kPanelOutputs;
      const uint32_t n_columns = std::min(kPanelOutputs, params.n_out - column);
      float* sums = product.sums + (size_t{p} * product.n_rows + r) * kPanelOutputs;
      if (plain && n_columns == kPanelOutputs) {
        finish_plain_sums(sums, residual == nullptr ? nullptr : residual + residual_start + column,
                          out + out_start + column);
        continue;
      }
      const Finish how{params.activation, scaled ? row_scales[r] : 1.0f,
                       scaled ? column_scales + column : nullptr,
                       bias == nullptr ? nullptr : bias + column,
                       residual == nullptr ? nullptr : residual + residual_start + column};
      finish_sums(how, n_columns, sums);
      convert(sums, n_columns, out + out_start + column);
    }
  }
}

void run_matmul(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<MatmulParams>();
  const auto& plan = *static_cast<const MatmulPlan*>(command.plan.get());
  const uint32_t row_block = task / command.tasks_per_row_block;
  const uint32_t first_row = row_block * command.rows_per_task;
  uint32_t index[kMaxRowsPerProduct];
  const BlockRows block =
      rows_to_compute(command.operand<const Row>(6), first_row,
                      std::min(command.rows_per_task, params.n_rows - first_row), index);
  if (block.n == 0) return;
  const uint32_t first_panel = (task % command.tasks_per_row_block) * command.columns_per_task;
  const uint32_t end_panel = std::min(first_panel + command.columns_per_task, plan.layout.n_panels);

  PanelProduct product;
  product.layout = &plan.layout;
  product.n_rows = block.n;
  product.sums = reinterpret_cast<float*>(scratch.data);
  product.scratch = scratch.data + plan.panels_offset;
  product.end_of_task = command.operand<const std::byte>(2) + end_panel * plan.layout.panel_bytes;
  const float* row_scales = nullptr;
  if (plan.rows_in_place && block.index == nullptr) {
    product.rows = command.operand<const float>(1) + size_t{first_row} * params.in_row_stride;
    product.row_stride = params.in_row_stride;
  } else {
    if (!scratch.keep(row_block)) {
      convert_rows(params, plan, command.operands[1], block, scratch.data);
    }
    product.rows = scratch.data + plan.rows_offset;
    product.row_stride = plan.layout.padded_n_in;
    row_scales = reinterpret_cast<const float*>(scratch.data + plan.scales_offset);
  }
  // Where nothing is done to the sums, they are stored as the result.
  const bool adds_residual = command.operands[4] != nullptr;
  const bool in_order = block.index == nullptr;
  const bool direct =
      params.out_dtype == kDTypeF32 && params.flags == 0 && params.activation == kActivationNone &&
      params.rows_per_batch >= params.n_rows && command.operands[3] == nullptr &&
      ((plan.kernel.rows == RowFormat::kI8Blocks && in_order) ||
       (plan.kernel.rows == RowFormat::kBF16Tiles && !adds_residual && in_order) ||
       (plan.kernel.rows == RowFormat::kI16Blocks && !adds_residual) ||
       (plan.kernel.rows == RowFormat::kF32 && plan.layout.blocks.bits == 0 && !adds_residual));
  product.out_rows = block.index;
  // Few rows: several panels at once, to have enough sums in flight; many: one stays in the cache
  // while all rows pass.
  const uint32_t at_once = params.n_rows <= kTileRows ? kMaxPanelsPerProduct : 2;
  for (uint32_t panel = first_panel; panel < end_panel; panel += product.n_panels) {
    product.n_panels = std::min(at_once, end_panel - panel);
    product.panels = command.operand<const std::byte>(2) + panel * plan.layout.panel_bytes;
    if (direct && (panel + product.n_panels) * kPanelOutputs <= params.n_out) {
      product.out_stride = params.out_row_stride;
      const size_t at = first_row * product.out_stride + size_t{panel} * kPanelOutputs;
      product.out = command.operand<float>(0) + at;
      product.residual = adds_residual ? command.operand<float>(4) + at : nullptr;
      plan.kernel.multiply(product);
      continue;
    }
    product.out = nullptr;
    product.residual = nullptr;
    plan.kernel.multiply(product);
    with_type(params.out_dtype, command.operands[0],
              [&](auto* out) { finish_panels(command, product, block, panel, row_scales, out); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_matmul);

namespace {

// Elements from the first of the first row to the last of the last.
uint64_t extent(const MatmulParams& params, uint64_t row_stride, uint64_t batch_stride,
                uint64_t width) {
  const uint64_t n_batches = (params.n_rows - 1) / params.rows_per_batch;
  const uint64_t last = n_batches > 0 ? params.rows_per_batch - 1 : params.n_rows - 1;
  const uint64_t last_row = (params.n_rows - 1) % params.rows_per_batch;
  return std::max(n_batches * batch_stride + last_row * row_stride,
                  (n_batches > 0 ? (n_batches - 1) * batch_stride : 0) + last * row_stride) +
         width;
}

uint64_t dtype_size(uint32_t dtype) { return dtype == kDTypeF32 ? 4 : 2; }

// An encoder's matrix has its own tasks.
struct EncoderMatmulPlan {
  const PackedMatrix* matrix;
  MatmulTasks tasks;
};

void run_encoder_matmul(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& plan = *static_cast<const EncoderMatmulPlan*>(command.plan.get());
  const MatmulOperands operands{command.operands[0], command.operands[1],
                                command.operand<const float>(3), command.operand<const float>(4)};
  plan.matrix->run_task(command.params_as<MatmulParams>(), plan.tasks, operands, task,
                        scratch.data);
}

}  // namespace

void prepare_matmul(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<MatmulParams>();
  command.require(params.n_rows > 0 && params.n_out > 0 && params.n_in > 0, "a size is zero");
  command.require(params.rows_per_batch > 0, "rows_per_batch is zero");
  command.require(params.in_dtype <= kDTypeBF16 && params.out_dtype <= kDTypeBF16,
                  "in and out must be f32, f16 or bf16");
  const bool by_row = params.flags & kMatmulResidualByRow;
  const uint64_t out_extent =
      extent(params, params.out_row_stride, params.out_batch_stride, params.n_out);
  command.require_bytes(0, out_extent * dtype_size(params.out_dtype));
  command.require_bytes(1,
                        extent(params, params.in_row_stride, params.in_batch_stride, params.n_in) *
                            dtype_size(params.in_dtype));
  command.require_bytes(3, uint64_t{params.n_out} * 4, true);
  command.require_bytes(6, uint64_t{params.n_rows} * sizeof(Row), true);
  command.require_bytes(
      4,
      (by_row ? uint64_t{std::min(params.rows_per_batch, params.n_rows)} * params.n_out
              : out_extent) *
          4,
      true);

  if (command.encoder_matrix != nullptr) {
    const MatmulTasks tasks = command.encoder_matrix->prepare(params, command.n_threads());
    prepared.run = run_encoder_matmul;
    prepared.plan =
        std::make_shared<EncoderMatmulPlan>(EncoderMatmulPlan{command.encoder_matrix, tasks});
    prepared.n_tasks = tasks.n_tasks;
    prepared.scratch_bytes = tasks.scratch_bytes;
    return;
  }

  const auto format = static_cast<CpuWeightFormat>(params.weight_format);
  auto plan = std::make_shared<MatmulPlan>();
  command.require(is_in_panels(format), "no kernel for this weight_format");
  plan->layout = weight_layout(format, params.n_out, params.n_in);
  plan->kernel = choose_panel_kernel(format, plan->layout, params.n_rows);
  command.require_bytes(2, plan->layout.bytes());
  if (plan->layout.has_row_scales()) {
    command.require_bytes(5, uint64_t{params.n_out} * 4);
  } else {
    command.require(plan->layout.n_in % kBlockInputs == 0 || plan->layout.blocks.bits == 0,
                    "rows of a quantized weight are whole blocks of 32");
  }

  prepared.rows_per_task = std::min(params.n_rows, kMaxRowsPerProduct);
  const uint32_t n_row_blocks =
      (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
  // Eight tasks a thread, so that one that is put aside by the system holds up little; but none
  // below the panels that a product takes at once, nor so large that its memory is long in coming.
  const uint32_t wanted = plan->layout.n_panels / (8 * command.n_threads());
  prepared.columns_per_task = std::clamp(wanted / kMaxPanelsPerProduct * kMaxPanelsPerProduct,
                                         kMaxPanelsPerProduct, 16 * kMaxPanelsPerProduct);
  if (plan->layout.blocks.bits != 0 && params.n_rows <= kTileRows) {
    // Bound by memory, which is asked ahead for what the task has: few, long, equal tasks.
    uint32_t tasks = 4 * command.n_threads();
    while (tasks > 2 * command.n_threads() && plan->layout.n_panels % tasks != 0) {
      tasks -= command.n_threads();
    }
    if (plan->layout.n_panels % tasks != 0) tasks = 4 * command.n_threads();
    prepared.columns_per_task = (plan->layout.n_panels + tasks - 1) / tasks;
  }
  prepared.tasks_per_row_block =
      (plan->layout.n_panels + prepared.columns_per_task - 1) / prepared.columns_per_task;
  prepared.n_tasks = n_row_blocks * prepared.tasks_per_row_block;

  plan->rows_in_place = plan->kernel.rows == RowFormat::kF32 && params.in_dtype == kDTypeF32 &&
                        params.rows_per_batch >= params.n_rows;
  const size_t padded = plan->layout.padded_n_in, rows = prepared.rows_per_task;
  const size_t sums = sizeof(float) * kMaxPanelsPerProduct * kPanelOutputs * rows;
  plan->panels_offset = round_up(std::max(sums, sizeof(float) * padded), 64);
  plan->scales_offset = plan->panels_offset + round_up(plan->kernel.scratch_bytes, 64);
  plan->rows_offset = plan->scales_offset + round_up(sizeof(float) * rows, 64);
  switch (plan->kernel.rows) {
    case RowFormat::kI8Unsigned:
      plan->row_bytes = padded;
      break;
    case RowFormat::kI8Blocks:
      plan->row_bytes = Int8BlockRow(plan->layout).bytes;
      break;
    case RowFormat::kI16Blocks:
      plan->row_bytes = I16Row(plan->layout).bytes;
      break;
    case RowFormat::kBF16Tiles:
      plan->row_bytes = sizeof(uint16_t) * padded;
      break;
    default:
      plan->row_bytes = sizeof(float) * padded;
  }
  // Rows that lie in place are brought together where some are left out.
  const bool always_in_place = plan->rows_in_place && !command.command().operands[6].present();
  prepared.scratch_bytes =
      plan->rows_offset + (always_in_place ? 0 : round_up(rows, kTileRows) * plan->row_bytes);
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_matmul);
}

}  // namespace vesper
#endif
