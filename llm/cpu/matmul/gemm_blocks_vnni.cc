// Products of quantized rows and quantized blocks on AVX-512 VNNI, compiled for any build target.
// Run them only if cpu_features() has the instructions.
//
// The products of a block are summed in int32, and the scales of row and weight are applied in f32.
// A row's sums have one order, whatever the number of rows.
#include "llm/cpu/matmul/gemm_blocks_rows.h"

#if defined(__x86_64__)
#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

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

// The codes of quad kQuad of a block (packed_blocks.h): bytes [16][4].
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

// A few rows at any distance: as many addresses as registers hold.
struct Rows {
  const std::byte* of_three[4];
  size_t bytes;  // between rows

  VESPER_VNNI_INLINE const std::byte* at(int row) const {
    return of_three[row / 3] + static_cast<size_t>(row % 3) * bytes;
  }
};

VESPER_VNNI_INLINE __m512i broadcast_int(const std::byte* from) {
  return _mm512_set1_epi32(load_row_int(from));
}

template <int kBits, int kQuad, int kRows>
VESPER_VNNI_INLINE void add_quad(const std::byte* block, const Rows& rows, __m512i* sums) {
  const __m512i codes = load_quad<kBits, kQuad>(block);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    sums[r] = _mm512_dpbusd_epi32(sums[r], codes, broadcast_int(rows.at(r) + 4 * kQuad));
  }
}

// Applies the scales to the sums of quads kFirst to kFirst + 3, or of all 8 of a block.
template <int kRows>
VESPER_VNNI_INLINE void add_scaled(const __m512i* sums, const Rows& rows, const float* scales,
                                   __m512* total) {
  const __m512 scale = _mm512_loadu_ps(scales);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const __m512 row_scale = _mm512_set1_ps(load_row_float(rows.at(r) + Int8BlockRow::kScale));
    total[r] =
        _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[r]), row_scale), scale, total[r]);
  }
}

// kRows rows by one panel. kHalves: a scale serves 16 inputs.
template <int kBits, bool kHalves, int kRows>
VESPER_VNNI void multiply_rows(const PanelRows& part) {
  constexpr int kGroups = kHalves ? 2 : 1;  // of a block
  constexpr size_t kRowBlock = Int8BlockRow::bytes_of_block(kHalves);
  const PackedLayout& layout = *part.layout;
  const uint32_t n_blocks = layout.n_in / kBlockInputs;
  const std::byte* block = part.panel + layout.codes_offset;
  const float *scales = part.scales, *minimums = part.minimums;
  Rows rows{{part.first_row, part.first_row + 3 * part.row_bytes,
             part.first_row + 6 * part.row_bytes, part.first_row + 9 * part.row_bytes},
            part.row_bytes};
  __m512 total[kRows];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) total[r] = _mm512_setzero_ps();
  // A panel, scales included, is prefetched evenly over its blocks.
  const size_t bytes_a_block = layout.panel_bytes / n_blocks;
  size_t ahead = kPrefetchBytes;
  for (uint32_t b = 0; b < n_blocks; ++b) {
    if (kRows <= kMemoryBoundRows && ahead < part.bytes_to_end) {
#pragma GCC unroll 16
      for (int i = 0; i <= kBits; ++i) _mm_prefetch(part.panel + ahead + 64 * i, _MM_HINT_T0);
      ahead += bytes_a_block;
    }
    __m512i low[kRows], high[kRows];
    // Few rows: two sums each, so that additions do not wait for each other.
    constexpr bool kTwoSums = kHalves || kRows <= kMemoryBoundRows;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      low[r] = broadcast_int(rows.at(r) + Int8BlockRow::kStarts);
    }
    add_quad<kBits, 0, kRows>(block, rows, low);
    add_quad<kBits, 1, kRows>(block, rows, low);
    add_quad<kBits, 2, kRows>(block, rows, low);
    add_quad<kBits, 3, kRows>(block, rows, low);
    if constexpr (kTwoSums) {
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        high[r] = kHalves ? broadcast_int(rows.at(r) + Int8BlockRow::kStarts + 4)
                          : _mm512_setzero_si512();
      }
    }
    if constexpr (kHalves) add_scaled<kRows>(low, rows, scales, total);
    __m512i* const rest = kTwoSums ? high : low;
    add_quad<kBits, 4, kRows>(block, rows, rest);
    add_quad<kBits, 5, kRows>(block, rows, rest);
    add_quad<kBits, 6, kRows>(block, rows, rest);
    add_quad<kBits, 7, kRows>(block, rows, rest);
    if constexpr (kTwoSums && !kHalves) {
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) low[r] = _mm512_add_epi32(low[r], high[r]);
    }
    add_scaled<kRows>(kHalves ? high : low, rows, scales + (kGroups - 1) * kPanelOutputs, total);
    if (minimums != nullptr) {
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const __m512 minimum = _mm512_loadu_ps(minimums + g * kPanelOutputs);
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
          const float sum = load_row_float(rows.at(r) + Int8BlockRow::kSums + 4 * g);
          total[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(sum), total[r]);
        }
      }
      minimums += kGroups * kPanelOutputs;
    }
    block += 64 * kBits;
    scales += kGroups * kPanelOutputs;
#pragma GCC unroll 4
    for (const std::byte*& three : rows.of_three) three += kRowBlock;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const size_t at = static_cast<size_t>(r) * part.out_stride;
    if (part.residual != nullptr) {
      total[r] = _mm512_add_ps(total[r], _mm512_loadu_ps(part.residual + at));
    }
    _mm512_storeu_ps(part.out + at, total[r]);
  }
}

struct VnniRows {
  static constexpr int kMostRows = 12;
  template <int kBits, bool kHalves, int kRows>
  static void rows(const PanelRows& part) {
    multiply_rows<kBits, kHalves, kRows>(part);
  }
};

}  // namespace

void gemm_blocks_vnni(const Gemm& gemm) { multiply_block_rows<VnniRows>(gemm); }

}  // namespace vesper
#endif
