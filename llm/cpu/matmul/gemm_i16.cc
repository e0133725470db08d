// Micro-kernel of 16-bit integers on AVX-512 VNNI, with about the precision of f16 and twice the
// multiply-adds of f32. Rows have 14 bits with a scale per 64 inputs. f16 or bf16 weights are
// converted to 13 bits with a scale per 64 inputs of an output, so 64 products fit 32 bits. Sums of
// 64 are exact; the rest is f32. (bf16 is as fast and keeps 8 bits of each factor.)
//
// Run it only if cpu_features() has the instructions.
#include "llm/cpu/matmul/gemm.h"

#if defined(__x86_64__)
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "llm/cpu/dot_instructions.h"
#include "llm/cpu/matmul/input_rows.h"
#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

static_assert(int64_t{kI16Inputs} * kI16RowLimit * kI16WeightLimit < INT32_MAX);

constexpr uint32_t kPairsPerBlock = kI16Inputs / 2;
constexpr size_t kPairBytes = 2 * kPanelOutputs * sizeof(int16_t);
constexpr uint32_t kMostRows = 12;  // 12 registers of integer sums, 12 of f32

// Packing two vectors of 32 bits into one of 16 permutes their quarters: the output of each lane.
alignas(64) constexpr uint32_t kOutputOfLane[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                                    4, 5, 12, 13, 6, 7, 14, 15};
// The lane of each output.
alignas(64) constexpr uint32_t kLaneOfOutput[16] = {0, 1, 4, 5, 8,  9,  12, 13,
                                                    2, 3, 6, 7, 10, 11, 14, 15};

template <bool kIsF16>
VESPER_VNNI inline __m512 widen(__m256i bits) {
  return kIsF16 ? _mm512_cvtph_ps(bits)
                : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// 16 weights as f32: 8 outputs of two inputs.
template <bool kIsF16>
VESPER_VNNI inline __m512 load_weights(const uint16_t* from) {
  return widen<kIsF16>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// A panel of f16 or bf16 as i16 [n_pairs][16][2], outputs in the order of kOutputOfLane, and the
// scale of each block, f32 [n_blocks][16] in that order.
template <bool kIsF16>
VESPER_VNNI void convert_panel(const std::byte* panel, uint32_t n_pairs, int16_t* weights,
                               float* scales) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  const __m512i order = _mm512_load_si512(kOutputOfLane);
  // A pair of lanes per output, for outputs 0 to 7 and 8 to 15.
  const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i high = _mm512_set_epi32(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8);
  const auto* from = reinterpret_cast<const uint16_t*>(panel);
  for (uint32_t pair = 0; pair < n_pairs; scales += kPanelOutputs) {
    const uint32_t n = std::min(kPairsPerBlock, n_pairs - pair);
    // Without the sign, both formats are ordered by their bits.
    __m512i most_bits = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; ++i) {
      const __m512i bits = _mm512_loadu_si512(from + size_t{i} * 2 * kPanelOutputs);
      most_bits = _mm512_max_epu16(most_bits, _mm512_and_si512(bits, magnitude));
    }
    // The larger of each output's two.
    const __m512i larger = _mm512_max_epu16(most_bits, _mm512_srli_epi32(most_bits, 16));
    const __m512 most = widen<kIsF16>(_mm512_cvtepi32_epi16(larger));
    const __m512 inverse =
        _mm512_maskz_div_ps(_mm512_cmp_ps_mask(most, _mm512_setzero_ps(), _CMP_GT_OQ),
                            _mm512_set1_ps(kI16WeightLimit), most);
    const __m512 inverse_low = _mm512_permutexvar_ps(low, inverse);
    const __m512 inverse_high = _mm512_permutexvar_ps(high, inverse);
    for (uint32_t i = 0; i < n; ++i, from += 2 * kPanelOutputs, weights += 2 * kPanelOutputs) {
      const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(load_weights<kIsF16>(from), inverse_low));
      const __m512i b = _mm512_cvtps_epi32(
          _mm512_mul_ps(load_weights<kIsF16>(from + kPanelOutputs), inverse_high));
      _mm512_storeu_si512(weights, _mm512_packs_epi32(a, b));
    }
    const __m512 scale = _mm512_mul_ps(most, _mm512_set1_ps(1.0f / kI16WeightLimit));
    _mm512_storeu_ps(scales, _mm512_permutexvar_ps(order, scale));
    pair += n;
  }
}

// kRows rows by a converted panel; row r's sums go to sums[r]. Meanwhile, prefetches at `next` as
// much as the panel has.
template <uint32_t kRows>
VESPER_VNNI void multiply_rows(const std::byte* rows, const I16Row& row, uint32_t n_pairs,
                               const int16_t* weights, const float* scales, const std::byte* next,
                               float* const* sums) {
  __m512 all[kRows];
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) all[r] = _mm512_setzero_ps();
  const std::byte* inputs = rows;
  const std::byte* row_scales = rows + row.scales_offset;
  for (uint32_t pair = 0; pair < n_pairs; scales += kPanelOutputs, row_scales += sizeof(float)) {
    const uint32_t n = std::min(kPairsPerBlock, n_pairs - pair);
    __m512i block[kRows];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) block[r] = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; ++i, weights += 2 * kPanelOutputs, inputs += 2 * sizeof(int16_t)) {
      const __m512i weight = _mm512_loadu_si512(weights);
      __builtin_prefetch(next, 0, 2);
      next += kPairBytes;
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        VESPER_VPDPWSSD_BROADCAST(block[r], weight, inputs + r * row.bytes);
      }
    }
    const __m512 scale = _mm512_loadu_ps(scales);
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      float row_scale;
      std::memcpy(&row_scale, row_scales + r * row.bytes, sizeof row_scale);
      all[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(block[r]),
                               _mm512_mul_ps(scale, _mm512_set1_ps(row_scale)), all[r]);
    }
    pair += n;
  }
  const __m512i order = _mm512_load_si512(kLaneOfOutput);
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(sums[r], _mm512_permutexvar_ps(order, all[r]));
  }
}

using MultiplyRows = void (*)(const std::byte* rows, const I16Row& row, uint32_t n_pairs,
                              const int16_t* weights, const float* scales, const std::byte* next,
                              float* const* sums);
// Indexed by the number of rows minus one.
constexpr auto kMultiplyRows = []<uint32_t... kLess>(std::integer_sequence<uint32_t, kLess...>) {
  return std::array<MultiplyRows, sizeof...(kLess)>{multiply_rows<kLess + 1>...};
}
(std::make_integer_sequence<uint32_t, kMostRows>());

}  // namespace

void gemm_i16(const Gemm& gemm) {
  const uint32_t n_pairs = gemm.layout->padded_n_in / 2;
  const I16Row row(*gemm.layout);
  auto* const weights = reinterpret_cast<int16_t*>(gemm.scratch);
  auto* const scales = reinterpret_cast<float*>(gemm.scratch + n_pairs * kPairBytes);
  for (uint32_t p = 0; p < gemm.n_panels; ++p) {
    const std::byte* panel = gemm.panels + p * gemm.layout->panel_bytes;
    if (gemm.layout->format.storage == Storage::kF16) {
      convert_panel<true>(panel, n_pairs, weights, scales);
    } else {
      convert_panel<false>(panel, n_pairs, weights, scales);
    }
    const auto* rows = static_cast<const std::byte*>(gemm.rows);
    uint32_t row_index = 0;
    // As many rows at a time as registers allow, in nearly equal parts.
    uint32_t n_left = gemm.n_rows;
    for (uint32_t n_times = (n_left + kMostRows - 1) / kMostRows; n_times > 0; --n_times) {
      const uint32_t n = (n_left + n_times - 1) / n_times;
      float* sums[kMostRows];
      for (uint32_t r = 0; r < n; ++r, ++row_index) sums[r] = sums_at(gemm, row_index, p);
      kMultiplyRows[n - 1](rows, row, n_pairs, weights, scales, panel + gemm.layout->panel_bytes,
                           sums);
      rows += n * row.bytes;
      n_left -= n;
    }
  }
}

size_t gemm_i16_scratch_bytes(const PackedLayout& layout) {
  return layout.padded_n_in / 2 * kPairBytes +
         I16Row(layout).n_blocks * kPanelOutputs * sizeof(float);
}

}  // namespace vesper
#endif
