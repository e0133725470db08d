#include "llm/cpu/matmul/encoder_matmul.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/encoder_matmul_amx.h"
#include "llm/cpu/matmul/encoder_matmul_vector.h"
#include "llm/cpu/matmul/weight_layout.h"
#include "llm/cpu/number_conversion.h"

namespace vesper {
namespace {

[[noreturn]] void contract_broken(const std::string& what) {
  throw Error(ErrorKind::kInternal, "encoder matmul: " + what);
}

uint64_t checked_bytes(uint32_t n_out, uint32_t n_in, Compute compute) {
  if (n_out == 0 || n_in == 0) contract_broken("a matrix without elements");
  if (compute != Compute::kF32 && compute != Compute::kBF16 && compute != Compute::kI8) {
    contract_broken("expected f32, bf16 or int8, found format " +
                    std::to_string(static_cast<int>(compute)));
  }
  return PackedMatrix::packed_bytes(n_out, n_in, compute);
}

// How many rows a task takes, a multiple of `step` unless there are fewer: so many that the threads
// end as early as they can, where 64 rows more or fewer than 128 count as a 64th of the time. The
// last task has what is left.
uint32_t rows_of_task(uint32_t n_rows, uint32_t step, uint32_t n_threads) {
  constexpr uint32_t kWanted = 128, kHalf = kWanted / 2;
  const uint32_t threads = std::max(1u, n_threads);
  const uint32_t share = round_up((n_rows + threads - 1) / threads, step);
  uint32_t best = 0;
  double least = 0;
  for (uint32_t rows = std::min(kHalf, share); rows <= std::min(2 * kWanted, share); rows += step) {
    const uint32_t n_full = (n_rows - 1) / rows, last = round_up(n_rows - n_full * rows, step);
    // Only where the last task begins a round does it matter that it is short.
    const uint32_t end = n_full / threads * rows + (n_full % threads == 0 ? last : rows);
    const uint32_t away = rows < kWanted ? kWanted - rows : rows - kWanted;
    const double cost = end * (1 + static_cast<double>(away) / (kHalf * 64));
    if (best == 0 || cost < least) best = rows, least = cost;
  }
  return std::min(best, n_rows);
}

}  // namespace

struct PackedMatrix::Storage {
  uint32_t n_out, n_in;
  Compute compute;
  BufferMemory memory;  // as tiles or panels, then scales [n_out] where compute is kI8
  float* column_scale = nullptr;
  // One of the two describes what is packed.
  std::optional<AmxWeight> amx;
  std::optional<VectorWeight> vector;

  Storage(uint32_t outputs, uint32_t inputs, Compute wanted, std::string label, BufferArena* arena)
      : n_out(outputs),
        n_in(inputs),
        compute(wanted),
        memory(checked_bytes(outputs, inputs, wanted), std::move(label), arena) {
    if (compute == Compute::kI8) {
      column_scale = reinterpret_cast<float*>(memory.data() + memory.bytes()) - n_out;
    }
    if (cpu_features().amx) {
      amx = {compute, n_out, n_in, reinterpret_cast<uint8_t*>(memory.data()), column_scale};
    } else {
      vector = {compute,
                vector_unit(compute),
                n_out,
                n_in,
                reinterpret_cast<uint32_t*>(memory.data()),
                column_scale};
    }
  }

  // `rows` are f32, bf16 bits or int8, as `compute` says.
  template <class Element>
  void pack(uint32_t first, uint32_t n_rows, const Element* rows) {
    if (amx) {
      return amx_pack_rows(rows, first, n_rows, n_in, reinterpret_cast<uint8_t*>(memory.data()));
    }
    vector_pack_rows(rows, first, n_rows, n_in, vector->unit,
                     reinterpret_cast<uint32_t*>(memory.data()));
  }
};

PackedMatrix::PackedMatrix(uint32_t n_out, uint32_t n_in, Compute compute, std::string label,
                           BufferArena* arena)
    : storage_(std::make_unique<Storage>(n_out, n_in, compute, std::move(label), arena)) {}

void PackedMatrix::set_rows(uint32_t first, uint32_t n_rows, const float* rows) {
  Storage& s = *storage_;
  const size_t n_in = s.n_in;
  if (s.compute == Compute::kF32) {
    s.pack(first, n_rows, rows);
  } else if (s.compute == Compute::kBF16) {
    std::vector<uint16_t> rounded(n_rows * n_in);
    std::transform(rows, rows + rounded.size(), rounded.begin(), f32_to_bf16);
    s.pack(first, n_rows, rounded.data());
  } else {
    std::vector<int8_t> quantized(n_rows * n_in);
    for (size_t o = 0; o < n_rows; ++o) {
      const float* row = rows + o * n_in;
      float largest = 0.0f;
      for (size_t i = 0; i < n_in; ++i) largest = std::max(largest, std::abs(row[i]));
      const float scale = largest / 127.0f;
      s.column_scale[first + o] = scale;
      const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
      for (size_t i = 0; i < n_in; ++i) {
        quantized[o * n_in + i] = static_cast<int8_t>(std::lrint(row[i] * inverse));
      }
    }
    s.pack(first, n_rows, quantized.data());
  }
}

void PackedMatrix::set_rows(uint32_t first, uint32_t n_rows, const int8_t* rows,
                            const float* scale) {
  Storage& s = *storage_;
  if (s.compute != Compute::kI8) contract_broken("int8 rows for a matrix that is not");
  for (size_t o = 0; o < n_rows; ++o) s.column_scale[first + o] = scale ? scale[o] : 1.0f;
  s.pack(first, n_rows, rows);
}

PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;

uint32_t PackedMatrix::n_out() const { return storage_->n_out; }
uint32_t PackedMatrix::n_in() const { return storage_->n_in; }
Compute PackedMatrix::compute() const { return storage_->compute; }
uint64_t PackedMatrix::packed_bytes(uint32_t n_out, uint32_t n_in, Compute compute) {
  const uint64_t bytes = cpu_features().amx
                             ? amx_weight_bytes(n_out, n_in, compute)
                             : vector_weight_bytes(n_out, n_in, vector_unit(compute));
  return bytes + (compute == Compute::kI8 ? n_out * sizeof(float) : 0);
}
uint64_t PackedMatrix::bytes() const { return storage_->memory.bytes(); }

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
  const uint32_t rows = rows_of_task(params.n_rows, s.amx ? 32 : kVectorRowStep, n_threads);
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
  if (cpu_features().amx) return "AMX tiles";
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
