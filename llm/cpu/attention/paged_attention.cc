// paged_attention: a task is one kv head of a block of rows. Consecutive rows with the same pages
// (of one sequence, or of beams on one window), and the query heads of the kv head, are processed
// together, a few at a time. Each has its own sums in the order of positions, so a row's result
// does not depend on other rows. With blocks of one row, a task also takes the following rows with
// the same pages, which then have no task of their own. The scores of a few queries fit the
// first-level caches, so softmax is computed over all of them at once.
//
// If a few rows may see thousands of positions, these are cut into chunks, which tasks share. The
// last task adds the results of the chunks in their order, so the number of tasks does not change
// the result.
//
// attention_weights: the scores and softmax of some heads.
#include <algorithm>
#include <cstring>
#include <span>

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/matmul/packed_weight.h"
#include "llm/cpu/prepared_command.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/attention/paged_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/attention/paged_scores-inl.h"

#ifndef VESPER_LLM_CPU_PAGED_ATTENTION_PLAN_
#define VESPER_LLM_CPU_PAGED_ATTENTION_PLAN_
namespace vesper {

// Shorter contexts are not cut.
inline constexpr uint32_t kLeastCutLength = 1024, kLeastChunk = 256, kMostChunks = 64;

// The scratch of a thread: [queries][partial sums][scores].
struct PagedAttentionPlan {
  uint32_t chunk = 0, n_chunks = 1;  // positions per chunk; number of chunks
  uint32_t n_shares = 1;             // tasks per block of rows and kv head
  // Per chunk: largest score, sum of weights, mean of values, f32 [n_rows, n_heads, n_chunks, 2 +
  // head_dim].
  std::shared_ptr<AttentionParts> parts;
  uint32_t max_length = 0;  // the most positions of a row, rounded up to complete vectors
  size_t partial_offset = 0, scores_offset = 0;
  size_t scratch_bytes = 0;
};

inline PagedAttentionPlan plan_paged_attention(uint64_t longest, uint32_t head_dim) {
  constexpr uint32_t kMostLanes = 16;
  PagedAttentionPlan plan;
  plan.max_length = static_cast<uint32_t>((longest + kMostLanes - 1) / kMostLanes * kMostLanes);
  plan.chunk = plan.max_length;
  const size_t query_bytes = sizeof(float) * kQueriesAtOnce * head_dim;
  plan.partial_offset = (query_bytes + 63) / 64 * 64;
  plan.scores_offset =
      plan.partial_offset + sizeof(float) * kQueriesAtOnce * kMostLanes * kMostLanes;
  plan.scratch_bytes =
      plan.scores_offset + sizeof(float) * kQueriesAtOnce * size_t{plan.max_length};
  return plan;
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// The pages of a sequence, or those of the queries if they are the same: beams use one window and
// share its reads.
inline const int32_t* shared_pages(const Queries& queries, const int32_t* pages, uint32_t n_pages) {
  const bool are_same =
      queries.pages != nullptr && std::equal(pages, pages + n_pages, queries.pages);
  return are_same ? queries.pages : pages;
}

// Whether rows r - 1 and r, each the only row of its sequence, have the same pages.
inline bool go_together(std::span<const Row> rows, uint32_t r, const int32_t* page_table,
                        uint32_t n_pages) {
  if (rows[r].sequence < 0 || rows[r - 1].sequence < 0 || !is_alone(rows, r) ||
      !is_alone(rows, r - 1)) {
    return false;
  }
  const auto pages = [&](uint32_t row) {
    return page_table + static_cast<size_t>(rows[row].sequence) * n_pages;
  };
  return std::equal(pages(r), pages(r) + n_pages, pages(r - 1));
}

// mixed [kQueries, head_dim] = the weighted sum of the values.
template <uint32_t kQueries, class KV>
HWY_NOINLINE void mix_values(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                             const KvRows<KV>& values, const RowPrefetch& next_keys,
                             const float* weights, uint32_t max_length, const float* inverse_sums,
                             float* mixed) {
  const F32 d;
  constexpr uint32_t kAtOnce = 4;
  const uint32_t head_dim = shape.head_dim;
  uint32_t i = 0;
  for (; i + kAtOnce * kLanes <= head_dim; i += kAtOnce * kLanes) {
    VF32 sum[kQueries][kAtOnce];
    HWY_UNROLL(8)
    for (uint32_t j = 0; j < kQueries; ++j) {
      HWY_UNROLL(4)
      for (uint32_t v = 0; v < kAtOnce; ++v) sum[j][v] = hn::Zero(d);
    }
    for_positions(shape, queries, kv_head, queries.earliest, queries.longest, queries.to_next_chunk,
                  [&](uint32_t position, const PageRow& at, const PageRow& ahead) HWY_ATTR {
                    const auto value = values.row(at.head, at.index) + i;
                    if (i == 0) next_keys(ahead);
                    VF32 v[kAtOnce];
                    HWY_UNROLL(4)
                    for (uint32_t k = 0; k < kAtOnce; ++k) v[k] = load_f32(value + k * kLanes);
                    HWY_UNROLL(8)
                    for (uint32_t j = 0; j < kQueries; ++j) {
                      const VF32 weight = hn::Set(d, weights[j * max_length + position]);
                      HWY_UNROLL(4)
                      for (uint32_t k = 0; k < kAtOnce; ++k) {
                        sum[j][k] = hn::MulAdd(weight, v[k], sum[j][k]);
                      }
                    }
                  });
    HWY_UNROLL(8)
    for (uint32_t j = 0; j < kQueries; ++j) {
      const VF32 inverse = hn::Set(d, inverse_sums[j]);
      HWY_UNROLL(4)
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        hn::StoreU(hn::Mul(sum[j][k], inverse), d, mixed + j * head_dim + i + k * kLanes);
      }
    }
  }
  for (; i < head_dim; ++i) {
    float sum[kQueries] = {};
    for_positions(shape, queries, kv_head, queries.earliest, queries.longest, 0,
                  [&](uint32_t position, const PageRow& at, const PageRow&) {
                    const float value = to_f32(values.row(at.head, at.index)[i]);
                    for (uint32_t j = 0; j < kQueries; ++j) {
                      sum[j] += weights[j * max_length + position] * value;
                    }
                  });
    for (uint32_t j = 0; j < kQueries; ++j) {
      mixed[j * head_dim + i] = sum[j] * inverse_sums[j];
    }
  }
}

// The same for quantized values in groups of kLanes positions.
template <uint32_t kQueries, uint32_t kVectors, class Rows>
HWY_NOINLINE void mix_codes(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                            uint32_t first_dim, const Rows& values, const RowPrefetch& next_keys,
                            const float* weights, uint32_t max_length, const float* inverse_sums,
                            float* mixed) {
  const F32 d;
  VF32 sums[kQueries][kVectors];
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) {
    HWY_UNROLL(4)
    for (uint32_t k = 0; k < kVectors; ++k) sums[j][k] = hn::Zero(d);
  }
  for (uint32_t first = queries.first_score(); first < queries.longest; first += kLanes) {
    const auto head_of = [&](uint32_t page) {
      return static_cast<size_t>(queries.pages[page]) * shape.n_kv_heads + kv_head;
    };
    const uint32_t page = first / shape.page_rows, index = first % shape.page_rows;
    const uint32_t n = std::min(kLanes, queries.longest - first);
    const uint32_t begin = std::max(queries.earliest, first) - first;
    if (begin >= n) continue;
    if (first_dim == 0) {
      next_keys({head_of(std::min(page + queries.to_next_chunk, queries.last_page)), index}, n);
    }
    add_codes<kQueries, kVectors>(values, head_of(page), index, begin, n, first_dim,
                                  weights + first, max_length, sums);
  }
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) {
    const VF32 inverse = hn::Set(d, inverse_sums[j]);
    HWY_UNROLL(4)
    for (uint32_t k = 0; k < kVectors; ++k) {
      hn::StoreU(hn::Mul(sums[j][k], inverse), d,
                 mixed + j * shape.head_dim + first_dim + k * kLanes);
    }
  }
}

template <uint32_t kQueries, class Rows>
void mix_groups_of_codes(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                         const Rows& values, const RowPrefetch& next_keys, const float* weights,
                         uint32_t max_length, const float* inverse_sums, float* mixed) {
  uint32_t i = 0;
  for (; i + 4 * kLanes <= shape.head_dim; i += 4 * kLanes) {
    mix_codes<kQueries, 4>(shape, queries, kv_head, i, values, next_keys, weights, max_length,
                           inverse_sums, mixed);
  }
  for (; i < shape.head_dim; i += kLanes) {
    mix_codes<kQueries, 1>(shape, queries, kv_head, i, values, next_keys, weights, max_length,
                           inverse_sums, mixed);
  }
}

// Writes the result of each query, [queries, head_dim].
HWY_NOINLINE void put_results(const PreparedCommand& command, const Queries& queries,
                              const float* mixed) {
  const auto& params = command.params_as<PagedAttentionParams>();
  with_type(params.out_dtype, command.operands[0], [&](auto* out) {
    for (uint32_t j = 0; j < queries.n; ++j, mixed += params.head_dim) {
      if (queries.parts[j] != nullptr) {
        std::copy_n(mixed, params.head_dim, queries.parts[j] + 2);
      } else {
        convert(mixed, params.head_dim, out + queries.out_start[j]);
      }
    }
  });
}

template <uint32_t kQueries>
HWY_INLINE void attend(const PreparedCommand& command, const Queries& queries, uint32_t kv_head,
                       std::byte* scratch) {
  const auto& params = command.params_as<PagedAttentionParams>();
  const auto& plan = *static_cast<const PagedAttentionPlan*>(command.plan.get());
  auto* const q = reinterpret_cast<float*>(scratch);
  auto* const scores = reinterpret_cast<float*>(scratch + plan.scores_offset);
  const PageShape shape{params.n_kv_heads, params.page_rows, params.head_dim};
  const uint32_t k_dtype = key_dtype(params.kv_dtypes), v_dtype = value_dtype(params.kv_dtypes);
  const std::byte *keys = command.operands[2], *values = command.operands[3];
  const auto* const sinks = command.operand<const float>(6);
  const RowPrefetch next_keys(shape, keys, k_dtype), next_values(shape, values, v_dtype);
  with_kv_rows(k_dtype, keys, params.page_rows, params.head_dim, [&](const auto& rows) {
    score_keys<kQueries>(shape, queries, kv_head, rows, next_values, q,
                         reinterpret_cast<float*>(scratch + plan.partial_offset), plan.max_length,
                         scores);
  });
  float inverse_sums[kQueries];
  for (uint32_t j = 0; j < kQueries; ++j) {
    const ScoreSum found = exponentials(scores + j * plan.max_length, queries, j, params.soft_cap);
    float sum = found.sum;
    if (queries.parts[j] != nullptr) {
      std::memcpy(queries.parts[j], &found, sizeof found);
    } else if (sinks != nullptr) {
      sum += std::exp(sinks[queries.head[j]] - found.largest);
    }
    inverse_sums[j] = 1.0f / sum;
  }
  // The queries are not needed any more: results reuse their memory.
  with_kv_rows(v_dtype, values, params.page_rows, params.head_dim, [&](const auto& rows) {
    using Rows = std::decay_t<decltype(rows)>;
    if constexpr (std::is_same_v<Rows, KvRows<Q8Row>> || std::is_same_v<Rows, KvRows<Q4Row>>) {
      if (has_groups_of_codes(shape, queries)) {
        return mix_groups_of_codes<kQueries>(shape, queries, kv_head, rows, next_keys, scores,
                                             plan.max_length, inverse_sums, q);
      }
    }
    mix_values<kQueries>(shape, queries, kv_head, rows, next_keys, scores, plan.max_length,
                         inverse_sums, q);
  });
  put_results(command, queries, q);
}

void attend(const PreparedCommand& command, const Queries& queries, uint32_t kv_head,
            std::byte* scratch) {
  with_count(queries.n,
             [&](auto n) { attend<decltype(n)::value>(command, queries, kv_head, scratch); });
}

// Merges the results of the chunks of a row and head: the mean of values. `sink` is that of the
// head; null: none.
HWY_NOINLINE void merge_chunks(const float* parts, uint32_t n_chunks, uint32_t head_dim,
                               const float* sink, float* out) {
  const size_t stride = size_t{2} + head_dim;
  float largest = parts[0];
  for (uint32_t c = 1; c < n_chunks; ++c) largest = std::max(largest, parts[c * stride]);
  std::fill_n(out, head_dim, 0.0f);
  float total = sink != nullptr ? std::exp(*sink - largest) : 0.0f;
  for (uint32_t c = 0; c < n_chunks; ++c) {
    const float* const part = parts + c * stride;
    const float weight = part[1] * std::exp(part[0] - largest);
    total += weight;
    for (uint32_t i = 0; i < head_dim; ++i) out[i] += weight * part[2 + i];
  }
  for (uint32_t i = 0; i < head_dim; ++i) out[i] /= total;
}

void run_paged_attention(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<PagedAttentionParams>();
  const auto& plan = *static_cast<const PagedAttentionPlan*>(command.plan.get());
  const Row* rows = command.operand<const Row>(4);
  const int32_t* page_table = command.operand<const int32_t>(5);
  const uint32_t kv_head = task % params.n_kv_heads, dims = params.head_dim;
  const uint32_t share = task / params.n_kv_heads % plan.n_shares;
  const uint32_t block = task / params.n_kv_heads / plan.n_shares;
  const uint32_t first = block * command.rows_per_task;
  uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  const uint32_t group = params.n_heads / params.n_kv_heads;
  const auto part_of = [&](uint32_t row, uint32_t head, uint32_t chunk) {
    const size_t index = (size_t{row} * params.n_heads + head) * plan.n_chunks + chunk;
    return plan.parts->numbers.data() + index * (size_t{2} + dims);
  };

  // The chunks of this task: its share of those that some row of the block sees.
  uint32_t chunk = 0, end_chunk = 1;
  if (plan.n_chunks > 1) {
    uint32_t least = plan.n_chunks, most = 0;
    for (uint32_t r = first; r < end; ++r) {
      if (rows[r].sequence < 0) continue;
      const VisiblePositions seen = visible_positions(params, rows[r]);
      least = std::min(least, seen.begin / plan.chunk);
      most = std::max(most, (seen.end - 1) / plan.chunk + 1);
    }
    const uint32_t n = most > least ? most - least : 0;
    chunk = least + n * share / plan.n_shares;
    end_chunk = least + n * (share + 1) / plan.n_shares;
  }

  Queries queries;
  // The pages of earlier tokens differ between sequences: only fixed lengths are compared.
  const uint32_t n_compared = params.kv_length != 0 ? params.pages_per_sequence : 0;
  const uint32_t at_once = n_compared > 0 ? kQueriesAtOnce : kHeadsAtOnce;
  if (command.rows_per_task == 1 && n_compared > 0) {
    const auto together = [&](uint32_t r) {
      return go_together({rows, params.n_rows}, r, page_table, n_compared);
    };
    uint32_t n_before = 0;
    while (first > n_before && together(first - n_before)) ++n_before;
    if (n_before % at_once != 0) return;
    while (end < params.n_rows && end - first < at_once && together(end)) ++end;
  }
  const auto flush = [&] {
    attend(command, queries, kv_head, scratch.data);
    queries.clear();
  };
  queries.last_page = params.pages_per_sequence - 1;
  for (; chunk < end_chunk; ++chunk) {
    queries.to_next_chunk = chunk + 1 < end_chunk ? plan.chunk / params.page_rows : 0;
    int sequence = -1;
    for (uint32_t r = first; r < end; ++r) {
      if (rows[r].sequence < 0) continue;
      if (rows[r].sequence != sequence) {
        sequence = rows[r].sequence;
        const int32_t* pages =
            page_table + static_cast<size_t>(sequence) * params.pages_per_sequence;
        if (n_compared > 0) pages = shared_pages(queries, pages, n_compared);
        if (pages != queries.pages) flush();
        queries.pages = pages;
      }
      const VisiblePositions seen = visible_positions(params, rows[r]);
      const uint32_t from = std::max(seen.begin, chunk * plan.chunk);
      const uint32_t to = std::min(seen.end, (chunk + 1) * plan.chunk);
      if (from >= to) continue;
      const bool is_part = from != seen.begin || to != seen.end;
      for (uint32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        if (queries.n == at_once) flush();
        float* q = reinterpret_cast<float*>(scratch.data) + queries.n * dims;
        read_numbers(params.q_dtype, command.operands[1],
                     size_t{r} * params.q_row_stride + size_t{h} * dims, dims, q);
        for (uint32_t i = 0; i < dims; ++i) q[i] *= params.scale;
        queries.add(from, to, h, size_t{r} * params.out_row_stride + size_t{h} * dims,
                    is_part ? part_of(r, h, chunk) : nullptr);
      }
    }
    flush();
  }

  if (plan.n_chunks == 1) return;
  std::atomic<uint32_t>& ended = plan.parts->ended[block * params.n_kv_heads + kv_head];
  if (ended.fetch_add(1, std::memory_order_acq_rel) + 1 < plan.n_shares) return;
  ended.store(0, std::memory_order_relaxed);
  auto* const mixed = reinterpret_cast<float*>(scratch.data);
  const auto* const sinks = command.operand<const float>(6);
  for (uint32_t r = first; r < end; ++r) {
    if (rows[r].sequence < 0) continue;
    const VisiblePositions seen = visible_positions(params, rows[r]);
    const uint32_t least = seen.begin / plan.chunk;
    const uint32_t n = (seen.end - 1) / plan.chunk + 1 - least;
    if (n == 1) continue;
    for (uint32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      merge_chunks(part_of(r, h, least), n, dims, sinks != nullptr ? sinks + h : nullptr, mixed);
      with_type(params.out_dtype, command.operands[0], [&](auto* out) {
        convert(mixed, dims, out + size_t{r} * params.out_row_stride + size_t{h} * dims);
      });
    }
  }
}

// Writes the attention probabilities of the queries, whose out_start are rows of the output;
// `scratch` begins with their indices.
void weigh(const PreparedCommand& command, const Queries& queries, uint32_t kv_head,
           std::byte* scratch) {
  const auto& params = command.params_as<AttentionWeightsParams>();
  const auto& plan = *static_cast<const PagedAttentionPlan*>(command.plan.get());
  const PageShape shape{params.n_kv_heads, params.page_rows, params.head_dim};
  auto* const q = reinterpret_cast<const float*>(scratch);
  auto* const partial = reinterpret_cast<float*>(scratch + plan.partial_offset);
  auto* const scores = reinterpret_cast<float*>(scratch + plan.scores_offset);
  const RowPrefetch none(shape, nullptr, params.k_dtype);  // instead of values
  const uint32_t n = plan.max_length;
  with_kv_rows(params.k_dtype, command.operands[2], params.page_rows, params.head_dim,
               [&](const auto& keys) {
                 with_count(queries.n, [&](auto count) {
                   score_keys<decltype(count)::value>(shape, queries, kv_head, keys, none, q,
                                                      partial, n, scores);
                 });
               });
  for (uint32_t j = 0; j < queries.n; ++j) {
    float* weights = scores + j * n;
    const float inverse = 1.0f / exponentials(weights, queries, j, 0.0f).sum;
    float* out = command.operand<float>(0) + queries.out_start[j];
    for (uint32_t t = 0; t < queries.length[j]; ++t) out[t] = weights[t] * inverse;
  }
}

void run_attention_weights(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<AttentionWeightsParams>();
  const Row* rows = command.operand<const Row>(3);
  const uint32_t* lengths = command.operand<const uint32_t>(6);
  const uint32_t selected = task % params.n_selected;
  const uint32_t head = command.operand<const uint32_t>(5)[selected];
  const uint32_t kv_head = head / (params.n_heads / params.n_kv_heads);
  const uint32_t first = task / params.n_selected * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);

  Queries queries;
  queries.last_page = params.pages_per_sequence - 1;
  int sequence = -1;
  const auto flush = [&] {
    weigh(command, queries, kv_head, scratch.data);
    queries.clear();
  };
  for (uint32_t r = first; r < end; ++r) {
    if (rows[r].sequence < 0) continue;
    if (rows[r].sequence != sequence || queries.n == kQueriesAtOnce) flush();
    sequence = rows[r].sequence;
    queries.pages = command.operand<const int32_t>(4) +
                    static_cast<size_t>(sequence) * params.pages_per_sequence;
    float* q = reinterpret_cast<float*>(scratch.data) + queries.n * params.head_dim;
    read_numbers(params.q_dtype, command.operands[1],
                 size_t{r} * params.q_row_stride + size_t{head} * params.head_dim, params.head_dim,
                 q);
    for (uint32_t i = 0; i < params.head_dim; ++i) q[i] *= params.scale;
    queries.add(0, std::min(lengths[sequence], params.kv_length), head,
                (size_t{selected} * params.n_rows + r) * params.kv_length);
  }
  flush();
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_paged_attention);
HWY_EXPORT(run_attention_weights);

namespace {

// Lets several tasks share the positions of a row.
void cut_positions(PagedAttentionPlan& plan, const CommandToPrepare& command, uint32_t n_blocks) {
  const auto& params = command.command().params_as<PagedAttentionParams>();
  plan.chunk = std::max(kLeastChunk, round_up(plan.max_length / kMostChunks, kLeastChunk));
  plan.n_chunks = (plan.max_length + plan.chunk - 1) / plan.chunk;
  const uint32_t n_pieces = n_blocks * params.n_kv_heads;
  if (command.n_threads() > 1) {
    plan.n_shares = std::clamp(4 * command.n_threads() / n_pieces, 1u, plan.n_chunks);
  }
  plan.parts = command.attention_parts;
  AttentionParts& parts = *plan.parts;
  const size_t n_numbers =
      size_t{params.n_rows} * params.n_heads * plan.n_chunks * (size_t{2} + params.head_dim);
  if (parts.numbers.size() < n_numbers) parts.numbers.resize(n_numbers);
  if (parts.n_ended < n_pieces) {
    parts.ended = std::make_unique<std::atomic<uint32_t>[]>(n_pieces);
    parts.n_ended = n_pieces;
  }
}

}  // namespace

void prepare_paged_attention(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<PagedAttentionParams>();
  command.require(params.n_rows > 0 && params.n_heads > 0 && params.n_kv_heads > 0 &&
                      params.head_dim > 0 && params.page_rows > 0 && params.pages_per_sequence > 0,
                  "a size is zero");
  command.require(params.n_heads % params.n_kv_heads == 0, "n_heads is no multiple of n_kv_heads");
  command.require(params.q_dtype <= kDTypeBF16 && params.out_dtype <= kDTypeBF16,
                  "q and out must be f32, f16 or bf16");
  command.require_kv_dtypes(params.kv_dtypes, params.head_dim);
  command.require((params.flags & kAttentionWritesKv) == 0, "keys and values must be in the pages");
  const uint64_t width = uint64_t{params.n_heads} * params.head_dim;
  const auto bytes = [&](uint64_t stride, uint32_t dtype) {
    return ((params.n_rows - 1) * stride + width) * (dtype == kDTypeF32 ? 4 : 2);
  };
  command.require_bytes(0, bytes(params.out_row_stride, params.out_dtype));
  command.require_bytes(1, bytes(params.q_row_stride, params.q_dtype));
  const auto page_bytes = [&](uint32_t kv) {
    return uint64_t{params.n_kv_heads} * kv_head_bytes(kv, params.page_rows, params.head_dim);
  };
  command.require_bytes(2, page_bytes(key_dtype(params.kv_dtypes)));
  command.require_bytes(3, page_bytes(value_dtype(params.kv_dtypes)));
  command.require_bytes(4, uint64_t{params.n_rows} * sizeof(Row));
  command.require_bytes(5, uint64_t{params.pages_per_sequence} * 4);
  command.require_bytes(6, uint64_t{params.n_heads} * sizeof(float), true);
  const uint64_t positions = uint64_t{params.page_rows} * params.pages_per_sequence;
  command.require(params.kv_length <= positions, "kv_length is beyond the page table");
  const uint64_t length = params.kv_length != 0 ? params.kv_length : positions;
  auto plan = std::make_shared<PagedAttentionPlan>(plan_paged_attention(length, params.head_dim));
  prepared.rows_per_task = std::min(params.n_rows, 4 * kQueriesAtOnce);
  // Rows of one sequence read the same keys, rows of several sequences do not.
  if (params.kv_length == 0 && (params.flags & kAttentionOneSequence) == 0) {
    prepared.rows_per_task =
        std::clamp(params.n_rows * params.n_kv_heads / 16, 1u, prepared.rows_per_task);
  }
  const uint32_t n_blocks = (params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task;
  if (params.kv_length == 0 && params.n_rows < kPromptRows && length >= kLeastCutLength) {
    cut_positions(*plan, command, n_blocks);
  }
  prepared.scratch_bytes = plan->scratch_bytes;
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_paged_attention);
  prepared.n_tasks = params.n_kv_heads * n_blocks * plan->n_shares;
  prepare_prompt_attention(prepared, command);
}

void prepare_attention_weights(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<AttentionWeightsParams>();
  command.require(params.n_rows > 0 && params.n_selected > 0 && params.n_heads > 0 &&
                      params.n_kv_heads > 0 && params.head_dim > 0 && params.page_rows > 0 &&
                      params.pages_per_sequence > 0 && params.kv_length > 0,
                  "a size is zero");
  command.require(params.n_heads % params.n_kv_heads == 0, "n_heads is no multiple of n_kv_heads");
  command.require(params.q_dtype <= kDTypeBF16, "q must be f32, f16 or bf16");
  command.require_kv_dtype(params.k_dtype, params.head_dim);
  command.require(params.kv_length <= uint64_t{params.page_rows} * params.pages_per_sequence,
                  "kv_length is beyond the page table");
  command.require_bytes(0, uint64_t{params.n_selected} * params.n_rows * params.kv_length * 4);
  command.require_bytes(1, ((params.n_rows - 1) * uint64_t{params.q_row_stride} +
                            uint64_t{params.n_heads} * params.head_dim) *
                               (params.q_dtype == kDTypeF32 ? 4 : 2));
  command.require_bytes(2, uint64_t{params.n_kv_heads} *
                               kv_head_bytes(params.k_dtype, params.page_rows, params.head_dim));
  command.require_bytes(3, uint64_t{params.n_rows} * sizeof(Row));
  command.require_bytes(4, uint64_t{params.pages_per_sequence} * 4);
  command.require_bytes(5, uint64_t{params.n_selected} * 4);
  command.require_bytes(6, 4);
  auto plan =
      std::make_shared<PagedAttentionPlan>(plan_paged_attention(params.kv_length, params.head_dim));
  prepared.scratch_bytes = plan->scratch_bytes;
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_attention_weights);
  prepared.rows_per_task = std::min(params.n_rows, 4 * kQueriesAtOnce);
  prepared.n_tasks =
      params.n_selected * ((params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task);
}

}  // namespace vesper
#endif
