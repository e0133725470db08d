// Products of quantized rows and quantized blocks on AVX2, with or without AVX-VNNI, compiled for
// any build target. Run them only if cpu_features() has the instructions.
//
// Sums have the order of gemm_blocks_vnni.cc and so the same bits: integer sums are exact, and the
// scales of row and weight are applied in f32 in the same way.
#include "llm/cpu/matmul/gemm_blocks_rows.h"

#if defined(__x86_64__)
#include "llm/cpu/dot_instructions.h"
#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

VESPER_AVX2_INLINE __m256i load_plane(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
template <int kLeft>
VESPER_AVX2_INLINE __m256i shifted(__m256i bits) {
  if constexpr (kLeft > 0) return _mm256_slli_epi16(bits, kLeft);
  if constexpr (kLeft < 0) return _mm256_srli_epi16(bits, -kLeft);
  return bits;
}
template <int kLeft>
VESPER_AVX2_INLINE __m256i masked(__m256i bits, int mask) {
  return _mm256_and_si256(shifted<kLeft>(bits), _mm256_set1_epi8(static_cast<char>(mask)));
}

// The codes of quad kQuad of a block (packed_blocks.h), for 8 outputs: bytes [8][4]. `block` is
// that of the first of these outputs.
template <int kBits, int kQuad>
VESPER_AVX2_INLINE __m256i load_quad(const std::byte* block) {
  if constexpr (kBits == 8) {
    return load_plane(block + 64 * kQuad);
  } else if constexpr (kBits >= 4) {
    const __m256i low = masked<-4 * (kQuad / 4)>(load_plane(block + 64 * (kQuad % 4)), 15);
    if constexpr (kBits == 4) return low;
    if constexpr (kBits == 5) {
      return _mm256_or_si256(masked<4 - kQuad>(load_plane(block + 256), 0x10), low);
    }
    const __m256i high = load_plane(block + 256 + 64 * (kQuad / 4));
    return _mm256_or_si256(masked<4 - 2 * (kQuad % 4)>(high, 0x30), low);
  } else {
    const __m256i low = masked<-2 * (kQuad % 4)>(load_plane(block + 64 * (kQuad / 4)), 3);
    if constexpr (kBits == 2) return low;
    return _mm256_or_si256(masked<2 - kQuad>(load_plane(block + 128), 4), low);
  }
}

VESPER_AVX2_INLINE __m256i broadcast_int(const std::byte* from) {
  return _mm256_set1_epi32(load_row_int(from));
}

// The number of quads of products, of codes below 2^bits and values up to 127 with two products
// added, that may be added in 16 bits.
constexpr int quads_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

// Adds quads kFirst to kFirst + kQuads - 1 of a block to sums of 16 outputs, as two vectors per
// row.
template <int kBits, int kFirst, int kQuads, int kRows, bool kVnni>
VESPER_AVX2_INLINE void add_quads(const std::byte* block, const std::byte* const* rows,
                                  __m256i (*sums)[2]) {
  const __m256i ones = _mm256_set1_epi16(1);
  constexpr int kAtOnce = quads_in_16_bits(kBits) < kQuads ? quads_in_16_bits(kBits) : kQuads;
  const auto of_quad = [&]<int kQuad>(__m256i(*short_sums)[2], bool begins) VESPER_AVX2
      __attribute__((always_inline)) {
    const __m256i codes[2] = {load_quad<kBits, kQuad>(block), load_quad<kBits, kQuad>(block + 32)};
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i row = broadcast_int(rows[r] + 4 * kQuad);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        if constexpr (kVnni) {
          __m256i& sum = sums[r][h];  // clang 14 captures nothing that only assembly uses
          VESPER_VEX_VPDPBUSD(sum, codes[h], row);
        } else if constexpr (kBits == 8) {
          // Two products of 255 * 127 exceed 16 bits: even and odd bytes are separate.
          const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(row, 8), 8);
          const __m256i odd = _mm256_srai_epi16(row, 8);
          const __m256i low = _mm256_and_si256(codes[h], _mm256_set1_epi16(0xff));
          const __m256i high = _mm256_srli_epi16(codes[h], 8);
          sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(low, even));
          sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(high, odd));
        } else {
          const __m256i products = _mm256_maddubs_epi16(codes[h], row);
          short_sums[r][h] = begins ? products : _mm256_add_epi16(short_sums[r][h], products);
        }
      }
    }
  };
  const auto of_some = [&]<int kBegin>() VESPER_AVX2 __attribute__((always_inline)) {
    __m256i short_sums[kRows][2];
    of_quad.template operator()<kBegin>(short_sums, true);
    of_quad.template operator()<kBegin + 1>(short_sums, false);
    if constexpr (kAtOnce >= 4) {
      of_quad.template operator()<kBegin + 2>(short_sums, false);
      of_quad.template operator()<kBegin + 3>(short_sums, false);
    }
    if constexpr (kAtOnce == 8) {
      of_quad.template operator()<kBegin + 4>(short_sums, false);
      of_quad.template operator()<kBegin + 5>(short_sums, false);
      of_quad.template operator()<kBegin + 6>(short_sums, false);
      of_quad.template operator()<kBegin + 7>(short_sums, false);
    }
    if constexpr (!kVnni && kBits != 8) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(short_sums[r][h], ones));
        }
      }
    }
  };
  of_some.template operator()<kFirst>();
  if constexpr (kAtOnce < kQuads) of_some.template operator()<kFirst + kAtOnce>();
  if constexpr (2 * kAtOnce < kQuads) {
    of_some.template operator()<kFirst + 2 * kAtOnce>();
    of_some.template operator()<kFirst + 3 * kAtOnce>();
  }
}

// kRows rows by one panel. kHalves: a scale serves 16 inputs.
template <int kBits, bool kHalves, int kRows, bool kVnni>
VESPER_AVX2 void multiply_rows(const PanelRows& part) {
  constexpr int kGroups = kHalves ? 2 : 1, kQuads = 8 / kGroups;
  constexpr size_t kRowBlock = Int8BlockRow::bytes_of_block(kHalves);
  const PackedLayout& layout = *part.layout;
  const uint32_t n_blocks = layout.n_in / kBlockInputs;
  const std::byte* block = part.panel + layout.codes_offset;
  const float *scales = part.scales, *minimums = part.minimums;
  const std::byte* rows[kRows];
  for (int r = 0; r < kRows; ++r)
    rows[r] = part.first_row + static_cast<size_t>(r) * part.row_bytes;
  __m256 total[kRows][2] = {};
  const size_t bytes_a_block = layout.panel_bytes / n_blocks;
  size_t ahead = kPrefetchBytes;
  for (uint32_t b = 0; b < n_blocks; ++b) {
    if (kRows < kMemoryBoundRows && ahead < part.bytes_to_end) {
#pragma GCC unroll 16
      for (int i = 0; i <= kBits; ++i) _mm_prefetch(part.panel + ahead + 64 * i, _MM_HINT_T0);
      ahead += bytes_a_block;
    }
    const auto of_group = [&]<int kGroup>() VESPER_AVX2 __attribute__((always_inline)) {
      __m256i sums[kRows][2];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        sums[r][0] = sums[r][1] = broadcast_int(rows[r] + Int8BlockRow::kStarts + 4 * kGroup);
      }
      add_quads<kBits, kGroup * kQuads, kQuads, kRows, kVnni>(block, rows, sums);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const __m256 scale = _mm256_loadu_ps(scales + kGroup * kPanelOutputs + 8 * h);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const __m256 row_scale = _mm256_set1_ps(load_row_float(rows[r] + Int8BlockRow::kScale));
          const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[r][h]), row_scale);
          total[r][h] = _mm256_fmadd_ps(sum, scale, total[r][h]);
        }
      }
    };
    of_group.template operator()<0>();
    if constexpr (kHalves) of_group.template operator()<1>();
    if (minimums != nullptr) {
#pragma GCC unroll 4
      for (int g = 0; g < 2 * kGroups; ++g) {
        const __m256 minimum = _mm256_loadu_ps(minimums + 8 * g);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const float sum = load_row_float(rows[r] + Int8BlockRow::kSums + 4 * (g / 2));
          total[r][g % 2] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(sum), total[r][g % 2]);
        }
      }
      minimums += kGroups * kPanelOutputs;
    }
    block += 64 * kBits;
    scales += kGroups * kPanelOutputs;
    for (int r = 0; r < kRows; ++r) rows[r] += kRowBlock;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < 2; ++h) {
      const size_t at = static_cast<size_t>(r) * part.out_stride + 8 * static_cast<size_t>(h);
      if (part.residual != nullptr) {
        total[r][h] = _mm256_add_ps(total[r][h], _mm256_loadu_ps(part.residual + at));
      }
      _mm256_storeu_ps(part.out + at, total[r][h]);
    }
  }
}

template <bool kVnni>
struct Avx2Rows {
  static constexpr int kMostRows = 4;
  template <int kBits, bool kHalves, int kRows>
  static void rows(const PanelRows& part) {
    multiply_rows<kBits, kHalves, kRows, kVnni>(part);
  }
};

}  // namespace

void gemm_blocks_avx2(const Gemm& gemm) { multiply_block_rows<Avx2Rows<false>>(gemm); }
void gemm_blocks_avx_vnni(const Gemm& gemm) { multiply_block_rows<Avx2Rows<true>>(gemm); }

}  // namespace vesper
#endif
