// Scores of queries against the keys of pages, and their softmax: the first part of paged_attention
// and attention_weights. Compiled once per instruction set (Highway's foreach_target), so there is
// no plain include guard.
#if defined(VESPER_LLM_CPU_PAGED_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_PAGED_SCORES_INL_H_
#undef VESPER_LLM_CPU_PAGED_SCORES_INL_H_
#else
#define VESPER_LLM_CPU_PAGED_SCORES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "llm/cpu/attention/attention_rows.h"
#include "llm/cpu/attention/quantized_groups-inl.h"
#include "llm/cpu/kv_rows-inl.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// The sums of kLanes vectors, in one vector: pairs are added until one lane of each is left.
HWY_INLINE VF32 sum_each(const float* vectors) {
  const F32 d;
  VF32 level[kLanes];
  HWY_UNROLL(16)
  for (uint32_t i = 0; i < kLanes; ++i) level[i] = hn::LoadU(d, vectors + i * kLanes);
#if HWY_TARGET != HWY_SCALAR
  HWY_UNROLL(4)
  for (uint32_t n = kLanes / 2; n > 0; n /= 2) {
    HWY_UNROLL(8)
    for (uint32_t i = 0; i < n; ++i) {
      level[i] = hn::Add(hn::ConcatEven(d, level[2 * i + 1], level[2 * i]),
                         hn::ConcatOdd(d, level[2 * i + 1], level[2 * i]));
    }
  }
#endif
  return level[0];
}

// A page is [n_kv_heads, page_rows, head_dim].
struct PageShape {
  uint32_t n_kv_heads, page_rows, head_dim;
};

// A row of a page: see KvRows::row.
struct PageRow {
  size_t head;
  uint32_t index;
};

// Prefetches rows for later: hardware prefetching stops after 4 KiB, which a page of one head may
// exceed. Only to the second-level cache; the first has the queries.
class RowPrefetch {
 public:
  // Null pages: prefetches nothing.
  RowPrefetch(const PageShape& shape, const std::byte* pages, uint32_t dtype)
      : pages_(pages),
        row_bytes_(pages != nullptr ? kv_row_bytes(dtype, shape.head_dim) : 0),
        head_bytes_(kv_head_bytes(dtype, shape.page_rows, shape.head_dim)) {}
  // n successive rows.
  HWY_INLINE void operator()(const PageRow& row, uint32_t n = 1) const {
    const std::byte* const from = pages_ + row.head * head_bytes_ + row.index * row_bytes_;
    for (size_t i = 0; i < n * row_bytes_; i += 64) __builtin_prefetch(from + i, 0, 2);
  }

 private:
  const std::byte* pages_;
  size_t row_bytes_, head_bytes_;
};

// Queries that are processed together, and their positions.
struct Queries {
  uint32_t n = 0;                        // at most kQueriesAtOnce
  uint32_t begin[kQueriesAtOnce] = {};   // first position of each
  uint32_t length[kQueriesAtOnce] = {};  // end of its positions
  uint32_t earliest = 0, longest = 0;    // of all

  void add(uint32_t first, uint32_t end, uint32_t of_head, size_t out, float* part = nullptr) {
    begin[n] = first;
    head[n] = of_head;
    parts[n] = part;
    length[n] = end;
    out_start[n] = out;
    earliest = n == 0 ? first : std::min(earliest, first);
    longest = std::max(longest, end);
    ++n;
  }
  void clear() { n = longest = 0; }
  // First stored score: a multiple of any number of lanes.
  uint32_t first_score() const { return earliest / 16 * 16; }
  size_t out_start[kQueriesAtOnce] = {};
  float* parts[kQueriesAtOnce] = {};  // results of a chunk; null: final result
  const int32_t* pages = nullptr;     // of the sequence
  uint32_t last_page = 0;             // index of the last page
  uint32_t to_next_chunk = 0;         // pages to the next chunk of this task; 0: none
  uint32_t head[kQueriesAtOnce] = {};
};

// Calls body(position, its row, the row `pages_ahead` pages later or in the last page) for
// positions in [first, end).
template <class Body>
HWY_INLINE void for_positions(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                              uint32_t first, uint32_t end, uint32_t pages_ahead,
                              const Body& body) {
  uint32_t page = first / shape.page_rows, row = first % shape.page_rows;
  const auto head_of = [&](uint32_t index) {
    return static_cast<size_t>(queries.pages[index]) * shape.n_kv_heads + kv_head;
  };
  for (uint32_t position = first; position < end;) {
    const uint32_t stop = std::min(end, position + shape.page_rows - row);
    const size_t head = head_of(page);
    const size_t ahead = head_of(std::min(page + pages_ahead, queries.last_page));
    for (; position < stop; ++position, ++row) {
      body(position, PageRow{head, row}, PageRow{ahead, row});
    }
    ++page;
    row = 0;
  }
}

// kVectors: vectors of a head, if the queries stay in registers; 0: any number, loaded again for
// every key.
template <uint32_t kQueries, uint32_t kVectors, class KV>
HWY_NOINLINE void score_heads(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                              const KvRows<KV>& keys, const RowPrefetch& values, const float* q,
                              float* partial, uint32_t max_length, float* scores) {
  const F32 d;
  const uint32_t head_dim = kVectors > 0 ? kVectors * kLanes : shape.head_dim;
  const uint32_t whole = head_dim / kLanes * kLanes;
  VF32 held[kQueries][std::max(kVectors, 1u)];
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) {
    HWY_UNROLL(8)
    for (uint32_t v = 0; v < kVectors; ++v) {
      held[j][v] = hn::LoadU(d, q + j * head_dim + v * kLanes);
    }
  }
  for (uint32_t first = queries.first_score(); first < queries.longest; first += kLanes) {
    const uint32_t end = std::min(first + kLanes, queries.longest);
    const auto score = [&](uint32_t position, const PageRow& at, const PageRow&) HWY_ATTR
        __attribute__((always_inline)) {
      const auto key = keys.row(at.head, at.index);
      values(at);
      VF32 sum[kQueries];
      HWY_UNROLL(8)
      for (uint32_t j = 0; j < kQueries; ++j) sum[j] = hn::Zero(d);
      HWY_UNROLL(8)
      for (uint32_t v = 0; v < kVectors; ++v) {
        const VF32 k = load_f32(key + v * kLanes);
        HWY_UNROLL(8)
        for (uint32_t j = 0; j < kQueries; ++j) sum[j] = hn::MulAdd(held[j][v], k, sum[j]);
      }
      for (uint32_t i = kVectors * kLanes; i < whole; i += kLanes) {
        const VF32 k = load_f32(key + i);
        HWY_UNROLL(8)
        for (uint32_t j = 0; j < kQueries; ++j) {
          sum[j] = hn::MulAdd(hn::LoadU(d, q + j * head_dim + i), k, sum[j]);
        }
      }
      HWY_UNROLL(8)
      for (uint32_t j = 0; j < kQueries; ++j) {
        float* to = partial + (j * kLanes + position - first) * kLanes;
        hn::StoreU(sum[j], d, to);
        for (uint32_t i = whole; i < head_dim; ++i) to[0] += q[j * head_dim + i] * to_f32(key[i]);
      }
    };
    for_positions(shape, queries, kv_head, std::max(first, queries.earliest), end, 0, score);
    for (uint32_t j = 0; j < kQueries; ++j) {
      // Lanes outside the positions have old sums; softmax ignores them.
      hn::StoreU(sum_each(partial + j * kLanes * kLanes), d, scores + j * max_length + first);
    }
  }
}

// The same for int8 keys, whose groups of kLanes positions are each in one page.
template <uint32_t kQueries>
HWY_NOINLINE void score_heads_of_codes(const PageShape& shape, const Queries& queries,
                                       uint32_t kv_head, const KvRows<Q8Row>& keys,
                                       const RowPrefetch& values, const float* q,
                                       uint32_t max_length, float* scores) {
  QueryCodes codes[kQueries];
  for (uint32_t j = 0; j < kQueries; ++j) {
    encode_query(q + j * shape.head_dim, shape.head_dim, codes[j]);
  }
  for (uint32_t first = queries.first_score(); first < queries.longest; first += kLanes) {
    const PageRow at{
        static_cast<size_t>(queries.pages[first / shape.page_rows]) * shape.n_kv_heads + kv_head,
        first % shape.page_rows};
    const uint32_t n = std::min(kLanes, queries.longest - first);
    values(at, n);
    float* of_queries[kQueries];
    for (uint32_t j = 0; j < kQueries; ++j) of_queries[j] = scores + j * max_length + first;
    score_codes<kQueries>(codes, keys.row(at.head, at.index), n, shape.head_dim, of_queries);
  }
}

// Whether rows of this head are processed in groups of kLanes, each in one page.
inline bool has_groups_of_codes(const PageShape& shape, const Queries& queries) {
  return shape.head_dim <= kMostCodeDims &&
         (shape.page_rows % kLanes == 0 || queries.last_page == 0);
}

template <uint32_t kQueries, class KV>
HWY_INLINE void score_keys(const PageShape& shape, const Queries& queries, uint32_t kv_head,
                           const KvRows<KV>& keys, const RowPrefetch& values, const float* q,
                           float* partial, uint32_t max_length, float* scores) {
  if constexpr (kScoresCodes && std::is_same_v<KV, Q8Row>) {
    if (has_groups_of_codes(shape, queries)) {
      return score_heads_of_codes<kQueries>(shape, queries, kv_head, keys, values, q, max_length,
                                            scores);
    }
  }
  // Whisper's heads of 64, on 32 registers of 16 lanes.
  constexpr uint32_t kVectors = 4;
  if constexpr (HWY_TARGET <= HWY_AVX3 && kQueries * kVectors <= 20) {
    if (shape.head_dim == kVectors * kLanes) {
      return score_heads<kQueries, kVectors>(shape, queries, kv_head, keys, values, q, partial,
                                             max_length, scores);
    }
  }
  score_heads<kQueries, 0>(shape, queries, kv_head, keys, values, q, partial, max_length, scores);
}

// Replaces the scores of query j by exp(score - largest), with zeros at other positions; returns
// the largest score and the sum.
struct ScoreSum {
  float largest, sum;
};
HWY_NOINLINE ScoreSum exponentials(float* scores_of_query, const Queries& queries, uint32_t j,
                                   float soft_cap) {
  const F32 d;
  const uint32_t from = queries.first_score();
  float* const scores = scores_of_query + from;
  const uint32_t padded = (queries.longest - from + kLanes - 1) / kLanes * kLanes;
  if (soft_cap > 0) {
    const VF32 cap = hn::Set(d, soft_cap), inverse = hn::Set(d, 1 / soft_cap);
    for (uint32_t i = 0; i < padded; i += kLanes) {
      const VF32 capped = hn::Tanh(d, hn::Mul(hn::LoadU(d, scores + i), inverse));
      hn::StoreU(hn::Mul(cap, capped), d, scores + i);
    }
  }
  std::fill(scores, scores + queries.begin[j] - from, -INFINITY);
  std::fill(scores + queries.length[j] - from, scores + padded, -INFINITY);
  VF32 most = hn::Set(d, -INFINITY);
  for (uint32_t i = 0; i < padded; i += kLanes) most = hn::Max(most, hn::LoadU(d, scores + i));
  const VF32 largest = hn::MaxOfLanes(d, most);
  VF32 sum = hn::Zero(d);
  // exp below -100 would be subnormal; it counts as 0.
  const VF32 least = hn::Set(d, -100.0f);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    const VF32 off = hn::Sub(hn::LoadU(d, scores + i), largest);
    const VF32 e = hn::IfThenElseZero(hn::Ge(off, least), hn::Exp(d, hn::Max(off, least)));
    hn::StoreU(e, d, scores + i);
    sum = hn::Add(sum, e);
  }
  return {hn::GetLane(largest), hn::GetLane(hn::SumOfLanes(d, sum))};
}

// Calls body with the number of queries as a constant.
template <class Body>
HWY_INLINE void with_count(uint32_t n, const Body& body) {
  static_assert(kQueriesAtOnce == 5);
  if (n == 1) body(std::integral_constant<uint32_t, 1>());
  if (n == 2) body(std::integral_constant<uint32_t, 2>());
  if (n == 3) body(std::integral_constant<uint32_t, 3>());
  if (n == 4) body(std::integral_constant<uint32_t, 4>());
  if (n == 5) body(std::integral_constant<uint32_t, 5>());
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif
