// paged_attention of many rows: those of prompts, and of many texts a row each, which are left to
// the kernel for a few rows. A task is one kv head of a block of rows. It brings a block of keys
// and values to f32, or to pairs of bf16 where the command may round, and lets all its queries meet
// it, in groups that fill two vectors, each with its running softmax; then the next block. Blocks
// are counted from position 0, and what a query does not see adds nothing: a row's result does not
// depend on the rows beside it.
#include <algorithm>
#include <cmath>

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/prepared_command.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/attention/prompt_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway demands.
#include "hwy/highway.h"
#include "llm/cpu/attention/attention_block-inl.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_PROMPT_ATTENTION_PLAN_
#define VESPER_LLM_CPU_PROMPT_ATTENTION_PLAN_
namespace vesper {

inline constexpr uint32_t kPromptKeyBlock = 128;
// Queries of a task that meet a block of keys before the next one comes.
inline constexpr uint32_t kMostQueries = 256;

// The scratch of a thread, in units of 32 bits: one f32 or two bf16.
struct PromptAttentionPlan {
  PreparedCommand single;  // the same command, in blocks of one row
  uint32_t n_queries = 0;  // that go through together, a multiple of any two vectors' lanes
  size_t values = 0;       // offsets: keys [block, dims] come first, then values [block, dims] or
                           // [block / 2, dims] of pairs of keys,
  size_t scores = 0;       // f32 [block, 2 vectors],
  size_t queries = 0;      // [groups][dims, 2 vectors],
  size_t sums = 0;         // f32 [groups][dims, 2 vectors],
  size_t running = 0;      // f32 [groups][2][2 vectors]: the largest score, the total of weights
  size_t end = 0;
};

inline bool in_bf16_pairs(const PagedAttentionParams& params) {
  return (params.flags & kAttentionRounds) != 0 && cpu_features().avx512_bf16;
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

inline constexpr uint32_t kGroup = 2 * kLanes;  // queries of a group

// Queries of consecutive rows of one sequence, whose positions touch each other.
struct PromptQueries {
  uint32_t n = 0;
  uint32_t begin[kMostQueries], end[kMostQueries];  // the positions that each sees
  size_t out[kMostQueries];                         // its result's first element
  uint32_t first = 0, last = 0;                     // [first, last): what any of them sees
  const int32_t* pages = nullptr;

  bool touches(uint32_t from, uint32_t to) const { return n == 0 || (from <= last && to >= first); }
  void add(uint32_t from, uint32_t to, size_t at) {
    first = n == 0 ? from : std::min(first, from);
    last = n == 0 ? to : std::max(last, to);
    begin[n] = from;
    end[n] = to;
    out[n] = at;
    ++n;
  }
};

// Calls body(position, first element of that position's vector, how many positions follow each
// other there) for positions [from, to) of a head.
template <class Body>
HWY_INLINE void for_page_parts(const PagedAttentionParams& params, const int32_t* pages,
                               uint32_t kv_head, uint32_t from, uint32_t to, const Body& body) {
  while (from < to) {
    const uint32_t page = from / params.page_rows, row = from % params.page_rows;
    const uint32_t n = std::min(to - from, params.page_rows - row);
    const size_t head = static_cast<size_t>(pages[page]) * params.n_kv_heads + kv_head;
    body(from, (head * params.page_rows + row) * params.head_dim, n);
    from += n;
  }
}

// A row of units: n numbers as f32, or, n being even, as pairs of bf16.
template <class Op, class From>
HWY_INLINE void to_units(const From* from, size_t n, uint32_t* out) {
  if constexpr (Op::kPerUnit == 1) {
    convert(from, n, reinterpret_cast<float*>(out));
  } else {
    convert(from, n, reinterpret_cast<BF16*>(out));
  }
}

// Keys of positions [from, to) of a head: [to - from, head_dim / kPerUnit].
template <class Op, class KV>
HWY_NOINLINE void read_keys(const PagedAttentionParams& params, const int32_t* pages,
                            uint32_t kv_head, const KV* data, uint32_t from, uint32_t to,
                            uint32_t* out) {
  for_page_parts(
      params, pages, kv_head, from, to, [&](uint32_t position, size_t at, uint32_t n) HWY_ATTR {
        const size_t offset = size_t{position - from} * params.head_dim;
        to_units<Op>(data + at, size_t{n} * params.head_dim, out + offset / Op::kPerUnit);
      });
}

// Values of positions [from, to), the first of which is even: [(to - from) / kPerUnit rounded up,
// head_dim]. In pairs an odd position's is the upper half of the unit; that behind the last is 0.
template <class Op, class KV>
HWY_NOINLINE void read_values(const PagedAttentionParams& params, const int32_t* pages,
                              uint32_t kv_head, const KV* data, uint32_t from, uint32_t to,
                              uint32_t* out) {
  if constexpr (Op::kPerUnit == 1) {
    read_keys<Op>(params, pages, kv_head, data, from, to, out);
  } else {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const size_t dims = params.head_dim;
    for_page_parts(params, pages, kv_head, from, to,
                   [&](uint32_t position, size_t at, uint32_t n) HWY_ATTR {
                     for (uint32_t j = 0; j < n; ++j, ++position, at += dims) {
                       const bool is_second = position % 2 != 0;
                       uint32_t* units = out + size_t{(position - from) / 2} * dims;
                       size_t i = 0;
                       for (; i + kLanes <= dims; i += kLanes) {
                         const auto bits =
                             hn::Add(hn::BitCast(du, load_f32(data + at + i)), hn::Set(du, 0x8000));
                         hn::StoreU(is_second ? hn::Or(hn::And(bits, hn::Set(du, 0xFFFF0000u)),
                                                       hn::LoadU(du, units + i))
                                              : hn::ShiftRight<16>(bits),
                                    du, units + i);
                       }
                       for (; i < dims; ++i) {
                         const uint32_t bits = f32_to_bf16(to_f32(data[at + i]));
                         units[i] = is_second ? (units[i] | bits << 16) : bits;
                       }
                     }
                   });
  }
}

// Scores of positions that a query does not see become minus infinity: [n_keys][kGroup], the first
// of position `key`.
HWY_NOINLINE void hide_unseen(const PromptQueries& queries, uint32_t first_query, uint32_t key,
                              uint32_t n_keys, float* scores) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  alignas(64) int32_t begin[kGroup], end[kGroup];
  for (uint32_t i = 0; i < kGroup; ++i) {
    const bool there = first_query + i < queries.n;
    begin[i] = there ? static_cast<int32_t>(queries.begin[first_query + i]) : 0;
    end[i] = there ? static_cast<int32_t>(queries.end[first_query + i]) : 0;
  }
  for (uint32_t h = 0; h < kGroup; h += kLanes) {
    const auto from = hn::LoadU(di, begin + h), to = hn::LoadU(di, end + h);
    for (uint32_t j = 0; j < n_keys; ++j) {
      const auto position = hn::Set(di, static_cast<int32_t>(key + j));
      const auto seen = hn::AndNot(hn::Lt(position, from), hn::Lt(position, to));
      float* at = scores + j * kGroup + h;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, seen), hn::LoadU(d, at), hn::Set(d, -INFINITY)),
                 d, at);
    }
  }
}

// A group of queries meets keys [first, first + n_keys) of a block. Its first block: what is in
// `sums` is forgotten.
template <class Op>
HWY_NOINLINE void meet_keys(const PagedAttentionParams& params, const PromptQueries& queries,
                            uint32_t first_query, uint32_t first, uint32_t n_keys,
                            const uint32_t* keys, const uint32_t* values,
                            const uint32_t* group_queries, float* scores, float* running,
                            float* sums) {
  const F32 d;
  const uint32_t dims = params.head_dim, n_units = dims / Op::kPerUnit;
  uint32_t i = 0;
  for (; i + kBlockUnroll <= n_keys; i += kBlockUnroll) {
    multiply_add<Op, kBlockUnroll, 2>(d, keys + size_t{i} * n_units, n_units, 1, group_queries,
                                      n_units, nullptr, scores + i * kGroup);
  }
  for (; i < n_keys; ++i) {
    multiply_add<Op, 1, 2>(d, keys + size_t{i} * n_units, n_units, 1, group_queries, n_units,
                           nullptr, scores + i * kGroup);
  }
  if (params.soft_cap > 0) {
    const VF32 cap = hn::Set(d, params.soft_cap * kLog2E);
    const VF32 inverse = hn::Set(d, 1 / (params.soft_cap * kLog2E));
    for (i = 0; i < n_keys * kGroup; i += kLanes) {
      const VF32 capped = hn::Tanh(d, hn::Mul(hn::LoadU(d, scores + i), inverse));
      hn::StoreU(hn::Mul(cap, capped), d, scores + i);
    }
  }
  bool all_seen = first_query + kGroup <= queries.n;
  for (uint32_t q = first_query; all_seen && q < first_query + kGroup; ++q) {
    all_seen = queries.begin[q] <= first && queries.end[q] >= first + n_keys;
  }
  if (!all_seen) hide_unseen(queries, first_query, first, n_keys, scores);
  VF32 corrections[2];
  for (uint32_t h = 0; h < 2; ++h) {
    float* const of_vector = running + h * kLanes;
    RunningSoftmax<F32> softmax{hn::LoadU(d, of_vector), hn::LoadU(d, of_vector + kGroup)};
    corrections[h] = to_probabilities<Op, true>(d, scores + h * kLanes, n_keys, 1.0f, softmax);
    hn::StoreU(softmax.largest, d, of_vector);
    hn::StoreU(softmax.sum, d, of_vector + kGroup);
  }
  const auto* probabilities = reinterpret_cast<const uint32_t*>(scores);
  const uint32_t n_key_units = (n_keys + Op::kPerUnit - 1) / Op::kPerUnit;
  for (i = 0; i < dims; i += kBlockUnroll) {
    multiply_add<Op, kBlockUnroll, 2>(d, values + i, 1, dims, probabilities, n_key_units,
                                      corrections, sums + i * kGroup);
  }
}

// Lets all queries meet all that they see, and writes their results.
template <class Op, class KV>
void attend_prompt(const PreparedCommand& command, const PromptAttentionPlan& plan,
                   const PromptQueries& queries, uint32_t kv_head, uint32_t* scratch) {
  const F32 d;
  const auto& params = command.params_as<PagedAttentionParams>();
  const uint32_t dims = params.head_dim;
  const size_t group_size = size_t{dims} * kGroup;
  const uint32_t n_groups = (queries.n + kGroup - 1) / kGroup;
  uint32_t* const keys = scratch;
  uint32_t* const values = scratch + plan.values;
  float* const scores = reinterpret_cast<float*>(scratch + plan.scores);
  float* const sums = reinterpret_cast<float*>(scratch + plan.sums);
  float* const running = reinterpret_cast<float*>(scratch + plan.running);
  std::fill_n(sums, n_groups * group_size, 0.0f);
  for (uint32_t g = 0; g < n_groups; ++g) {
    std::fill_n(running + size_t{g} * 2 * kGroup, kGroup, kNoScore);
    std::fill_n(running + size_t{g} * 2 * kGroup + kGroup, kGroup, 0.0f);
  }
  for (uint32_t block = queries.first / kPromptKeyBlock * kPromptKeyBlock; block < queries.last;
       block += kPromptKeyBlock) {
    // Keys go by two where their values do.
    const uint32_t from = std::max(block, queries.first) / Op::kPerUnit * Op::kPerUnit;
    const uint32_t to = std::min(block + kPromptKeyBlock, queries.last);
    read_keys<Op>(params, queries.pages, kv_head, command.operand<const KV>(2), from, to, keys);
    read_values<Op>(params, queries.pages, kv_head, command.operand<const KV>(3), from, to, values);
    for (uint32_t g = 0; g < n_groups; ++g) {
      const uint32_t first_query = g * kGroup, end_query = std::min(queries.n, (g + 1) * kGroup);
      const uint32_t begin =
          std::max(from, *std::min_element(queries.begin + first_query, queries.begin + end_query));
      const uint32_t first = begin / Op::kPerUnit * Op::kPerUnit;
      const uint32_t last =
          std::min(to, *std::max_element(queries.end + first_query, queries.end + end_query));
      if (first >= last) continue;
      const size_t at = size_t{first - from} * dims / Op::kPerUnit;
      meet_keys<Op>(params, queries, first_query, first, last - first, keys + at, values + at,
                    scratch + plan.queries + g * group_size, scores,
                    running + size_t{g} * 2 * kGroup, sums + g * group_size);
    }
  }
  float* const row = reinterpret_cast<float*>(keys);
  for (uint32_t g = 0; g < n_groups; ++g) {
    const float* const totals = running + size_t{g} * 2 * kGroup + kGroup;
    float* const of_group = sums + g * group_size;
    for (uint32_t h = 0; h < kGroup; h += kLanes) {
      const VF32 total = hn::LoadU(d, totals + h);
      for (uint32_t j = 0; j < dims; ++j) {
        float* const at = of_group + j * kGroup + h;
        hn::StoreU(hn::Div(hn::LoadU(d, at), total), d, at);
      }
    }
    for (uint32_t i = 0; i < kGroup && g * kGroup + i < queries.n; ++i) {
      for (uint32_t j = 0; j < dims; ++j) row[j] = of_group[j * kGroup + i];
      with_type(params.out_dtype, command.operands[0],
                [&](auto* out) { convert(row, dims, out + queries.out[g * kGroup + i]); });
    }
  }
}

template <class Op>
void run_prompt_rows(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& params = command.params_as<PagedAttentionParams>();
  const auto& plan = *static_cast<const PromptAttentionPlan*>(command.plan.get());
  const Row* rows = command.operand<const Row>(4);
  const int32_t* page_table = command.operand<const int32_t>(5);
  const uint32_t kv_head = task % params.n_kv_heads;
  const uint32_t first = task / params.n_kv_heads * command.rows_per_task;
  const uint32_t end = std::min(first + command.rows_per_task, params.n_rows);
  const uint32_t n_heads = params.n_heads / params.n_kv_heads, dims = params.head_dim;
  const uint32_t n_units = dims / Op::kPerUnit;
  auto* const memory = reinterpret_cast<uint32_t*>(scratch.data);
  const float factor = params.scale * kLog2E;  // to powers of 2

  PromptQueries queries;
  int sequence = -1;
  const auto flush = [&] {
    if (queries.n == 0) return;
    // Of a group that is not full, what the other lanes hold must be numbers.
    for (uint32_t i = queries.n; i % kGroup != 0; ++i) {
      uint32_t* to = memory + plan.queries + size_t{i / kGroup} * dims * kGroup + i % kGroup;
      for (uint32_t j = 0; j < n_units; ++j) to[j * kGroup] = 0;
    }
    if (params.kv_dtype == kDTypeF16) {
      attend_prompt<Op, F16>(command, plan, queries, kv_head, memory);
    } else {
      attend_prompt<Op, float>(command, plan, queries, kv_head, memory);
    }
    queries.n = 0;
  };
  for (uint32_t r = first; r < end; ++r) {
    if (rows[r].sequence < 0) continue;
    // By the rows of the whole command, so that it is no matter how that is cut into tasks.
    if (is_alone({rows, params.n_rows}, r)) {
      flush();
      plan.single.run(plan.single, r * params.n_kv_heads + kv_head, scratch);
      continue;
    }
    const VisiblePositions seen = visible_positions(params, rows[r]);
    if (rows[r].sequence != sequence || !queries.touches(seen.begin, seen.end)) {
      flush();
      sequence = rows[r].sequence;
      queries.pages = page_table + static_cast<size_t>(sequence) * params.pages_per_sequence;
    }
    for (uint32_t h = kv_head * n_heads; h < (kv_head + 1) * n_heads; ++h) {
      if (queries.n == plan.n_queries) flush();
      // Where keys will be: the numbers, then their units.
      float* const row = reinterpret_cast<float*>(memory);
      uint32_t* const units = memory + dims;
      read_numbers(params.q_dtype, command.operands[1],
                   size_t{r} * params.q_row_stride + size_t{h} * dims, dims, row);
      for (uint32_t j = 0; j < dims; ++j) row[j] *= factor;
      to_units<Op>(row, dims, units);
      uint32_t* to =
          memory + plan.queries + size_t{queries.n / kGroup} * dims * kGroup + queries.n % kGroup;
      for (uint32_t j = 0; j < n_units; ++j) to[j * kGroup] = units[j];
      queries.add(seen.begin, seen.end, size_t{r} * params.out_row_stride + size_t{h} * dims);
    }
  }
  flush();
}

void run_prompt_attention(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  if (in_bf16_pairs(command.params_as<PagedAttentionParams>())) {
    run_prompt_rows<MultiplyBf16Pair>(command, task, scratch);
  } else {
    run_prompt_rows<MultiplyF32>(command, task, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_prompt_attention);

namespace {
bool is_prompt(const PagedAttentionParams& params) {
  return params.n_rows >= kPromptRows && params.head_dim % 8 == 0;
}
}  // namespace

const char* prompt_attention_variant(const PagedAttentionParams& params) {
  return is_prompt(params) && in_bf16_pairs(params) ? "AVX512-BF16" : "";
}

void prepare_prompt_attention(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<PagedAttentionParams>();
  constexpr uint32_t kMostLanes = 16;
  if (!is_prompt(params)) return;
  const uint32_t n_heads = params.n_heads / params.n_kv_heads;
  // A block of keys is read for every task: tasks of many rows, but enough for all threads.
  const uint32_t most = std::max(1u, kMostQueries / n_heads);
  const uint64_t wanted = uint64_t{params.n_rows} * params.n_kv_heads / (8 * command.n_threads());
  const auto rows =
      static_cast<uint32_t>(std::clamp<uint64_t>(wanted, std::min(kPromptRows, most), most));
  auto plan = std::make_shared<PromptAttentionPlan>();
  plan->single = prepared;
  plan->single.rows_per_task = 1;
  plan->single.n_tasks = params.n_rows * params.n_kv_heads;
  prepared.rows_per_task = std::min(params.n_rows, rows);
  prepared.n_tasks =
      params.n_kv_heads * ((params.n_rows + prepared.rows_per_task - 1) / prepared.rows_per_task);
  plan->n_queries = std::min(kMostQueries, (prepared.rows_per_task * n_heads + 31) / 32 * 32);
  const size_t block = size_t{kPromptKeyBlock} * params.head_dim;
  const size_t groups = size_t{plan->n_queries} * params.head_dim;
  plan->values = block;
  plan->scores = 2 * block;
  plan->queries = plan->scores + size_t{kPromptKeyBlock} * 2 * kMostLanes;
  plan->sums = plan->queries + groups;
  plan->running = plan->sums + groups;
  plan->end = plan->running + size_t{plan->n_queries} * 2;
  prepared.scratch_bytes = std::max(prepared.scratch_bytes, sizeof(float) * plan->end);
  prepared.plan = plan;
  prepared.run = HWY_DYNAMIC_DISPATCH(run_prompt_attention);
}

}  // namespace vesper
#endif
