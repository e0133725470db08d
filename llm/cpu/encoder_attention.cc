#include "llm/cpu/encoder_attention.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "error/error.h"
#include "llm/cpu/attention_rows.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/encoder_attention_amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/encoder_attention.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/encoder_rows-inl.h"

#ifndef VESPER_ATTENTION_KEY_BLOCK
#define VESPER_ATTENTION_KEY_BLOCK
namespace vesper {
namespace {
// Keys whose scores are computed before the running maximum is updated.
constexpr size_t kKeyBlock = 128;
// Query rows that go through together, on the widest vectors: two vectors of them.
constexpr size_t kMaxQueries = 32;
}  // namespace
}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

using F32 = hn::CappedTag<float, kMaxQueries / 2>;
using V = hn::Vec<F32>;

// Rows of the other operand that are multiplied with two vectors at once: as many as registers
// hold the sums of.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr size_t kUnroll = 8;
#else
constexpr size_t kUnroll = 4;
#endif

// 2^x for x <= 0, to 2e-8 of itself before rounding; the polynomial is fitted at Chebyshev nodes of
// [-1/2, 1/2].
HWY_INLINE V exp2_f32(F32 d, V x) {
  const hn::RebindToSigned<F32> di;
  x = hn::Max(x, hn::Set(d, -126.0f));
  const auto n = hn::NearestInt(x);
  const V f = hn::Sub(x, hn::ConvertTo(d, n));
  V y = hn::MulAdd(f, hn::Set(d, 0.00015469731968f), hn::Set(d, 0.00134004332160f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.00961802560300f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.05550327214207f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.24022651213594f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.69314720671062f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.99999999995955f));
  return hn::Mul(y, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127)))));
}

// sums[r][2 vectors] = or += sum over i of rows[r * row_stride + i * step] * columns[i][2 vectors],
// for kRows rows: the one product under both scores (rows are keys, columns transposed queries) and
// weighted values (rows are dimensions of the values, columns probabilities).
template <size_t kRows>
HWY_INLINE void multiply_add(F32 d, const float* HWY_RESTRICT rows, size_t row_stride, size_t step,
                             const float* HWY_RESTRICT columns, size_t n, bool accumulate,
                             float* HWY_RESTRICT sums) {
  const size_t lanes = hn::Lanes(d);
  V s[kRows][2];
  for (size_t r = 0; r < kRows; ++r) {
    s[r][0] = accumulate ? hn::LoadU(d, sums + r * 2 * lanes) : hn::Zero(d);
    s[r][1] = accumulate ? hn::LoadU(d, sums + r * 2 * lanes + lanes) : hn::Zero(d);
  }
  for (size_t i = 0; i < n; ++i) {
    const V c0 = hn::LoadU(d, columns + i * 2 * lanes);
    const V c1 = hn::LoadU(d, columns + i * 2 * lanes + lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, rows[r * row_stride + i * step]);
      s[r][0] = hn::MulAdd(x, c0, s[r][0]);
      s[r][1] = hn::MulAdd(x, c1, s[r][1]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(s[r][0], d, sums + r * 2 * lanes);
    hn::StoreU(s[r][1], d, sums + r * 2 * lanes + lanes);
  }
}

// n elements of a buffer, from its element `at` on, to f32.
void read_row(uint32_t dtype, const void* in, size_t at, size_t n, float* out) {
  switch (dtype) {
    case kDTypeF32:
      return convert_row(static_cast<const float*>(in) + at, n, out);
    case kDTypeF16:
      return convert_row(static_cast<const hwy::float16_t*>(in) + at, n, out);
    default:
      return convert_row(static_cast<const Bf16Bits*>(in) + at, n, out);
  }
}
void write_row(uint32_t dtype, const float* in, size_t n, void* out, size_t at) {
  switch (dtype) {
    case kDTypeF32:
      return convert_row(in, n, static_cast<float*>(out) + at);
    case kDTypeF16:
      return convert_row(in, n, static_cast<hwy::float16_t*>(out) + at);
    default:
      return convert_row(in, n, static_cast<Bf16Bits*>(out) + at);
  }
}

// Scores of keys that a query does not see become minus infinity: [n_keys, 2 vectors of queries],
// the first those of `key` and `row`.
HWY_NOINLINE void hide_scores(const AttentionParams& p, size_t n_rows, size_t row, size_t key,
                              size_t n_keys, size_t width, float* scores) {
  for (size_t i = 0; i < width; ++i) {
    const VisibleRows visible = visible_rows(p, n_rows, row + i);
    for (size_t j = 0; j < n_keys; ++j) {
      if (key + j < visible.begin || key + j >= visible.end) scores[j * width + i] = -HUGE_VALF;
    }
  }
}

// Below every score and above minus infinity, so that differences stay numbers where a query sees
// none of a block's keys.
constexpr float kNoScore = -1e30f;

// One block of `n_queries` <= 2 vectors query rows, the first of which is `first_query` of
// `n_rows`, against the keys that they see. k and v are [n_rows, head_dim] f32; the rows' first
// elements are q_at and out_at.
void attend_block(const AttentionParams& p, size_t n_rows, size_t first_query, const void* q,
                  size_t q_at, size_t n_queries, const float* k, const float* v, float* scratch,
                  void* out, size_t out_at) {
  const F32 d;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  const size_t dims = p.head_dim;
  float* queries = scratch;                  // [dims, width], scaled
  float* scores = queries + dims * width;    // [kKeyBlock, width]
  float* sums = scores + kKeyBlock * width;  // [dims, width]
  float row[256];

  const float factor = p.scale * 1.44269504f;  // to powers of 2
  for (size_t i = 0; i < width; ++i) {
    if (i < n_queries) read_row(p.in_dtype, q, q_at + i * p.q_row_stride, dims, row);
    for (size_t j = 0; j < dims; ++j) queries[j * width + i] = i < n_queries ? row[j] * factor : 0;
  }
  V largest[2], total[2];
  for (size_t h = 0; h < 2; ++h) {
    largest[h] = hn::Set(d, kNoScore);
    total[h] = hn::Zero(d);
  }
  const size_t first_key = visible_rows(p, n_rows, first_query).begin;
  const size_t end_key = visible_rows(p, n_rows, first_query + n_queries - 1).end;
  for (size_t key = first_key; key < end_key; key += kKeyBlock) {
    const size_t n_keys = std::min<size_t>(kKeyBlock, end_key - key);
    size_t i = 0;
    for (; i + kUnroll <= n_keys; i += kUnroll) {
      multiply_add<kUnroll>(d, k + (key + i) * dims, dims, 1, queries, dims, false,
                            scores + i * width);
    }
    for (; i < n_keys; ++i) {
      multiply_add<1>(d, k + (key + i) * dims, dims, 1, queries, dims, false, scores + i * width);
    }
    if (!sees_all_rows(p)) hide_scores(p, n_rows, first_query, key, n_keys, width, scores);
    for (size_t h = 0; h < 2; ++h) {
      float* s = scores + h * lanes;
      V m = largest[h];
      for (i = 0; i < n_keys; ++i) m = hn::Max(m, hn::LoadU(d, s + i * width));
      const V correction = exp2_f32(d, hn::Sub(largest[h], m));
      largest[h] = m;
      total[h] = hn::Mul(total[h], correction);
      for (i = 0; i < n_keys; ++i) {
        const V e = exp2_f32(d, hn::Sub(hn::LoadU(d, s + i * width), m));
        total[h] = hn::Add(total[h], e);
        hn::StoreU(e, d, s + i * width);
      }
      for (size_t j = 0; key != first_key && j < dims; ++j) {
        float* sum = sums + j * width + h * lanes;
        hn::StoreU(hn::Mul(hn::LoadU(d, sum), correction), d, sum);
      }
    }
    for (size_t j = 0; j < dims; j += kUnroll) {  // head_dim is a multiple of 8
      multiply_add<kUnroll>(d, v + key * dims + j, 1, dims, scores, n_keys, key != first_key,
                            sums + j * width);
    }
  }
  for (size_t h = 0; h < 2; ++h) {
    for (size_t j = 0; j < dims; ++j) {
      float* sum = sums + j * width + h * lanes;
      hn::StoreU(hn::Div(hn::LoadU(d, sum), total[h]), d, sum);
    }
  }
  for (size_t i = 0; i < n_queries; ++i) {
    for (size_t j = 0; j < dims; ++j) row[j] = sums[j * width + i];
    write_row(p.out_dtype, row, dims, out, out_at + i * p.out_row_stride);
  }
}

// Query rows [first_row, first_row + n_rows) of one head, in f32.
void attention_f32(const AttentionParams& p, const AttentionOperands& operands,
                   const AttentionSequence& sequence, size_t head, size_t first_row, size_t n_rows,
                   float* scratch) {
  const size_t n = sequence.n_rows * p.head_dim;
  float* keys = scratch;
  float* values = keys + n;
  for (size_t i = 0; i < sequence.n_rows; ++i) {
    const size_t at = i * p.head_dim;
    read_row(p.in_dtype, operands.k, attention_k_offset(p, sequence, head, i), p.head_dim,
             keys + at);
    read_row(p.in_dtype, operands.v, attention_v_offset(p, sequence, head, i), p.head_dim,
             values + at);
  }
  const size_t step = 2 * hn::Lanes(F32());
  for (size_t row = first_row; row < first_row + n_rows; row += step) {
    attend_block(p, sequence.n_rows, row, operands.q, attention_q_offset(p, sequence, head, row),
                 std::min(step, first_row + n_rows - row), keys, values, values + n, operands.out,
                 attention_out_offset(p, sequence, head, row));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(attention_f32);

namespace {

[[noreturn]] void contract_broken(const std::string& what) {
  throw Error(ErrorKind::kInternal, "encoder attention: " + what);
}

size_t round_up_to_group(size_t n) { return (n + kMaxQueries - 1) / kMaxQueries * kMaxQueries; }

bool on_tiles(const AttentionParams& p) { return p.in_dtype == kDTypeBF16 && cpu_features().amx; }

}  // namespace

const char* attention_variant(const AttentionParams& p) {
  return on_tiles(p) ? "AMX tiles" : "vectors";
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
  tasks.rows_per_task = (rows + kMaxQueries - 1) / kMaxQueries * kMaxQueries;
  tasks.tasks_per_head = (p.rows_per_sequence + tasks.rows_per_task - 1) / tasks.rows_per_task;
  tasks.n_tasks = static_cast<uint32_t>(heads) * tasks.tasks_per_head;
  tasks.scratch_bytes = on_tiles(p)
                            ? amx_attention_scratch_bytes(p)
                            : sizeof(float) * (2 * size_t{p.rows_per_sequence} * p.head_dim +
                                               (2 * size_t{p.head_dim} + kKeyBlock) * kMaxQueries);
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
      HWY_DYNAMIC_DISPATCH(attention_f32)
      (p, operands, sequence, head, first_row, n_rows, static_cast<float*>(scratch));
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
#endif
