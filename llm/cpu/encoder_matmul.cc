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
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/encoder_matmul_amx.h"
#include "llm/cpu/encoder_matmul_vector.h"

namespace vesper {
namespace {

// To nearest, ties to even.
uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

[[noreturn]] void contract_broken(const std::string& what) {
  throw Error(ErrorKind::kInternal, "encoder matmul: " + what);
}

}  // namespace

struct PackedMatrix::Storage {
  uint32_t n_out, n_in;
  Compute compute;
  size_t bytes = 0;
  hwy::AlignedFreeUniquePtr<uint8_t[]> packed;
  std::vector<float> column_scale;  // kI8: [n_out]
  // One of the two describes `packed`.
  std::optional<AmxWeight> amx;
  std::optional<VectorWeight> vector;

  Storage(uint32_t outputs, uint32_t inputs, Compute wanted)
      : n_out(outputs), n_in(inputs), compute(wanted) {
    if (n_out == 0 || n_in == 0) contract_broken("a matrix without elements");
    if (wanted != Compute::kF32 && wanted != Compute::kBF16 && wanted != Compute::kI8) {
      contract_broken("expected f32, bf16 or int8, found format " +
                      std::to_string(static_cast<int>(wanted)));
    }
  }

  // `weight` is f32, bf16 bits or int8, as `compute` says.
  template <class Element>
  void pack(const Element* weight) {
    const float* scale = column_scale.empty() ? nullptr : column_scale.data();
    const bool on_tiles = compute != Compute::kF32 && cpu_features().amx;
    const VectorUnit unit = vector_unit(compute);
    bytes = packed_bytes(n_out, n_in, compute) - column_scale.size() * sizeof(float);
    packed = hwy::AllocateAligned<uint8_t>(bytes);
    if (!packed) {
      throw Error(ErrorKind::kDevice,
                  "no memory for a weight of " + std::to_string(bytes) + " bytes");
    }
    std::memset(packed.get(), 0, bytes);
    if constexpr (!std::is_same_v<Element, float>) {
      if (on_tiles) {
        amx_pack_weight(weight, n_out, n_in, packed.get());
        amx = {compute, n_out, n_in, packed.get(), scale};
        return;
      }
    }
    uint32_t* panels = reinterpret_cast<uint32_t*>(packed.get());
    vector_pack_weight(weight, n_out, n_in, unit, panels);
    vector = {compute, unit, n_out, n_in, panels, scale};
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
    storage_->pack(rounded.data());
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
uint64_t PackedMatrix::packed_bytes(uint32_t n_out, uint32_t n_in, Compute compute) {
  const bool on_tiles = compute != Compute::kF32 && cpu_features().amx;
  const uint64_t bytes = on_tiles ? amx_weight_bytes(n_out, n_in, compute)
                                  : vector_weight_bytes(n_out, n_in, vector_unit(compute));
  return bytes + (compute == Compute::kI8 ? n_out * sizeof(float) : 0);
}
uint64_t PackedMatrix::bytes() const {
  return storage_->bytes + storage_->column_scale.size() * sizeof(float);
}

MatmulTasks PackedMatrix::prepare(const MatmulParams& params, uint32_t n_threads) {
  const Storage& s = *storage_;
  if (params.n_out != s.n_out || params.n_in != s.n_in) {
    contract_broken("expected a product of " + std::to_string(s.n_out) + " outputs and " +
                    std::to_string(s.n_in) + " inputs, found " + std::to_string(params.n_out) +
                    " and " + std::to_string(params.n_in));
  }
  if (params.n_rows == 0 || params.rows_per_batch == 0) contract_broken("a product without rows");
  if (params.in_dtype > kDTypeBF16 || params.out_dtype > kDTypeBF16) {
    contract_broken("expected operands of f32, f16 or bf16");
  }
  // Blocks of about kWantedRows rows, in multiples of row_step, so many that the threads end
  // together: their number is a multiple of that of the threads where rows suffice.
  constexpr uint32_t kWantedRows = 128;
  const uint32_t row_step = s.amx ? 32 : kVectorRowStep;
  const uint32_t threads = std::max(1u, n_threads);
  const uint32_t rounds =
      std::max(1u, (params.n_rows + threads * kWantedRows / 2) / (threads * kWantedRows));
  const uint32_t blocks = rounds * threads;
  uint32_t rows = (params.n_rows + blocks - 1) / blocks;
  rows = (rows + row_step - 1) / row_step * row_step;
  rows = std::min(rows, params.n_rows);

  MatmulTasks tasks;
  tasks.rows_per_task = rows;
  tasks.n_tasks = (params.n_rows + rows - 1) / rows;
  tasks.scratch_bytes =
      s.amx ? amx_matmul_scratch_bytes(*s.amx, rows) : vector_matmul_scratch_bytes(*s.vector, rows);
  return tasks;
}

void PackedMatrix::run_task(const MatmulParams& params, const MatmulTasks& tasks,
                            const MatmulOperands& operands, uint32_t task, void* scratch) const {
  const Storage& s = *storage_;
  const uint32_t first = task * tasks.rows_per_task;
  const uint32_t rows = std::min(tasks.rows_per_task, params.n_rows - first);
  if (s.amx) {
    amx_matmul(*s.amx, params, operands, first, rows, scratch);
  } else {
    vector_matmul(*s.vector, params, operands, first, rows, scratch);
  }
}

const char* encoder_product_name(Compute compute) {
  if (compute != Compute::kF32 && cpu_features().amx) return "AMX tiles";
  switch (vector_unit(compute)) {
    case VectorUnit::kInt8Quad:
      return "VNNI";
    case VectorUnit::kBf16Pair:
      return "AVX512-BF16";
    case VectorUnit::kInt16Pair:
      return "vectors of int16";
    case VectorUnit::kF32:
      break;
  }
  return "vectors";
}

bool encoder_compute_is_fast(Compute compute) {
  return cpu_features().amx || compute == Compute::kF32 || vector_unit(compute) != VectorUnit::kF32;
}

}  // namespace vesper
