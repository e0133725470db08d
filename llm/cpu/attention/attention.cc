// attention: a task is a block of query rows of one head of one sequence. For packed sequences it
// is a block of all rows, and covers the sequences with rows in it.
#include <algorithm>

#include "llm/cpu/attention/blocked_attention.h"
#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

struct AttentionPlan {
  const AttentionVariant* variant;
  uint32_t n_blocks;  // of rows, per head; task = (sequence * n_heads + head) * n_blocks + block
};

// Rows [from, to) of the sequence of n_rows rows that begins at row `start`.
void attend(const PreparedCommand& command, uint32_t head, uint32_t start, uint32_t n_rows,
            uint32_t from, uint32_t to, std::byte* scratch) {
  const auto& p = command.params_as<AttentionParams>();
  const size_t head_at = size_t{head} * p.head_dim;
  const size_t kv_head_at = head / (p.n_heads / p.n_kv_heads) * size_t{p.head_dim};
  AttentionPass pass;
  const auto rows_of = [&](uint32_t operand, size_t stride) {
    return HeadRows{command.operands[operand], p.in_dtype, start * stride + kv_head_at, stride};
  };
  pass.kv.keys = rows_of(2, p.k_row_stride);
  pass.kv.values = rows_of(3, p.v_row_stride);
  pass.q_dtype = p.in_dtype;
  pass.q = command.operands[1];
  pass.out = command.operands[0];
  pass.out_dtype = p.out_dtype;
  pass.head_dim = p.head_dim;
  pass.scale = p.scale;
  if (const auto* bias = command.operand<const float>(5)) {
    pass.bias = bias + head * (2 * size_t{p.bias_reach} + 1) + p.bias_reach;
  }
  pass.sinks = command.operand<const float>(6);
  AttentionQuery queries[kMaxPassQueries];
  while (from < to) {
    uint32_t n = 0;
    for (; n < kMaxPassQueries && from < to; ++n, ++from) {
      AttentionQuery& query = queries[n];
      query.q = size_t{start + from} * p.q_row_stride + head_at;
      query.out = size_t{start + from} * p.out_row_stride + head_at;
      query.position = from;
      query.head = head;
      query.begin = p.window != 0 && from > p.window ? from - p.window : 0;
      query.end = p.window != 0 ? std::min(n_rows, from + p.window + 1) : n_rows;
      if (p.causal != 0) query.end = std::min(query.end, from + 1);
    }
    pass.queries = {queries, n};
    static_cast<const AttentionPlan*>(command.plan.get())->variant->attend(pass, scratch);
  }
}

void run_attention(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& p = command.params_as<AttentionParams>();
  const uint32_t n_blocks = static_cast<const AttentionPlan*>(command.plan.get())->n_blocks;
  const uint32_t head_of_all = task / n_blocks, head = head_of_all % p.n_heads;
  const uint32_t first = task % n_blocks * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, p.rows_per_sequence);
  const auto* const starts = command.operand<const uint32_t>(4);
  if (starts == nullptr) {
    const uint32_t start = head_of_all / p.n_heads * p.rows_per_sequence;
    return attend(command, head, start, p.rows_per_sequence, first, end, scratch.data);
  }
  // The last sequence that starts at or before the first row.
  auto s =
      static_cast<uint32_t>(std::upper_bound(starts, starts + p.n_sequences + 1, first) - starts);
  for (s = s == 0 ? 0 : s - 1; s < p.n_sequences && starts[s] < end; ++s) {
    const uint32_t start = starts[s], from = std::max(first, start);
    const uint32_t to = std::min(end, starts[s + 1]);
    if (from < to) {
      attend(command, head, start, starts[s + 1] - start, from - start, to - start, scratch.data);
    }
  }
}

}  // namespace

const char* attention_variant_name(const AttentionParams& params) {
  return choose_attention_variant(params.in_dtype == kDTypeBF16).name;
}

void prepare_attention(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& p = command.command().params_as<AttentionParams>();
  command.require(p.n_sequences > 0 && p.rows_per_sequence > 0 && p.n_heads > 0 &&
                      p.n_kv_heads > 0 && p.head_dim > 0,
                  "a size is zero");
  command.require(p.head_dim % 8 == 0, "head_dim must be a multiple of 8");
  command.require(p.n_heads % p.n_kv_heads == 0, "n_heads is no multiple of n_kv_heads");
  command.require(p.in_dtype <= kDTypeBF16 && p.out_dtype <= kDTypeBF16,
                  "operands must be f32, f16 or bf16");
  command.require(p.scale > 0.0f, "scale must be positive");
  const bool packed = command.command().operands[4].present();
  const uint64_t rows = uint64_t{packed ? 1 : p.n_sequences} * p.rows_per_sequence;
  const auto bytes = [&](uint32_t stride, uint32_t n_heads, uint32_t dtype) {
    return ((rows - 1) * stride + uint64_t{n_heads} * p.head_dim) * (dtype == kDTypeF32 ? 4 : 2);
  };
  command.require_bytes(0, bytes(p.out_row_stride, p.n_heads, p.out_dtype));
  command.require_bytes(1, bytes(p.q_row_stride, p.n_heads, p.in_dtype));
  command.require_bytes(2, bytes(p.k_row_stride, p.n_kv_heads, p.in_dtype));
  command.require_bytes(3, bytes(p.v_row_stride, p.n_kv_heads, p.in_dtype));
  command.require_bytes(4, (uint64_t{p.n_sequences} + 1) * sizeof(uint32_t), true);
  command.require_bytes(5, p.n_heads * (2 * uint64_t{p.bias_reach} + 1) * sizeof(float), true);
  command.require_bytes(6, p.n_heads * sizeof(float), true);
  // Keys and values are converted for each pass: tasks have many rows, but there are several per
  // thread, so that threads finish together. Complete groups of queries.
  constexpr uint32_t kLeastRows = 128, kTasksPerThread = 8, kGroupRows = 32;
  const uint64_t heads = uint64_t{packed ? 1 : p.n_sequences} * p.n_heads;
  const uint64_t wanted = uint64_t{command.n_threads()} * kTasksPerThread;
  const auto blocks = static_cast<uint32_t>(std::clamp<uint64_t>(
      (wanted + heads - 1) / heads, 1, std::max(1u, p.rows_per_sequence / kLeastRows)));
  prepared.rows_per_task =
      ((p.rows_per_sequence + blocks - 1) / blocks + kGroupRows - 1) / kGroupRows * kGroupRows;
  const uint32_t n_blocks =
      (p.rows_per_sequence + prepared.rows_per_task - 1) / prepared.rows_per_task;
  prepared.plan = std::make_shared<AttentionPlan>(
      AttentionPlan{&choose_attention_variant(p.in_dtype == kDTypeBF16), n_blocks});
  prepared.n_tasks = static_cast<uint32_t>(heads) * n_blocks;
  prepared.scratch_bytes = blocked_attention_scratch_bytes(p.head_dim);
  prepared.run = run_attention;
}

}  // namespace vesper
