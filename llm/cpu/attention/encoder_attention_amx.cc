#include "llm/cpu/attention/encoder_attention_amx.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/cpu/attention/attention_rows.h"

// AMX comes with AVX-512, so of all instruction sets only that one is compiled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/attention/encoder_attention_amx.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/attention/amx_tiles-inl.h"
#include "llm/cpu/attention/transpose_16x16-inl.h"
#include "llm/cpu/numbers-inl.h"

namespace vesper {
namespace {

#ifndef VESPER_AMX_ATTENTION_LAYOUT
#define VESPER_AMX_ATTENTION_LAYOUT
// Keys whose scores are computed before the running maximum is updated.
constexpr size_t kKeyBlock = 256;
constexpr size_t kQueries = 32;  // query rows that go through together
constexpr size_t kStepBytes = 2048;

size_t groups_of_32(size_t n) { return (n + 31) / 32; }

// What a thread's scratch holds, in bytes from its start.
struct Layout {
  size_t n_key_steps, n_dim_steps;  // of 32
  size_t keys, values, queries, scores, probabilities, sums, total;

  Layout(const AttentionParams& p, size_t n_rows)
      : n_key_steps(groups_of_32(n_rows)), n_dim_steps(groups_of_32(p.head_dim)) {
    keys = 0;                                                       // [key step][dim step]
    values = keys + n_key_steps * n_dim_steps * kStepBytes;         // [dim step][key step]
    queries = values + n_key_steps * n_dim_steps * kStepBytes;      // [dim step]
    scores = queries + n_dim_steps * kStepBytes;                    // f32 [kKeyBlock, kQueries]
    probabilities = scores + kKeyBlock * kQueries * sizeof(float);  // [key step of the block]
    sums = probabilities + kKeyBlock / 32 * kStepBytes;             // f32 [32 dim steps, kQueries]
    total = sums + n_dim_steps * 32 * kQueries * sizeof(float);
  }
};
#endif

}  // namespace
}  // namespace vesper

#if VESPER_AMX_TARGET && !defined(VESPER_AMX_ATTENTION_COMPILED)
#define VESPER_AMX_ATTENTION_COMPILED

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// The first n of up to 32 bf16, then zeros; none if n <= 0.
HWY_INLINE __m512i load_32(const BF16* from, ptrdiff_t n) {
  if (n >= 32) return _mm512_loadu_si512(from);
  if (n <= 0) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16((__mmask32{1} << n) - 1, from);
}

// Keys as tiles of 16 keys by 32 dimensions.
void pack_keys(const AttentionParams& p, const Layout& layout, const BF16* k, size_t n_rows,
               uint8_t* tiles) {
  for (size_t key = 0; key < layout.n_key_steps * 32; ++key) {
    uint8_t* to = tiles + key / 32 * layout.n_dim_steps * kStepBytes +
                  key % 32 / kTileRows * kTileBytes + key % kTileRows * kTileRowBytes;
    const bool present = key < n_rows;
    for (size_t step = 0; step < layout.n_dim_steps; ++step, to += kStepBytes) {
      const ptrdiff_t left = static_cast<ptrdiff_t>(p.head_dim) - static_cast<ptrdiff_t>(step * 32);
      _mm512_store_si512(to, load_32(k + key * p.k_row_stride + step * 32, present ? left : 0));
    }
  }
}

// Values transposed, as tiles of 16 dimensions by 32 keys.
void pack_values(const AttentionParams& p, const Layout& layout, const BF16* v, size_t n_rows,
                 uint8_t* tiles) {
  for (size_t key_step = 0; key_step < layout.n_key_steps; ++key_step) {
    for (size_t dim = 0; dim < layout.n_dim_steps * 32; dim += 16) {
      const ptrdiff_t left =
          std::min<ptrdiff_t>(16, static_cast<ptrdiff_t>(p.head_dim) - static_cast<ptrdiff_t>(dim));
      __m512i rows[16];
      for (size_t pair = 0; pair < 16; ++pair) {  // of keys, side by side in 32 bits
        __m512i halves[2];
        for (size_t i = 0; i < 2; ++i) {
          const size_t key = key_step * 32 + pair * 2 + i;
          const bool present = key < n_rows;
          halves[i] = _mm512_cvtepu16_epi32(
              _mm512_castsi512_si256(load_32(v + key * p.v_row_stride + dim, present ? left : 0)));
        }
        rows[pair] = _mm512_or_si512(halves[0], _mm512_slli_epi32(halves[1], 16));
      }
      transpose_16x16(rows);
      uint8_t* to = tiles + (dim / 32 * layout.n_key_steps + key_step) * kStepBytes +
                    dim % 32 / 16 * kTileBytes;
      for (size_t i = 0; i < 16; ++i) _mm512_store_si512(to + i * kTileRowBytes, rows[i]);
    }
  }
}

// Up to 32 queries transposed, as tiles of 32 dimensions (two side by side) by 16 queries.
void pack_queries(const AttentionParams& p, const Layout& layout, const BF16* q, size_t n,
                  uint8_t* tiles) {
  for (size_t step = 0; step < layout.n_dim_steps; ++step) {
    const ptrdiff_t left = static_cast<ptrdiff_t>(p.head_dim) - static_cast<ptrdiff_t>(step * 32);
    for (size_t half = 0; half < 2; ++half) {
      __m512i rows[16];
      for (size_t i = 0; i < 16; ++i) {
        const size_t row = half * 16 + i;
        rows[i] = load_32(q + row * p.q_row_stride + step * 32, row < n ? left : 0);
      }
      transpose_16x16(rows);
      uint8_t* to = tiles + step * kStepBytes + half * kTileBytes;
      for (size_t i = 0; i < 16; ++i) _mm512_store_si512(to + i * kTileRowBytes, rows[i]);
    }
  }
}

// 2^x for x <= 0, to 1e-4 of itself: the result is rounded to bf16, that is to 4e-3. The polynomial
// is fitted at Chebyshev nodes of [0, 1).
HWY_INLINE __m512 exp2_for_bf16(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, 0x9);  // x - floor(x)
  __m512 y = _mm512_fmadd_ps(f, _mm512_set1_ps(0.0790857002f), _mm512_set1_ps(0.224516343f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.696390534f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.999896661f));
  return _mm512_scalef_ps(y, x);
}

// Below every score and above minus infinity, so that differences stay numbers where a query sees
// none of a block's keys.
constexpr float kNoScore = -1e30f;

// What the online softmax carries for 16 queries from key block to key block.
struct Running {
  __m512 largest;  // score so far, unscaled; kNoScore at first
  __m512 sum;      // of 2^(factor * (score - largest)); 0 at first
};

// Turns the scores [n_keys, kQueries] of 16 queries into probabilities, relative to the largest
// score so far, as tiles; rows up to the next multiple of 32 become zeros. Returns what earlier
// sums are to be multiplied with.
VESPER_AMX HWY_INLINE __m512 soften(const float* scores, size_t n_keys, float factor,
                                    Running& running, uint8_t* tiles) {
  __m512 m[4] = {running.largest, running.largest, running.largest, running.largest};
  size_t key = 0;
  for (; key + 4 <= n_keys; key += 4) {
    for (size_t i = 0; i < 4; ++i) {
      m[i] = _mm512_max_ps(m[i], _mm512_load_ps(scores + (key + i) * kQueries));
    }
  }
  for (; key < n_keys; ++key) m[0] = _mm512_max_ps(m[0], _mm512_load_ps(scores + key * kQueries));
  const __m512 largest = _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3]));
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512 shift = _mm512_mul_ps(largest, factors);
  const __m512 correction =
      exp2_for_bf16(_mm512_mul_ps(_mm512_sub_ps(running.largest, largest), factors));

  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  __m512 sums[2] = {_mm512_mul_ps(running.sum, correction), _mm512_setzero_ps()};
  const size_t n_padded = (n_keys + 31) / 32 * 32;
  for (key = 0; key < n_padded; key += 2) {
    __m512 p[2];
    for (size_t i = 0; i < 2; ++i) {
      p[i] = _mm512_setzero_ps();
      if (key + i < n_keys) {
        p[i] = exp2_for_bf16(
            _mm512_fmsub_ps(_mm512_load_ps(scores + (key + i) * kQueries), factors, shift));
        sums[i] = _mm512_add_ps(sums[i], p[i]);
      }
    }
    const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(p[1], p[0]));
    _mm512_store_si512(tiles + key / 32 * kStepBytes + key % 32 / 2 * kTileRowBytes,
                       _mm512_permutexvar_epi16(interleave, both));
  }
  running.largest = largest;
  running.sum = _mm512_add_ps(sums[0], sums[1]);
  return correction;
}

// Scores [n_keys, kQueries] of keys from `key` on that a query from `row` on does not see become
// minus infinity.
VESPER_AMX void hide_scores(const AttentionParams& p, size_t n_rows, size_t row, size_t key,
                            size_t n_keys, float* scores) {
  alignas(64) int32_t begin[kQueries], end[kQueries];
  for (size_t i = 0; i < kQueries; ++i) {
    const VisibleRows visible = visible_rows(p, n_rows, row + i);
    begin[i] = static_cast<int32_t>(visible.begin);
    end[i] = static_cast<int32_t>(visible.end);
  }
  const __m512 hidden = _mm512_set1_ps(-HUGE_VALF);
  for (size_t half = 0; half < kQueries; half += 16) {
    const __m512i first = _mm512_load_si512(begin + half), last = _mm512_load_si512(end + half);
    for (size_t j = 0; j < n_keys; ++j) {
      float* at = scores + j * kQueries + half;
      const __m512i number = _mm512_set1_epi32(static_cast<int32_t>(key + j));
      const __mmask16 seen =
          _mm512_cmpge_epi32_mask(number, first) & _mm512_cmplt_epi32_mask(number, last);
      _mm512_store_ps(at, _mm512_mask_blend_ps(seen, hidden, _mm512_load_ps(at)));
    }
  }
}

// Divides the sums [dims, kQueries] by each query's own and stores them as rows of `out`.
template <class Out>
void store_rows(const AttentionParams& p, const float* sums, const Running* running, size_t n,
                Out* out) {
  for (size_t half = 0; half < 2; ++half) {
    const __m512 inverse = _mm512_div_ps(_mm512_set1_ps(1.0f), running[half].sum);
    for (size_t dim = 0; dim < p.head_dim; dim += 16) {
      __m512i rows[16];
      for (size_t i = 0; i < 16; ++i) {
        rows[i] = _mm512_castps_si512(
            _mm512_mul_ps(_mm512_load_ps(sums + (dim + i) * kQueries + half * 16), inverse));
      }
      transpose_16x16(rows);
      for (size_t i = 0; i < 16 && half * 16 + i < n; ++i) {
        Out* to = out + (half * 16 + i) * p.out_row_stride + dim;
        const VF32 v{_mm512_castsi512_ps(rows[i])};
        if (dim + 16 <= p.head_dim) {
          store_f32(v, to);
        } else {
          Out last[16];
          store_f32(v, last);
          std::memcpy(to, last, (p.head_dim - dim) * sizeof(Out));
        }
      }
    }
  }
}

VESPER_AMX void attend(const AttentionParams& p, const AttentionOperands& operands,
                       const AttentionSequence& sequence, size_t head, size_t first_row,
                       size_t n_rows, uint8_t* scratch) {
  const Layout layout(p, sequence.n_rows);
  pack_keys(p, layout,
            static_cast<const BF16*>(operands.k) + attention_k_offset(p, sequence, head, 0),
            sequence.n_rows, scratch + layout.keys);
  pack_values(p, layout,
              static_cast<const BF16*>(operands.v) + attention_v_offset(p, sequence, head, 0),
              sequence.n_rows, scratch + layout.values);
  float* scores = reinterpret_cast<float*>(scratch + layout.scores);
  uint8_t* probabilities = scratch + layout.probabilities;
  float* sums = reinterpret_cast<float*>(scratch + layout.sums);
  const float factor = p.scale * 1.44269504f;  // to powers of 2
  const TileConfig config;
  _tile_loadconfig(&config);
  for (size_t row = first_row; row < first_row + n_rows; row += kQueries) {
    const size_t n = std::min<size_t>(kQueries, first_row + n_rows - row);
    pack_queries(p, layout,
                 static_cast<const BF16*>(operands.q) + attention_q_offset(p, sequence, head, row),
                 n, scratch + layout.queries);
    Running running[2];
    for (Running& r : running) {
      r.largest = _mm512_set1_ps(kNoScore);
      r.sum = _mm512_setzero_ps();
    }
    // Tiles of keys begin at multiples of 32.
    const size_t first_key = visible_rows(p, sequence.n_rows, row).begin / 32 * 32;
    const size_t end_key = visible_rows(p, sequence.n_rows, row + n - 1).end;
    for (size_t key = first_key; key < end_key; key += kKeyBlock) {
      const size_t n_keys = std::min<size_t>(kKeyBlock, end_key - key);
      const size_t n_steps = groups_of_32(n_keys);
      for (size_t step = 0; step < n_steps; ++step) {
        multiply_tiles<false>(
            scratch + layout.keys + (key / 32 + step) * layout.n_dim_steps * kStepBytes,
            scratch + layout.queries, layout.n_dim_steps, scores + step * 32 * kQueries);
      }
      if (!sees_all_rows(p)) hide_scores(p, sequence.n_rows, row, key, n_keys, scores);
      __m512 correction[2];
      for (size_t half = 0; half < 2; ++half) {
        correction[half] = soften(scores + half * 16, n_keys, factor, running[half],
                                  probabilities + half * kTileBytes);
      }
      for (size_t i = 0; key != first_key && i < layout.n_dim_steps * 32 * kQueries; i += 32) {
        _mm512_store_ps(sums + i, _mm512_mul_ps(_mm512_load_ps(sums + i), correction[0]));
        _mm512_store_ps(sums + i + 16, _mm512_mul_ps(_mm512_load_ps(sums + i + 16), correction[1]));
      }
      for (size_t step = 0; step < layout.n_dim_steps; ++step) {
        const uint8_t* values =
            scratch + layout.values + (step * layout.n_key_steps + key / 32) * kStepBytes;
        float* to = sums + step * 32 * kQueries;
        if (key == first_key) {
          multiply_tiles<false>(values, probabilities, n_steps, to);
        } else {
          multiply_tiles<true>(values, probabilities, n_steps, to);
        }
      }
    }
    const size_t at = attention_out_offset(p, sequence, head, row);
    switch (p.out_dtype) {
      case kDTypeF32:
        store_rows(p, sums, running, n, static_cast<float*>(operands.out) + at);
        break;
      case kDTypeF16:
        store_rows(p, sums, running, n, static_cast<F16*>(operands.out) + at);
        break;
      default:
        store_rows(p, sums, running, n, static_cast<BF16*>(operands.out) + at);
    }
  }
  _tile_release();
}

}  // namespace HWY_NAMESPACE

void amx_attention(const AttentionParams& params, const AttentionOperands& operands,
                   const AttentionSequence& sequence, size_t head, size_t first_row, size_t n_rows,
                   void* scratch) {
  HWY_NAMESPACE::attend(params, operands, sequence, head, first_row, n_rows,
                        static_cast<uint8_t*>(scratch));
}

}  // namespace vesper
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace vesper {

size_t amx_attention_scratch_bytes(const AttentionParams& params) {
  return Layout(params, params.rows_per_sequence).total;
}

#ifndef VESPER_AMX_ATTENTION_COMPILED
void amx_attention(const AttentionParams&, const AttentionOperands&, const AttentionSequence&,
                   size_t, size_t, size_t, void*) {
  throw Error(ErrorKind::kInternal, "AMX attention called in a build without AMX");
}
#endif

}  // namespace vesper
#endif
