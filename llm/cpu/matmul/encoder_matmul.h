// Matrix products with hundreds of rows: where an encoder spends its time on a CPU.
//
// In come a weight's rows as f32 (or int8 with their scales), once, at load: they are rounded to
// the chosen format and laid out as the product wants them. At record, prepare() says into how many
// independent tasks a command falls and how much scratch a thread needs; at run, the device's
// workers call run_task for each. Nothing is allocated after prepare, no thread is started, and a
// task's result depends on neither the number of threads nor the order of tasks.
//
// A CPU with AMX multiplies on tiles (encoder_matmul_amx.h), any other on vectors
// (encoder_matmul_vector.h); bias, GELU, residual and conversion follow while the sums are in the
// first-level cache (encoder_rows-inl.h). Called by CpuDevice only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "llm/cpu/buffer_memory.h"
#include "llm/table/device.h"
#include "shaders/kernel_params.h"

namespace vesper {

// Alignment of the scratch that a caller hands to run_task, in bytes.
inline constexpr size_t kEncoderScratchAlignment = 64;

// Where the operands of a matmul command lie. Null where MatmulParams says (?) and it is absent.
struct MatmulOperands {
  void* out = nullptr;              // params.out_dtype
  const void* in = nullptr;         // params.in_dtype
  const float* bias = nullptr;      // [n_out]
  const float* residual = nullptr;  // may be `out` if out is f32 and residual lies as out does
};

// How a command falls into tasks. Tasks are independent of each other.
struct MatmulTasks {
  uint32_t n_tasks = 0;
  uint32_t rows_per_task = 0;  // of params.n_rows, the last task may have fewer
  size_t scratch_bytes = 0;    // a thread needs, aligned to kEncoderScratchAlignment
};

class PackedMatrix {
 public:
  // Zeros; `compute` is kF32, kBF16 or kI8. `arena`, where there is one, lives longer. Throws
  // Error(kInternal) for another choice or an empty matrix, Error(kDevice) naming `label` if there
  // is no memory.
  PackedMatrix(uint32_t n_out, uint32_t n_in, Compute compute, std::string label = "a matrix",
               BufferArena* arena = nullptr);
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) = delete;

  // Outputs [first, first + n_rows) of the weight: rounded from f32 [n_rows, n_in], where compute
  // is kI8 to one symmetric scale a row.
  void set_rows(uint32_t first, uint32_t n_rows, const float* rows);
  // The same from int8 [n_rows, n_in] as the file has them, with their scales [n_rows]:
  // value = row * scale; without scales, value = row. Compute is kI8.
  // Either sets a row once; several threads may set different ones.
  void set_rows(uint32_t first, uint32_t n_rows, const int8_t* rows, const float* scale);

  uint32_t n_out() const;
  uint32_t n_in() const;
  Compute compute() const;
  uint64_t bytes() const;  // what the packed weight takes
  // The same for a matrix that is not made yet.
  static uint64_t packed_bytes(uint32_t n_out, uint32_t n_in, Compute compute);

  // At record: makes what the command needs and says how it falls into tasks for that many threads.
  // Results do not depend on n_threads. Throws Error(kInternal) if params do not fit the matrix.
  MatmulTasks prepare(const MatmulParams& params, uint32_t n_threads);

  // At run: computes rows [task * rows_per_task, ...) of the command as MatmulParams describes it.
  // `tasks` is what prepare answered for these params, `scratch` of the calling thread only.
  // In int8, each row of `in` is quantized with its own scale, max |in| / 127.
  void run_task(const MatmulParams& params, const MatmulTasks& tasks,
                const MatmulOperands& operands, uint32_t task, void* scratch) const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

// What multiplies in this format here, for people: "AMX tiles", "VNNI", "vectors".
const char* encoder_product_name(Compute compute);
// Whether products in this format are faster than in f32 on this CPU: what kAuto asks.
bool encoder_compute_is_fast(Compute compute);

}  // namespace vesper
