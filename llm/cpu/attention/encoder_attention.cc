#include "llm/cpu/attention/encoder_attention.h"

#include <algorithm>
#include <string>

#include "error/error.h"
#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/attention/encoder_attention_amx.h"
#include "llm/cpu/attention/encoder_attention_vector.h"
#include "llm/cpu/cpu_features.h"

namespace vesper {
namespace {

[[noreturn]] void contract_broken(const std::string& what) {
  throw Error(ErrorKind::kInternal, "encoder attention: " + what);
}

// Query rows of a sequence go through in groups of so many.
constexpr size_t kGroupRows = 32;
static_assert(kGroupRows % kVectorAttentionQueries == 0);

size_t round_up_to_group(size_t n) { return (n + kGroupRows - 1) / kGroupRows * kGroupRows; }

bool on_tiles(const AttentionParams& p) {
  return p.in_dtype == kDTypeBF16 && p.alibi == 0 && cpu_features().amx;
}

}  // namespace

const char* attention_variant(const AttentionParams& p) {
  return on_tiles(p) ? "AMX tiles" : vector_attention_variant(p);
}

AttentionTasks prepare_attention(const AttentionParams& p, bool packed, uint32_t n_threads) {
  if (p.head_dim < 32 || p.head_dim > 256 || p.head_dim % 8 != 0) {
    contract_broken("expected a head_dim that is a multiple of 8 in 32..256, found " +
                    std::to_string(p.head_dim));
  }
  if (p.n_sequences == 0 || p.rows_per_sequence == 0) contract_broken("no rows");
  if (p.n_heads == 0 || p.n_kv_heads == 0 || p.n_heads % p.n_kv_heads != 0) {
    contract_broken("expected heads that are a multiple of key heads, found " +
                    std::to_string(p.n_heads) + " and " + std::to_string(p.n_kv_heads));
  }
  if (p.in_dtype > kDTypeBF16 || p.out_dtype > kDTypeBF16) {
    contract_broken("expected operands of f32, f16 or bf16");
  }
  if (!(p.scale > 0.0f)) {
    contract_broken("expected a positive scale, found " + std::to_string(p.scale));
  }
  // Packing a head's keys and values costs about as much as 32 query rows, so a task should have
  // many rows; and there should be several tasks a thread, so that the threads end together.
  constexpr uint32_t kLeastRows = 128, kTasksPerThread = 8;
  const uint64_t heads = uint64_t{packed ? 1 : p.n_sequences} * p.n_heads;
  const uint64_t wanted = uint64_t{std::max(1u, n_threads)} * kTasksPerThread;
  const uint32_t blocks = static_cast<uint32_t>(std::clamp<uint64_t>(
      (wanted + heads - 1) / heads, 1, std::max(1u, p.rows_per_sequence / kLeastRows)));
  AttentionTasks tasks;
  const uint32_t rows = (p.rows_per_sequence + blocks - 1) / blocks;
  tasks.rows_per_task = static_cast<uint32_t>(round_up_to_group(rows));
  tasks.tasks_per_head = (p.rows_per_sequence + tasks.rows_per_task - 1) / tasks.rows_per_task;
  tasks.n_tasks = static_cast<uint32_t>(heads) * tasks.tasks_per_head;
  tasks.scratch_bytes =
      on_tiles(p) ? amx_attention_scratch_bytes(p) : vector_attention_scratch_bytes(p);
  return tasks;
}

void run_attention_task(const AttentionParams& p, const AttentionTasks& tasks,
                        const AttentionOperands& operands, uint32_t task, void* scratch) {
  const uint32_t head_of_all = task / tasks.tasks_per_head;
  const uint32_t first = task % tasks.tasks_per_head * tasks.rows_per_task;
  const uint32_t rows = std::min(tasks.rows_per_task, p.rows_per_sequence - first);
  const uint32_t head = head_of_all % p.n_heads;
  const auto attend = [&](const AttentionSequence& sequence, size_t first_row, size_t n_rows) {
    if (on_tiles(p)) {
      amx_attention(p, operands, sequence, head, first_row, n_rows, scratch);
    } else {
      vector_attention(p, operands, sequence, head, first_row, n_rows, scratch);
    }
  };
  if (operands.starts == nullptr) {
    attend({size_t{head_of_all / p.n_heads} * p.rows_per_sequence, p.rows_per_sequence}, first,
           rows);
    return;
  }
  const uint32_t* starts = operands.starts;
  // The last sequence that starts at or before the first row; empty ones before it have none.
  size_t s =
      static_cast<size_t>(std::upper_bound(starts, starts + p.n_sequences + 1, first) - starts);
  for (s = s == 0 ? 0 : s - 1; s < p.n_sequences && starts[s] < first + rows; ++s) {
    // Rows go through in groups that are counted from the start of their sequence, so that a result
    // does not depend on where it lies; a group belongs to the task that its first row belongs to.
    const size_t start = starts[s], n = starts[s + 1] - start;
    const size_t from = first > start ? round_up_to_group(first - start) : 0;
    const size_t to = std::min(n, round_up_to_group(first + rows - start));
    if (from < to) attend({start, n}, from, to - from);
  }
}

}  // namespace vesper
