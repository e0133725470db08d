// Attention over the rows of a sequence, all of them or a part: an encoder's.
//
// A task is a block of query rows of one head of one sequence: it packs the head's keys and values
// into the thread's scratch, then goes over them in blocks with an online softmax in f32, so that
// no score leaves the cache. Of packed sequences it is a block of rows of the whole, and goes
// through the sequences that have rows in it. bf16 inputs are multiplied by AMX tiles where the CPU
// has them, else widened and multiplied in f32; f32 and f16 inputs are multiplied in f32. A row's
// result depends on neither the number of threads nor the order of tasks. Called by CpuDevice only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shaders/kernel_params.h"

namespace vesper {

// Where the operands of an attention command lie.
struct AttentionOperands {
  void* out = nullptr;      // params.out_dtype
  const void* q = nullptr;  // params.in_dtype, as are k and v
  const void* k = nullptr;
  const void* v = nullptr;
  const uint32_t* starts = nullptr;  // [params.n_sequences + 1], or null: sequences of one length
};

// How a command falls into tasks. Tasks are independent of each other.
struct AttentionTasks {
  uint32_t n_tasks = 0;
  uint32_t rows_per_task = 0;   // of params.rows_per_sequence, the last of a head may have fewer
  uint32_t tasks_per_head = 0;  // task = (sequence * n_heads + head) * tasks_per_head + block;
                                // packed sequences count as one
  size_t scratch_bytes = 0;     // a thread needs, aligned to 64 bytes
};

// At record. Results do not depend on n_threads. Throws Error(kInternal) for params that are out of
// the contract: head_dim must be a multiple of 8 in 32..256, n_heads a multiple of n_kv_heads,
// in_dtype and out_dtype F32, F16 or BF16.
AttentionTasks prepare_attention(const AttentionParams& params, bool packed, uint32_t n_threads);

// What multiplies, for people: "AMX tiles" or "vectors".
const char* attention_variant(const AttentionParams& params);

// At run: one task, allocating nothing. `scratch` is of the calling thread only.
void run_attention_task(const AttentionParams& params, const AttentionTasks& tasks,
                        const AttentionOperands& operands, uint32_t task, void* scratch);

}  // namespace vesper
