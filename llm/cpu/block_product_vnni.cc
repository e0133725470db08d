// Products of quantized rows and quantized blocks on AVX-512 VNNI, compiled whatever the build's
// target: nothing here may run before cpu_features() allows it.
//
// A block's whole numbers are summed in int32; a sum meets the scales of row and weight in f32. A
// row's sums are made in one order, whatever the number of rows.
#include "llm/cpu/block_product.h"

#if defined(__x86_64__)
// GCC 12 takes the undefined vectors of its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstring>

namespace vesper {
namespace {

// Instruction set of the functions below. Not of the file, so that no inline function of a header
// is compiled for them and then shared with the rest of the program.
#define VESPER_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define VESPER_VNNI_INLINE VESPER_VNNI __attribute__((always_inline)) inline

VESPER_VNNI_INLINE __m512i load_plane(const std::byte* from) { return _mm512_loadu_si512(from); }

// (bits & each byte's mask) | more
VESPER_VNNI_INLINE __m512i merge(__m512i bits, int mask, __m512i more) {
  return _mm512_ternarylogic_epi32(bits, _mm512_set1_epi8(static_cast<char>(mask)), more, 0xea);
}
// Shifts left by a constant, which may be negative.
template <int kLeft>
VESPER_VNNI_INLINE __m512i shifted(__m512i bits) {
  if constexpr (kLeft > 0) return _mm512_slli_epi16(bits, kLeft);
  if constexpr (kLeft < 0) return _mm512_srli_epi16(bits, -kLeft);
  return bits;
}

// The codes of quad kQuad of a block (block_layout.h): bytes [16][4].
template <int kBits, int kQuad>
VESPER_VNNI_INLINE __m512i load_quad(const std::byte* block) {
  if constexpr (kBits == 8) {
    return load_plane(block + 64 * kQuad);
  } else if constexpr (kBits >= 4) {
    const __m512i low = _mm512_and_si512(
        shifted<-4 * (kQuad / 4)>(load_plane(block + 64 * (kQuad % 4))), _mm512_set1_epi8(15));
    if constexpr (kBits == 4) return low;
    if constexpr (kBits == 5) {
      return merge(shifted<4 - kQuad>(load_plane(block + 256)), 0x10, low);
    }
    return merge(shifted<4 - 2 * (kQuad % 4)>(load_plane(block + 256 + 64 * (kQuad / 4))), 0x30,
                 low);
  } else {
    const __m512i low = _mm512_and_si512(
        shifted<-2 * (kQuad % 4)>(load_plane(block + 64 * (kQuad / 4))), _mm512_set1_epi8(3));
    if constexpr (kBits == 2) return low;
    return merge(shifted<2 - kQuad>(load_plane(block + 128)), 4, low);
  }
}

// So far ahead weights are asked for, across panels: the processor's own prefetching stops at the
// end of a page.
constexpr size_t kPrefetchBytes = 8192;

template <int kRows>
struct Sums {
  __m512i of_row[kRows];
};

template <int kBits, int kQuad, int kRows>
VESPER_VNNI_INLINE void add_quad(const std::byte* block, const std::byte* rows, size_t row_bytes,
                                 Sums<kRows>& sums) {
  const __m512i codes = load_quad<kBits, kQuad>(block);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    int32_t four;
    std::memcpy(&four, rows + r * row_bytes + 4 * kQuad, sizeof four);
    sums.of_row[r] = _mm512_dpbusd_epi32(sums.of_row[r], codes, _mm512_set1_epi32(four));
  }
}

// kRows rows times one panel. kHalves: a scale serves 16 inputs.
template <int kBits, bool kHalves, int kRows>
VESPER_VNNI void multiply_rows(const PanelProduct& product, const Int8BlockRow& at,
                               const std::byte* panel, const float* scales, const float* minimums,
                               const std::byte* rows, float* out) {
  constexpr int kGroups = kHalves ? 2 : 1;  // of a block
  const WeightLayout& layout = *product.layout;
  const size_t row_bytes = at.bytes;
  const uint32_t n_blocks = layout.n_in / kBlockInputs;
  const std::byte* block = panel + layout.codes_offset;
  const std::byte* codes = rows;
  const auto* row_scales = reinterpret_cast<const float*>(rows + at.scales);
  const auto* starts = reinterpret_cast<const int32_t*>(rows + at.starts);
  const auto* row_sums = reinterpret_cast<const float*>(rows + at.sums);
  const size_t row_words = row_bytes / 4;
  __m512 total[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) total[r] = _mm512_setzero_ps();
  // A panel's bytes, scales included, are asked for evenly over its blocks.
  const size_t bytes_a_block = layout.panel_bytes / n_blocks;
  size_t ahead = kPrefetchBytes;
  const auto left = static_cast<size_t>(product.end_of_task - panel);
  for (uint32_t b = 0; b < n_blocks; ++b) {
    if (ahead < left) {
#pragma GCC unroll 16
      for (int i = 0; i <= kBits; ++i) _mm_prefetch(panel + ahead + 64 * i, _MM_HINT_T0);
      ahead += bytes_a_block;
    }
    Sums<kRows> low, high;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      low.of_row[r] = _mm512_set1_epi32(starts[r * row_words]);
      high.of_row[r] =
          kHalves ? _mm512_set1_epi32(starts[r * row_words + 1]) : _mm512_setzero_si512();
    }
    add_quad<kBits, 0>(block, codes, row_bytes, low);
    add_quad<kBits, 4>(block, codes, row_bytes, high);
    add_quad<kBits, 1>(block, codes, row_bytes, low);
    add_quad<kBits, 5>(block, codes, row_bytes, high);
    add_quad<kBits, 2>(block, codes, row_bytes, low);
    add_quad<kBits, 6>(block, codes, row_bytes, high);
    add_quad<kBits, 3>(block, codes, row_bytes, low);
    add_quad<kBits, 7>(block, codes, row_bytes, high);
    const __m512 scale = _mm512_loadu_ps(scales);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 row_scale = _mm512_set1_ps(row_scales[r * row_words]);
      if constexpr (kHalves) {
        const __m512 second = _mm512_loadu_ps(scales + kPanelOutputs);
        total[r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(low.of_row[r]), row_scale),
                                   scale, total[r]);
        total[r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(high.of_row[r]), row_scale),
                                   second, total[r]);
      } else {
        const __m512i sum = _mm512_add_epi32(low.of_row[r], high.of_row[r]);
        total[r] =
            _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), row_scale), scale, total[r]);
      }
    }
    if (minimums != nullptr) {
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const __m512 minimum = _mm512_loadu_ps(minimums + g * kPanelOutputs);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          total[r] =
              _mm512_fmadd_ps(minimum, _mm512_set1_ps(row_sums[r * row_words + g]), total[r]);
        }
      }
      minimums += kGroups * kPanelOutputs;
    }
    block += 64 * kBits;
    codes += kBlockInputs;
    scales += kGroups * kPanelOutputs;
    row_scales += 1;
    starts += kGroups;
    row_sums += kGroups;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(out + r * kPanelOutputs, total[r]);
}

template <int kBits, bool kHalves>
VESPER_VNNI void multiply(const PanelProduct& product) {
  const WeightLayout& layout = *product.layout;
  const Int8BlockRow at(layout);
  auto* const scales = reinterpret_cast<float*>(product.scratch);
  float* const minimums = scales + expanded_scale_bytes(layout) / sizeof(float) / 2;
  const auto* const rows = static_cast<const std::byte*>(product.rows);
  for (uint32_t p = 0; p < product.n_panels; ++p) {
    const std::byte* panel = product.panels + p * layout.panel_bytes;
    const float* has_minimums =
        expand_scales(layout, panel, false, scales, minimums) ? minimums : nullptr;
    float* out = product.sums + size_t{p} * product.n_rows * kPanelOutputs;
    uint32_t row = 0;
    for (; row + 4 <= product.n_rows; row += 4) {
      multiply_rows<kBits, kHalves, 4>(product, at, panel, scales, has_minimums,
                                       rows + size_t{row} * at.bytes, out + row * kPanelOutputs);
    }
    if (product.n_rows - row >= 2) {
      multiply_rows<kBits, kHalves, 2>(product, at, panel, scales, has_minimums,
                                       rows + size_t{row} * at.bytes, out + row * kPanelOutputs);
      row += 2;
    }
    if (product.n_rows - row >= 1) {
      multiply_rows<kBits, kHalves, 1>(product, at, panel, scales, has_minimums,
                                       rows + size_t{row} * at.bytes, out + row * kPanelOutputs);
    }
  }
}

template <bool kHalves>
MultiplyPanels kernel_of(uint32_t bits) {
  switch (bits) {
    case 2:
      return multiply<2, kHalves>;
    case 3:
      return multiply<3, kHalves>;
    case 4:
      return multiply<4, kHalves>;
    case 5:
      return multiply<5, kHalves>;
    case 6:
      return multiply<6, kHalves>;
    default:
      return multiply<8, kHalves>;
  }
}

}  // namespace

void multiply_blocks_vnni(const PanelProduct& product) {
  const BlockFormat& format = product.layout->blocks;
  const MultiplyPanels multiply =
      format.group == 16 ? kernel_of<true>(format.bits) : kernel_of<false>(format.bits);
  multiply(product);
}

}  // namespace vesper
#endif
