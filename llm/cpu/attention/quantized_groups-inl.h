// Attention over quantized rows, kLanes consecutive rows of a page at a time: scores of queries
// against int8 keys in integers, and sums of values with weights that include the scales. Compiled
// once per instruction set (Highway's foreach_target), so there is no plain include guard.
#if defined(VESPER_LLM_CPU_QUANTIZED_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_QUANTIZED_GROUPS_INL_H_
#undef VESPER_LLM_CPU_QUANTIZED_GROUPS_INL_H_
#else
#define VESPER_LLM_CPU_QUANTIZED_GROUPS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "llm/cpu/attention/transpose-inl.h"
#include "llm/cpu/kv_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Products of neighbouring int16 are added in place only on x86.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
inline constexpr bool kScoresCodes = true;
#else
inline constexpr bool kScoresCodes = false;
#endif

inline constexpr uint32_t kMostCodeDims = 256;  // of a head

// A query in int16: 15 bits, so its error is far below that of the keys.
struct QueryCodes {
  // Elements 4 i and 4 i + 2 of a query, then 4 i + 1 and 4 i + 3, low half first.
  int32_t pairs[kMostCodeDims / 2];
  float scale;
};

inline HWY_NOINLINE void encode_query(const float* query, uint32_t head_dim, QueryCodes& codes) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  VF32 largest = hn::Zero(d);
  for (uint32_t i = 0; i < head_dim; i += kLanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(d, query + i)));
  }
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  const VF32 inverse = hn::Set(d, most == 0 ? 0 : 32767.0f / most);
  int32_t code[kMostCodeDims];
  for (uint32_t i = 0; i < head_dim; i += kLanes) {
    hn::StoreU(hn::NearestInt(hn::Mul(hn::LoadU(d, query + i), inverse)), di, code + i);
  }
  const auto pair = [&](uint32_t i) {
    return static_cast<int32_t>((static_cast<uint32_t>(code[i]) & 0xffff) |
                                static_cast<uint32_t>(code[i + 2]) << 16);
  };
  for (uint32_t i = 0; i < head_dim; i += 4) {
    codes.pairs[i / 2] = pair(i);
    codes.pairs[i / 2 + 1] = pair(i + 1);
  }
  codes.scale = most / 32767.0f;
}

// out [n_blocks][kLanes] = the scales of n <= kLanes rows, a row per lane; the other lanes are 0.
HWY_INLINE void load_scales(const uint16_t* scales, uint32_t n, uint32_t n_blocks, float* out) {
  const F32 d;
  alignas(64) float by_row[kMostCodeDims / kQ4Block * kLanes];
  if (n < kLanes) std::fill_n(by_row, n_blocks * kLanes, 0.0f);
  convert(reinterpret_cast<const F16*>(scales), n * n_blocks, by_row);
#if HWY_TARGET != HWY_SCALAR
  // Heads of 64 and 128; scalar stores would delay the loads of vectors.
  const auto separate = [&](const float* from, float* even, float* odd) HWY_ATTR {
    const VF32 low = hn::Load(d, from), high = hn::Load(d, from + kLanes);
    hn::Store(hn::ConcatEven(d, high, low), d, even);
    hn::Store(hn::ConcatOdd(d, high, low), d, odd);
  };
  if (n_blocks == 2) return separate(by_row, out, out + kLanes);
  if (n_blocks == 4) {
    alignas(64) float even[2 * kLanes], odd[2 * kLanes];
    separate(by_row, even, odd);
    separate(by_row + 2 * kLanes, even + kLanes, odd + kLanes);
    separate(even, out, out + 2 * kLanes);
    separate(odd, out + kLanes, out + 3 * kLanes);
    return;
  }
#endif
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t block = 0; block < n_blocks; ++block) {
      out[block * kLanes + i] = by_row[i * n_blocks + block];
    }
  }
}

// scores [kQueries][kLanes] of n <= kLanes consecutive rows of a page, one per lane. Each block of
// 32 elements is summed in int32: at most 32 * 127 * 32767.
template <uint32_t kQueries>
HWY_INLINE void score_codes(const QueryCodes* queries, const Q8Row& first, uint32_t n,
                            uint32_t head_dim, float* const* scores) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const hn::Repartition<int16_t, F32> d16;
  const uint32_t n_blocks = head_dim / kQ8Block;
  // Column i has elements 4 i to 4 i + 3 of each key.
  alignas(64) uint32_t columns[kMostCodeDims / 4 * kLanes];
  transpose({reinterpret_cast<const uint32_t*>(first.codes), head_dim / 4}, n, kLanes, head_dim / 4,
            columns, kLanes);
  alignas(64) float scales[kMostCodeDims / kQ8Block * kLanes];
  load_scales(first.scales, n, n_blocks, scales);
  VF32 sum[kQueries];
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) sum[j] = hn::Zero(d);
  for (uint32_t block = 0; block < n_blocks; ++block) {
    hn::Vec<decltype(di)> dot[kQueries];
    HWY_UNROLL(8)
    for (uint32_t j = 0; j < kQueries; ++j) dot[j] = hn::Zero(di);
    for (uint32_t i = block * 8; i < block * 8 + 8; ++i) {
      const auto four =
          hn::BitCast(d16, hn::Load(di, reinterpret_cast<const int32_t*>(columns) + i * kLanes));
      const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(four)), odd = hn::ShiftRight<8>(four);
      HWY_UNROLL(8)
      for (uint32_t j = 0; j < kQueries; ++j) {
        auto unused = hn::Zero(di);
        const auto pair = [&](uint32_t at) HWY_ATTR {
          return hn::BitCast(d16, hn::Set(di, queries[j].pairs[at]));
        };
        dot[j] = hn::ReorderWidenMulAccumulate(di, even, pair(2 * i), dot[j], unused);
        dot[j] = hn::ReorderWidenMulAccumulate(di, odd, pair(2 * i + 1), dot[j], unused);
      }
    }
    HWY_UNROLL(8)
    for (uint32_t j = 0; j < kQueries; ++j) {
      sum[j] = hn::MulAdd(hn::ConvertTo(d, dot[j]), hn::Load(d, scales + block * kLanes), sum[j]);
    }
  }
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) {
    hn::StoreU(hn::Mul(sum[j], hn::Set(d, queries[j].scale)), d, scores[j]);
  }
}

// sums [kQueries][kVectors] += the values of rows [begin, n) of kLanes rows, elements i to i +
// kVectors * kLanes, times weights: `weights` + j * stride has those of query j, a row per lane.
template <uint32_t kQueries, uint32_t kVectors, class Rows>
HWY_INLINE void add_codes(const Rows& rows, size_t head, uint32_t index, uint32_t begin, uint32_t n,
                          uint32_t i, const float* weights, size_t stride,
                          VF32 (&sums)[kQueries][kVectors]) {
  const F32 d;
  constexpr uint32_t kBlock = Rows::kBlock;
  constexpr uint32_t kBlocks = (kVectors * kLanes + kBlock - 1) / kBlock;
  const uint32_t n_blocks = static_cast<uint32_t>(rows.head_dim) / kBlock;
  alignas(64) float scales[kMostCodeDims / kQ4Block * kLanes];
  load_scales(rows.row(head, index).scales, n, n_blocks, scales);
  alignas(64) float scaled[kQueries][kBlocks][kLanes];
  HWY_UNROLL(8)
  for (uint32_t j = 0; j < kQueries; ++j) {
    const VF32 weight = hn::LoadU(d, weights + j * stride);
    HWY_UNROLL(4)
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const VF32 scale = hn::Load(d, scales + (i / kBlock + b) * kLanes);
      hn::Store(hn::Mul(weight, scale), d, scaled[j][b]);
    }
  }
  for (uint32_t p = begin; p < n; ++p) {
    const auto row = rows.row(head, index + p) + i;
    VF32 v[kVectors];
    HWY_UNROLL(4)
    for (uint32_t k = 0; k < kVectors; ++k) v[k] = load_codes(row + k * kLanes);
    HWY_UNROLL(8)
    for (uint32_t j = 0; j < kQueries; ++j) {
      HWY_UNROLL(4)
      for (uint32_t k = 0; k < kVectors; ++k) {
        sums[j][k] = hn::MulAdd(hn::Set(d, scaled[j][k * kLanes / kBlock][p]), v[k], sums[j][k]);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif
