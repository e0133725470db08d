#include "llm/cpu/attention/encoder_attention_vector.h"

#include <algorithm>
#include <cmath>

#include "llm/cpu/cpu_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/attention/encoder_attention_vector.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/attention/attention_block-inl.h"
#include "llm/cpu/attention/transpose_16x16-inl.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_VECTOR_ATTENTION_LAYOUT
#define VESPER_VECTOR_ATTENTION_LAYOUT
namespace vesper {
namespace {

constexpr size_t kQueries = kVectorAttentionQueries;
// Keys whose scores are computed before the running maximum is updated.
constexpr size_t kKeyBlock = 128;

bool in_bf16_pairs(const AttentionParams& p) {
  return p.in_dtype == kDTypeBF16 && cpu_features().avx512_bf16;
}

// What a thread's scratch holds, in 32-bit units from its start. A unit is one f32 or two bf16.
struct Layout {
  size_t keys, values;  // [n_rows, head_dim] where they are not read where they lie
  size_t rows;          // [kQueries, head_dim] of the queries, likewise
  size_t queries;       // transposed: [head_dim, kQueries]
  size_t scores;        // [kKeyBlock, kQueries], then the probabilities
  size_t sums;          // [head_dim, kQueries], rows up to a multiple of 16
  size_t total;

  explicit Layout(const AttentionParams& p) {
    const size_t dims = (p.head_dim + 15) / 16 * 16, n_rows = (p.rows_per_sequence + 1) / 2 * 2;
    keys = 0;
    values = keys + n_rows * dims;
    rows = values + n_rows * dims;
    queries = rows + kQueries * dims;
    scores = queries + kQueries * dims;
    sums = scores + kKeyBlock * kQueries;
    total = sums + kQueries * dims;
  }
};

}  // namespace
}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

static_assert(kLanes <= kQueries / 2);
using V = VF32;

// Rows of an operand as units: where the first lies, and how far from it the next.
struct UnitRows {
  const uint32_t* first;
  size_t stride;
};

// Rows of `in`, the first of which begins at element `at`. Read where they lie if they have the
// products' format and are whole units, not a multiple of 4 KiB apart: the lines of such rows push
// each other out of the first-level cache. Else converted or copied into `scratch`.
template <class Op>
UnitRows rows_as_units(const AttentionParams& p, const void* in, size_t at, size_t row_stride,
                       size_t n_rows, uint32_t* scratch) {
  constexpr size_t kPerUnit = Op::kPerUnit;
  const size_t n_units = p.head_dim / kPerUnit;
  const bool is_format = p.in_dtype == (kPerUnit == 1 ? kDTypeF32 : kDTypeBF16);
  const size_t element = sizeof(uint32_t) / kPerUnit;
  if (is_format && at % kPerUnit == 0 && row_stride % kPerUnit == 0 &&
      row_stride * element % 4096 != 0) {
    return {reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(in) + at * element),
            row_stride / kPerUnit};
  }
  for (size_t r = 0; r < n_rows; ++r, at += row_stride) {
    if (kPerUnit == 1) {
      read_numbers(p.in_dtype, in, at, p.head_dim, reinterpret_cast<float*>(scratch + r * n_units));
    } else {
      std::memcpy(scratch + r * n_units, static_cast<const BF16*>(in) + at,
                  n_units * sizeof(uint32_t));
    }
  }
  return {scratch, n_units};
}

// Values with those of two neighbouring keys side by side: [n_rows / 2, head_dim].
UnitRows pair_values(const AttentionParams& p, const BF16* in, size_t n_rows, uint32_t* scratch) {
  const hn::CappedTag<uint32_t, 8> d;  // head_dim is a multiple of 8
  const hn::Rebind<uint16_t, decltype(d)> d16;
  for (size_t key = 0; key < n_rows; key += 2, in += 2 * size_t{p.v_row_stride}) {
    const bool has_second = key + 1 < n_rows;
    uint32_t* out = scratch + key / 2 * p.head_dim;
    for (size_t i = 0; i < p.head_dim; i += hn::Lanes(d)) {
      const auto low = hn::PromoteTo(d, hn::LoadU(d16, &in[i].bits));
      const auto high =
          has_second ? hn::PromoteTo(d, hn::LoadU(d16, &in[p.v_row_stride + i].bits)) : hn::Zero(d);
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, out + i);
    }
  }
  return {scratch, p.head_dim};
}

// Up to 2 vectors of rows of n_units units, side by side: columns [n_units][2 vectors], zeros where
// there is no row.
void transpose_rows(UnitRows rows, size_t n_rows, size_t n_units, uint32_t* columns) {
  const size_t width = 2 * hn::Lanes(F32());
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  for (size_t half = 0; half < width; half += 16) {
    for (size_t unit = 0; unit < n_units; unit += 16) {
      const size_t n = std::min<size_t>(16, n_units - unit);
      const auto mask = static_cast<__mmask16>((1u << n) - 1);
      __m512i block[16];
      for (size_t i = 0; i < 16; ++i) {
        block[i] = half + i < n_rows ? _mm512_maskz_loadu_epi32(
                                           mask, rows.first + (half + i) * rows.stride + unit)
                                     : _mm512_setzero_si512();
      }
      transpose_16x16(block);
      for (size_t i = 0; i < n; ++i) {
        _mm512_storeu_si512(columns + (unit + i) * width + half, block[i]);
      }
    }
  }
#else
  for (size_t r = 0; r < width; ++r) {
    for (size_t i = 0; i < n_units; ++i) {
      columns[i * width + r] = r < n_rows ? rows.first[r * rows.stride + i] : 0;
    }
  }
#endif
}

// Stores the columns of the sums [head_dim][2 vectors] times `factor` as rows of the output.
template <class Out>
void store_columns(const AttentionParams& p, const float* sums, const V* factor, size_t n_rows,
                   Out* out) {
  const F32 d;
  const size_t lanes = hn::Lanes(d), dims = p.head_dim;
  for (size_t half = 0; half < 2 && half * lanes < n_rows; ++half) {
    const float* from = sums + half * lanes;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    for (size_t dim = 0; dim < dims; dim += 16) {
      __m512i block[16];
      for (size_t i = 0; i < 16; ++i) {
        block[i] = _mm512_castps_si512(
            hn::Mul(hn::LoadU(d, from + (dim + i) * 2 * lanes), factor[half]).raw);
      }
      transpose_16x16(block);
      for (size_t i = 0; i < 16 && half * 16 + i < n_rows; ++i) {
        Out* to = out + (half * 16 + i) * p.out_row_stride + dim;
        const V row{_mm512_castsi512_ps(block[i])};
        if (dim + 16 <= dims) {
          store_f32(row, to);
        } else {
          Out last[16];
          store_f32(row, last);
          std::memcpy(to, last, (dims - dim) * sizeof(Out));
        }
      }
    }
#else
    float row[256], factors[kQueries / 2];
    hn::StoreU(factor[half], d, factors);
    for (size_t i = 0; i < lanes && half * lanes + i < n_rows; ++i) {
      for (size_t j = 0; j < dims; ++j) row[j] = from[j * 2 * lanes + i] * factors[i];
      convert(row, dims, out + (half * lanes + i) * p.out_row_stride);
    }
#endif
  }
}

// Scores fall by `slope` for each row between query and key: [n_keys, 2 vectors of queries], the
// first those of `key` and `row`.
HWY_NOINLINE void lower_by_distance(float slope, size_t row, size_t key, size_t n_keys,
                                    float* scores) {
  const F32 d;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  const V slopes = hn::Set(d, -slope);
  for (size_t half = 0; half < width; half += lanes) {
    const V queries = hn::Iota(d, static_cast<float>(row + half));
    for (size_t j = 0; j < n_keys; ++j) {
      float* at = scores + j * width + half;
      const V distance = hn::Abs(hn::Sub(queries, hn::Set(d, static_cast<float>(key + j))));
      hn::StoreU(hn::MulAdd(slopes, distance, hn::LoadU(d, at)), d, at);
    }
  }
}

// Scores of keys that a query does not see become minus infinity: [n_keys, 2 vectors of queries],
// the first those of `key` and `row`.
HWY_NOINLINE void hide_unseen(const AttentionParams& p, size_t n_rows, size_t row, size_t key,
                              size_t n_keys, float* scores) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  int32_t begin[kQueries], last_key[kQueries];
  for (size_t i = 0; i < width; ++i) {
    const VisibleRows visible = visible_rows(p, n_rows, row + i);
    begin[i] = static_cast<int32_t>(visible.begin);
    last_key[i] = static_cast<int32_t>(visible.end) - 1;
  }
  const auto hidden = hn::Set(d, -HUGE_VALF);
  for (size_t half = 0; half < width; half += lanes) {
    const auto first = hn::LoadU(di, begin + half), last = hn::LoadU(di, last_key + half);
    for (size_t j = 0; j < n_keys; ++j) {
      float* at = scores + j * width + half;
      const auto number = hn::Set(di, static_cast<int32_t>(key + j));
      const auto unseen = hn::Or(hn::Lt(number, first), hn::Gt(number, last));
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, unseen), hidden, hn::LoadU(d, at)), d, at);
    }
  }
}

// Asks for a row of n units: rows of one head lie far apart, and processors do not guess the next.
HWY_INLINE void fetch_row(const uint32_t* row, size_t n) {
  for (size_t i = 0; i < n; i += 64 / sizeof(uint32_t)) __builtin_prefetch(row + i);
}

// One block of `n_queries` <= kVectors vectors query rows, the first of which is `first_query` of
// `n_rows`, against the keys that they see. Leaves the weighted sums of the values in
// [head_dim][2 vectors], to be divided by the sums of `running`. `slope`: by how much scores, not
// yet scaled, fall for each row between query and key. `is_first`: keys and values are met here for
// the first time.
template <class Op, size_t kVectors>
void attend_block(const AttentionParams& p, const Layout& layout, float slope, size_t n_rows,
                  size_t first_query, size_t n_queries, bool is_first, UnitRows queries, UnitRows k,
                  UnitRows v, uint32_t* scratch, RunningSoftmax<F32>* running) {
  constexpr size_t kKeysAhead = 32;
  const F32 d;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  const size_t dims = p.head_dim, n_units = dims / Op::kPerUnit;
  uint32_t* columns = scratch + layout.queries;
  float* scores = reinterpret_cast<float*>(scratch + layout.scores);
  const uint32_t* probabilities = scratch + layout.scores;
  float* sums = reinterpret_cast<float*>(scratch + layout.sums);
  const float factor = p.scale * kLog2E;  // to powers of 2
  transpose_rows(queries, n_queries, n_units, columns);
  for (size_t h = 0; h < kVectors; ++h) running[h] = {hn::Set(d, kNoScore), hn::Zero(d)};
  // Keys go by two where their values do.
  const size_t first_key = visible_rows(p, n_rows, first_query).begin / Op::kPerUnit * Op::kPerUnit;
  const size_t end_key = visible_rows(p, n_rows, first_query + n_queries - 1).end;
  for (size_t key = first_key; key < end_key; key += kKeyBlock) {
    const size_t n_keys = std::min<size_t>(kKeyBlock, end_key - key);
    const size_t n_key_units = (n_keys + Op::kPerUnit - 1) / Op::kPerUnit;
    const uint32_t* keys = k.first + key * k.stride;
    if (is_first && key == first_key) {
      for (size_t j = 0; j < std::min(kKeysAhead, n_keys); ++j) {
        fetch_row(keys + j * k.stride, n_units);
      }
    }
    size_t i = 0;
    for (; i + kBlockUnroll <= n_keys; i += kBlockUnroll) {
      if (is_first) {
        const size_t ahead = key + i + kKeysAhead;
        for (size_t j = ahead; j < std::min(ahead + kBlockUnroll, end_key); ++j) {
          fetch_row(k.first + j * k.stride, n_units);
        }
        for (size_t j = i; j < i + kBlockUnroll; j += Op::kPerUnit) {
          fetch_row(v.first + (key + j) / Op::kPerUnit * v.stride, dims);
        }
      }
      multiply_add<Op, kBlockUnroll, kVectors>(d, keys + i * k.stride, k.stride, 1, columns,
                                               n_units, nullptr, scores + i * width);
    }
    for (; i < n_keys; ++i) {
      multiply_add<Op, 1, kVectors>(d, keys + i * k.stride, k.stride, 1, columns, n_units, nullptr,
                                    scores + i * width);
    }
    if (slope != 0) lower_by_distance(slope, first_query, key, n_keys, scores);
    if (!sees_all_rows(p)) hide_unseen(p, n_rows, first_query, key, n_keys, scores);
    V corrections[kVectors];
    for (size_t h = 0; h < kVectors; ++h) {
      corrections[h] =
          to_probabilities<Op, false>(d, scores + h * lanes, n_keys, factor, running[h]);
    }
    const uint32_t* values = v.first + key / Op::kPerUnit * v.stride;
    for (size_t j = 0; j < dims; j += kBlockUnroll) {  // head_dim is a multiple of 8
      multiply_add<Op, kBlockUnroll, kVectors>(
          d, values + j, 1, v.stride, probabilities, n_key_units,
          key != first_key ? corrections : nullptr, sums + j * width);
    }
  }
}

template <class Op>
void attend(const AttentionParams& p, const AttentionOperands& operands,
            const AttentionSequence& sequence, size_t head, size_t first_row, size_t n_rows,
            uint32_t* scratch) {
  const F32 d;
  const Layout layout(p);
  const UnitRows keys = rows_as_units<Op>(p, operands.k, attention_k_offset(p, sequence, head, 0),
                                          p.k_row_stride, sequence.n_rows, scratch + layout.keys);
  const size_t v_at = attention_v_offset(p, sequence, head, 0);
  const UnitRows values = Op::kPerUnit == 1
                              ? rows_as_units<Op>(p, operands.v, v_at, p.v_row_stride,
                                                  sequence.n_rows, scratch + layout.values)
                              : pair_values(p, static_cast<const BF16*>(operands.v) + v_at,
                                            sequence.n_rows, scratch + layout.values);
  const float slope = p.alibi != 0 ? alibi_slope(p, head) / p.scale : 0.0f;
  const size_t step = 2 * hn::Lanes(d);
  for (size_t row = first_row; row < first_row + n_rows; row += step) {
    const size_t n = std::min(step, first_row + n_rows - row);
    const UnitRows queries =
        rows_as_units<Op>(p, operands.q, attention_q_offset(p, sequence, head, row), p.q_row_stride,
                          n, scratch + layout.rows);
    // The last rows may need one vector only.
    const size_t n_vectors = n <= hn::Lanes(d) ? 1 : 2;
    const bool is_first = row == first_row;
    RunningSoftmax<F32> running[2];
    if (n_vectors == 1) {
      attend_block<Op, 1>(p, layout, slope, sequence.n_rows, row, n, is_first, queries, keys,
                          values, scratch, running);
    } else {
      attend_block<Op, 2>(p, layout, slope, sequence.n_rows, row, n, is_first, queries, keys,
                          values, scratch, running);
    }
    V factor[2] = {hn::Zero(d), hn::Zero(d)};
    for (size_t h = 0; h < n_vectors; ++h) factor[h] = hn::Div(hn::Set(d, 1.0f), running[h].sum);
    const float* sums = reinterpret_cast<const float*>(scratch + layout.sums);
    const size_t at = attention_out_offset(p, sequence, head, row);
    switch (p.out_dtype) {
      case kDTypeF32:
        store_columns(p, sums, factor, n, static_cast<float*>(operands.out) + at);
        break;
      case kDTypeF16:
        store_columns(p, sums, factor, n, static_cast<F16*>(operands.out) + at);
        break;
      default:
        store_columns(p, sums, factor, n, static_cast<BF16*>(operands.out) + at);
    }
  }
}

void attention(const AttentionParams& p, const AttentionOperands& operands,
               const AttentionSequence& sequence, size_t head, size_t first_row, size_t n_rows,
               uint32_t* scratch) {
  if (in_bf16_pairs(p)) {
    attend<MultiplyBf16Pair>(p, operands, sequence, head, first_row, n_rows, scratch);
  } else {
    attend<MultiplyF32>(p, operands, sequence, head, first_row, n_rows, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(attention);

const char* vector_attention_variant(const AttentionParams& p) {
  return in_bf16_pairs(p) ? "AVX512-BF16" : "vectors";
}

size_t vector_attention_scratch_bytes(const AttentionParams& p) {
  return Layout(p).total * sizeof(uint32_t);
}

void vector_attention(const AttentionParams& p, const AttentionOperands& operands,
                      const AttentionSequence& sequence, size_t head, size_t first_row,
                      size_t n_rows, void* scratch) {
  HWY_DYNAMIC_DISPATCH(attention)
  (p, operands, sequence, head, first_row, n_rows, static_cast<uint32_t*>(scratch));
}

}  // namespace vesper
#endif
