#include "llm/cpu/encoder_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "error/error.h"
#include "hwy/aligned_allocator.h"
#include "llm/cpu/amx.h"
#include "llm/cpu/encoder_matmul_amx.h"
#include "llm/cpu/matmul_rows.h"
#include "llm/cpu/onednn_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/encoder_matmul.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/encoder_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

template <class In>
float gather_row_from(const In* in, size_t n, Compute compute, void* out) {
  switch (compute) {
    case Compute::kI8: {
      const float scale = row_scale_i8(in, n);
      quantize_row(in, n, scale, static_cast<int8_t*>(out));
      return scale;
    }
    case Compute::kBF16:
      convert_row(in, n, static_cast<Bf16Bits*>(out));
      return 1.0f;
    default:
      convert_row(in, n, static_cast<float*>(out));
      return 1.0f;
  }
}

// Converts row `row` of a command's input to the format of the product. Returns its scale.
float gather_row(const MatmulParams& params, const void* in, uint32_t row, Compute compute,
                 void* out) {
  const size_t offset = matmul_in_offset(params, row);
  switch (params.in_dtype) {
    case kDTypeF32:
      return gather_row_from(static_cast<const float*>(in) + offset, params.n_in, compute, out);
    case kDTypeF16:
      return gather_row_from(static_cast<const hwy::float16_t*>(in) + offset, params.n_in, compute,
                             out);
    default:
      return gather_row_from(static_cast<const Bf16Bits*>(in) + offset, params.n_in, compute, out);
  }
}

template <class Sum, class Out>
void finish_to(const MatmulParams& params, const MatmulOperands& operands, uint32_t row,
               const Sum* sums, float row_scale, const float* column_scale) {
  finish_row(sums, params.n_out, row_scale, column_scale, operands.bias,
             (params.flags & kMatmulGelu) != 0,
             operands.residual ? operands.residual + matmul_residual_offset(params, row) : nullptr,
             static_cast<Out*>(operands.out) + matmul_out_offset(params, row));
}

template <class Sum>
void finish(const MatmulParams& params, const MatmulOperands& operands, uint32_t row,
            const Sum* sums, float row_scale, const float* column_scale) {
  switch (params.out_dtype) {
    case kDTypeF32:
      return finish_to<Sum, float>(params, operands, row, sums, row_scale, column_scale);
    case kDTypeF16:
      return finish_to<Sum, hwy::float16_t>(params, operands, row, sums, row_scale, column_scale);
    default:
      return finish_to<Sum, Bf16Bits>(params, operands, row, sums, row_scale, column_scale);
  }
}

// Finishes one row of sums, [n_out] of f32 or, with column scales, of int32.
void finish_sums(const MatmulParams& params, const MatmulOperands& operands, uint32_t row,
                 const void* sums, float row_scale, const float* column_scale) {
  if (column_scale) {
    finish(params, operands, row, static_cast<const int32_t*>(sums), row_scale, column_scale);
  } else {
    finish(params, operands, row, static_cast<const float*>(sums), row_scale, column_scale);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(gather_row);
HWY_EXPORT(finish_sums);

namespace {

// Scratch is laid out in parts that start at multiples of this, in bytes; each part may be read
// past its end by less than a vector.
constexpr size_t kVectorBytes = 64;
size_t padded(size_t bytes) { return (bytes + 2 * kVectorBytes - 1) / kVectorBytes * kVectorBytes; }

size_t element_bytes(Compute compute) {
  return compute == Compute::kI8 ? 1 : compute == Compute::kBF16 ? 2 : 4;
}

// To nearest, ties to even.
uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

bool dnnl_has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

[[noreturn]] void contract_broken(const std::string& what) {
  throw Error(ErrorKind::kInternal, "encoder matmul: " + what);
}

}  // namespace

struct PackedMatrix::Storage {
  uint32_t n_out, n_in;
  Compute compute;                             // as asked
  Compute arithmetic;                          // kF32 for bf16 on a CPU without bf16 products
  hwy::AlignedFreeUniquePtr<uint8_t[]> tiles;  // AMX
  AmxWeight amx;
  std::optional<OnednnProduct> onednn;
  std::vector<float> column_scale;  // kI8: [n_out]

  Storage(uint32_t outputs, uint32_t inputs, Compute wanted)
      : n_out(outputs), n_in(inputs), compute(wanted), arithmetic(wanted) {
    if (n_out == 0 || n_in == 0) contract_broken("a matrix without elements");
    if (wanted != Compute::kF32 && wanted != Compute::kBF16 && wanted != Compute::kI8) {
      contract_broken("expected f32, bf16 or int8, found format " +
                      std::to_string(static_cast<int>(wanted)));
    }
    if (wanted == Compute::kBF16 && !amx_usable() && !encoder_compute_is_fast(Compute::kBF16)) {
      arithmetic = Compute::kF32;
    }
  }

  template <class Element>
  void pack(const Element* weight) {
    if (arithmetic == Compute::kF32 || !amx_usable()) {
      onednn.emplace(weight, n_out, n_in, arithmetic);
      return;
    }
    if constexpr (!std::is_same_v<Element, float>) {
      const size_t bytes = amx_weight_bytes(n_out, n_in, arithmetic);
      tiles = hwy::AllocateAligned<uint8_t>(bytes);
      if (!tiles)
        throw Error(ErrorKind::kDevice,
                    "no memory for a weight of " + std::to_string(bytes) + " bytes");
      std::memset(tiles.get(), 0, bytes);
      amx_pack_weight(weight, n_out, n_in, tiles.get());
      amx = {arithmetic, n_out, n_in, tiles.get(), column_scale.data()};
    }
  }
};

PackedMatrix::PackedMatrix(const float* weight, uint32_t n_out, uint32_t n_in, Compute compute)
    : storage_(std::make_unique<Storage>(n_out, n_in, compute)) {
  const size_t n = size_t{n_out} * n_in;
  if (compute == Compute::kF32) {
    storage_->pack(weight);
  } else if (compute == Compute::kBF16) {
    std::vector<uint16_t> rounded(n);
    std::transform(weight, weight + n, rounded.begin(), to_bf16);
    if (storage_->arithmetic == Compute::kBF16) {
      storage_->pack(rounded.data());
    } else {
      std::vector<float> widened(n);
      for (size_t i = 0; i < n; ++i) {
        const uint32_t bits = uint32_t{rounded[i]} << 16;
        std::memcpy(&widened[i], &bits, sizeof(bits));
      }
      storage_->pack(widened.data());
    }
  } else {
    std::vector<int8_t> quantized(n);
    storage_->column_scale.resize(n_out);
    for (size_t o = 0; o < n_out; ++o) {
      const float* row = weight + o * n_in;
      float largest = 0.0f;
      for (size_t i = 0; i < n_in; ++i) largest = std::max(largest, std::abs(row[i]));
      const float scale = largest / 127.0f;
      storage_->column_scale[o] = scale;
      const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
      for (size_t i = 0; i < n_in; ++i) {
        quantized[o * n_in + i] = static_cast<int8_t>(std::lrint(row[i] * inverse));
      }
    }
    storage_->pack(quantized.data());
  }
}

PackedMatrix::PackedMatrix(const int8_t* weight, const float* scale, uint32_t n_out, uint32_t n_in)
    : storage_(std::make_unique<Storage>(n_out, n_in, Compute::kI8)) {
  storage_->column_scale.assign(scale, scale + n_out);
  storage_->pack(weight);
}

PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;

uint32_t PackedMatrix::n_out() const { return storage_->n_out; }
uint32_t PackedMatrix::n_in() const { return storage_->n_in; }
Compute PackedMatrix::compute() const { return storage_->compute; }
uint64_t PackedMatrix::bytes() const {
  return storage_->column_scale.size() * sizeof(float) +
         (storage_->onednn ? storage_->onednn->bytes()
                           : amx_weight_bytes(storage_->n_out, storage_->n_in, storage_->compute));
}

MatmulTasks PackedMatrix::prepare(const MatmulParams& params, uint32_t n_threads) {
  Storage& s = *storage_;
  if (params.n_out != s.n_out || params.n_in != s.n_in) {
    contract_broken("expected a product of " + std::to_string(s.n_out) + " outputs and " +
                    std::to_string(s.n_in) + " inputs, found " + std::to_string(params.n_out) +
                    " and " + std::to_string(params.n_in));
  }
  if (params.n_rows == 0 || params.rows_per_batch == 0) contract_broken("a product without rows");
  if (params.in_dtype > kDTypeBF16 || params.out_dtype > kDTypeBF16) {
    contract_broken("expected operands of f32, f16 or bf16");
  }
  // Blocks of about kWantedRows rows, in multiples of kRowStep, so many that the threads end
  // together: their number is a multiple of that of the threads where rows suffice.
  constexpr uint32_t kWantedRows = 128, kRowStep = 32;
  const uint32_t threads = std::max(1u, n_threads);
  const uint32_t rounds =
      std::max(1u, (params.n_rows + threads * kWantedRows / 2) / (threads * kWantedRows));
  const uint32_t blocks = rounds * threads;
  uint32_t rows = (params.n_rows + blocks - 1) / blocks;
  rows = (rows + kRowStep - 1) / kRowStep * kRowStep;
  rows = std::min(rows, params.n_rows);

  MatmulTasks tasks;
  tasks.rows_per_task = rows;
  tasks.n_tasks = (params.n_rows + rows - 1) / rows;
  if (!s.onednn) {
    tasks.scratch_bytes = amx_matmul_scratch_bytes(s.amx, rows);
    return tasks;
  }
  const uint32_t last = params.n_rows - (tasks.n_tasks - 1) * rows;
  s.onednn->prepare(rows);
  s.onednn->prepare(last);
  tasks.scratch_bytes =
      padded(rows * size_t{s.n_in} * element_bytes(s.arithmetic)) +
      padded(rows * size_t{s.n_out} * sizeof(float)) + padded(rows * sizeof(float)) +
      std::max(s.onednn->scratchpad_bytes(rows), s.onednn->scratchpad_bytes(last));
  return tasks;
}

void PackedMatrix::run_task(const MatmulParams& params, const MatmulTasks& tasks,
                            const MatmulOperands& operands, uint32_t task, void* scratch) const {
  const Storage& s = *storage_;
  const uint32_t first = task * tasks.rows_per_task;
  const uint32_t rows = std::min(tasks.rows_per_task, params.n_rows - first);
  if (!s.onednn) {
    amx_matmul(s.amx, params, operands, first, rows, scratch);
    return;
  }
  uint8_t* in = static_cast<uint8_t*>(scratch);
  const size_t in_row_bytes = size_t{s.n_in} * element_bytes(s.arithmetic);
  uint8_t* sums = in + padded(tasks.rows_per_task * in_row_bytes);
  const size_t sums_row_bytes = size_t{s.n_out} * sizeof(float);
  float* row_scale = reinterpret_cast<float*>(sums + padded(tasks.rows_per_task * sums_row_bytes));
  uint8_t* scratchpad =
      reinterpret_cast<uint8_t*>(row_scale) + padded(tasks.rows_per_task * sizeof(float));

  for (uint32_t r = 0; r < rows; ++r) {
    uint8_t* to = in + r * in_row_bytes;
    if (s.arithmetic != s.compute) {  // bf16 values in f32 arithmetic: round, then widen in place
      HWY_DYNAMIC_DISPATCH(gather_row)(params, operands.in, first + r, Compute::kBF16, to);
      float* wide = reinterpret_cast<float*>(to);
      for (size_t i = s.n_in; i-- > 0;) {
        uint16_t half;
        std::memcpy(&half, to + i * sizeof(half), sizeof(half));
        const uint32_t bits = uint32_t{half} << 16;
        std::memcpy(wide + i, &bits, sizeof(bits));
      }
    } else {
      row_scale[r] =
          HWY_DYNAMIC_DISPATCH(gather_row)(params, operands.in, first + r, s.arithmetic, to);
    }
  }
  s.onednn->multiply(rows, in, sums, scratchpad);
  const float* column_scale = s.compute == Compute::kI8 ? s.column_scale.data() : nullptr;
  for (uint32_t r = 0; r < rows; ++r) {
    HWY_DYNAMIC_DISPATCH(finish_sums)
    (params, operands, first + r, sums + r * sums_row_bytes, row_scale[r], column_scale);
  }
}

bool encoder_compute_is_fast(Compute compute) {
  switch (compute) {
    case Compute::kBF16:
      return amx_usable() || dnnl_has(dnnl::cpu_isa::avx512_core_bf16);
    case Compute::kI8:
      return amx_usable() || dnnl_has(dnnl::cpu_isa::avx512_core_vnni);
    default:
      return compute == Compute::kF32;
  }
}

}  // namespace vesper
#endif
