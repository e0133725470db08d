// paged_attention of many rows: prompts. A task is one kv head of a block of rows. Rows that are
// the only ones of their sequence are left to the kernel for few rows.
#include <algorithm>

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/attention/blocked_attention.h"
#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

struct PromptAttentionPlan {
  PreparedCommand single;  // the same command in blocks of one row
  const AttentionVariant* variant;
};

bool is_prompt(const PagedAttentionParams& params) {
  return params.n_rows >= kPromptRows && params.head_dim % 8 == 0;
}

const AttentionVariant& variant_of(const PagedAttentionParams& params) {
  return choose_attention_variant((params.flags & kAttentionRounds) != 0);
}

HeadRows rows_of_head(const PagedAttentionParams& params, const void* pages, uint32_t dtype,
                      uint32_t kv_head) {
  const uint32_t dims = params.head_dim, page_rows = params.page_rows;
  if (!kv_is_quantized(dtype)) {
    const size_t head = size_t{page_rows} * dims;
    return {pages, dtype, kv_head * head, dims, params.n_kv_heads * head};
  }
  const size_t head_bytes = kv_head_bytes(dtype, page_rows, dims);
  const size_t row_bytes = kv_row_bytes(dtype, dims);
  return {.data = pages,
          .dtype = dtype,
          .first = kv_head * head_bytes,
          .stride = row_bytes,
          .page_stride = params.n_kv_heads * head_bytes,
          .first_scale = kv_head * head_bytes + page_rows * row_bytes,
          .scale_stride = kv_scale_bytes(dtype, dims)};
}

void run_prompt_attention(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<PagedAttentionParams>();
  const auto& plan = *static_cast<const PromptAttentionPlan*>(command.plan.get());
  const Row* rows = command.operand<const Row>(4);
  const uint32_t kv_head = task % params.n_kv_heads, dims = params.head_dim;
  const uint32_t first = task / params.n_kv_heads * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  const uint32_t n_heads = params.n_heads / params.n_kv_heads;

  AttentionPass pass;
  pass.kv.keys = rows_of_head(params, command.operands[2], key_dtype(params.kv_dtypes), kv_head);
  pass.kv.values =
      rows_of_head(params, command.operands[3], value_dtype(params.kv_dtypes), kv_head);
  pass.kv.page_rows = params.page_rows;
  pass.q = command.operands[1];
  pass.out = command.operands[0];
  pass.q_dtype = params.q_dtype;
  pass.out_dtype = params.out_dtype;
  pass.head_dim = dims;
  pass.scale = params.scale;
  pass.soft_cap = params.soft_cap;
  pass.sinks = command.operand<const float>(6);

  // Queries of consecutive rows of one sequence, and the positions that some of them see.
  AttentionQuery queries[kMaxPassQueries];
  uint32_t n = 0, begin = 0, seen_end = 0;
  int sequence = -1;
  const auto flush = [&] {
    if (n == 0) return;
    pass.queries = {queries, n};
    plan.variant->attend(pass, scratch.data);
    n = 0;
  };
  for (uint32_t r = first; r < end; ++r) {
    if (rows[r].sequence < 0) continue;
    // Checked in all rows of the command, so that the cut into tasks does not matter.
    if (is_alone({rows, params.n_rows}, r)) {
      flush();
      plan.single.run(plan.single, r * params.n_kv_heads + kv_head, scratch);
      continue;
    }
    const VisiblePositions seen = visible_positions(params, rows[r]);
    // A pass processes all positions between the first and the last that its queries see.
    if (rows[r].sequence != sequence || seen.begin > seen_end || seen.end < begin) {
      flush();
      sequence = rows[r].sequence;
      pass.kv.pages = command.operand<const int32_t>(5) +
                      static_cast<size_t>(sequence) * params.pages_per_sequence;
    }
    for (uint32_t h = kv_head * n_heads; h < (kv_head + 1) * n_heads; ++h) {
      if (n == kMaxPassQueries) flush();
      begin = n == 0 ? seen.begin : std::min(begin, seen.begin);
      seen_end = n == 0 ? seen.end : std::max(seen_end, seen.end);
      queries[n++] = {size_t{r} * params.q_row_stride + size_t{h} * dims,
                      size_t{r} * params.out_row_stride + size_t{h} * dims,
                      seen.begin,
                      seen.end,
                      static_cast<uint32_t>(rows[r].position),
                      h};
    }
  }
  flush();
}

}  // namespace

const char* attention_variant_name(const PagedAttentionParams& params) {
  return is_prompt(params) ? variant_of(params).name : "";
}

void prepare_prompt_attention(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<PagedAttentionParams>();
  if (!is_prompt(params)) return;
  const uint32_t n_heads = params.n_heads / params.n_kv_heads;
  // Every task reads a block of keys: tasks have many rows, but there are enough for all threads.
  const uint32_t most = std::max(1u, kMaxPassQueries / n_heads);
  const uint64_t wanted = uint64_t{params.n_rows} * params.n_kv_heads / (8 * command.n_threads());
  const auto rows =
      static_cast<uint32_t>(std::clamp<uint64_t>(wanted, std::min(kPromptRows, most), most));
  auto plan = std::make_shared<PromptAttentionPlan>();
  plan->single = prepared;
  plan->single.rows_per_task = 1;
  plan->single.n_tasks = params.n_rows * params.n_kv_heads;
  plan->variant = &variant_of(params);
  prepared.rows_per_task = std::min(params.n_rows, rows);
  prepared.n_tasks =
      params.n_kv_heads * ((params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task);
  prepared.scratch_bytes =
      std::max(prepared.scratch_bytes, blocked_attention_scratch_bytes(params.head_dim));
  prepared.plan = plan;
  prepared.run = run_prompt_attention;
}

}  // namespace vesper
