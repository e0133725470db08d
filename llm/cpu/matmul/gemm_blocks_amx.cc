// Products of many rows and quantized blocks on AMX: a panel is converted to bf16 once and
// multiplied with up to 256 rows of bf16 on tiles. The sums are f32.
//
// Run them only if cpu_features() has AMX.
#include "llm/cpu/matmul/gemm.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstring>

#include "llm/cpu/matmul/gemm_amx.h"
#include "llm/cpu/x86_targets.h"

namespace vesper {
namespace {

constexpr uint32_t kPanelsAtOnce = 2;

template <int kRight>
VESPER_AMX_INLINE __m512i shifted(__m512i bits) {
  if constexpr (kRight > 0) return _mm512_srli_epi32(bits, kRight);
  if constexpr (kRight < 0) return _mm512_slli_epi32(bits, -kRight);
  return bits;
}
VESPER_AMX_INLINE __m512i masked(__m512i bits, int mask) {
  return _mm512_and_si512(bits, _mm512_set1_epi8(static_cast<char>(mask)));
}
VESPER_AMX_INLINE __m512i load_plane(const std::byte* from) { return _mm512_loadu_si512(from); }

// The codes of quad kQuad of a block (packed_blocks.h): bytes [16][4].
template <int kBits, int kQuad>
VESPER_AMX_INLINE __m512i load_quad(const std::byte* block) {
  if constexpr (kBits == 8) {
    return load_plane(block + 64 * kQuad);
  } else if constexpr (kBits >= 4) {
    const __m512i low = masked(shifted<4 * (kQuad / 4)>(load_plane(block + 64 * (kQuad % 4))), 15);
    if constexpr (kBits == 4) return low;
    if constexpr (kBits == 5) {
      return _mm512_or_si512(low, masked(shifted<kQuad - 4>(load_plane(block + 256)), 0x10));
    }
    return _mm512_or_si512(
        low,
        masked(shifted<2 * (kQuad % 4) - 4>(load_plane(block + 256 + 64 * (kQuad / 4))), 0x30));
  } else {
    const __m512i low = masked(shifted<2 * (kQuad % 4)>(load_plane(block + 64 * (kQuad / 4))), 3);
    if constexpr (kBits == 2) return low;
    return _mm512_or_si512(low, masked(shifted<kQuad - 2>(load_plane(block + 128)), 4));
  }
}

// Four inputs of 16 outputs as bf16 [2][16][2]: two rows of a tile.
template <int kBits, int kQuad>
VESPER_AMX_INLINE void expand_quad(const std::byte* block, __m512 scale, __m512 minimum,
                                   __m512i interleave, std::byte* out) {
  const __m512i quad = load_quad<kBits, kQuad>(block);
  const __m512i byte = _mm512_set1_epi32(255);
  const __m512 a =
      _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_and_si512(quad, byte)), scale, minimum);
  const __m512 b = _mm512_fmadd_ps(
      _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(quad, 8), byte)), scale, minimum);
  const __m512 c = _mm512_fmadd_ps(
      _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(quad, 16), byte)), scale, minimum);
  const __m512 d = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(quad, 24)), scale, minimum);
  const __m512i first = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
  const __m512i second = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(d, c));
  _mm512_store_si512(out, _mm512_permutexvar_epi16(interleave, first));
  _mm512_store_si512(out + kTileRowBytes, _mm512_permutexvar_epi16(interleave, second));
}

// A panel as tiles [n_in / 32][16][16][2] of bf16.
template <int kBits>
VESPER_AMX void expand_panel(const PackedLayout& layout, const std::byte* panel,
                             const float* scales, const float* minimums, std::byte* out) {
  alignas(64) static constexpr uint16_t kInterleave[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleave = _mm512_load_si512(kInterleave);
  const uint32_t half = layout.format.blocks.group == 16 ? kPanelOutputs : 0;
  const std::byte* block = panel + layout.codes_offset;
  for (uint32_t i = 0; i < layout.n_in; i += kBlockInputs, block += 64 * kBits, out += kTileBytes) {
    __m512 scale = _mm512_loadu_ps(scales), minimum = _mm512_loadu_ps(minimums);
    expand_quad<kBits, 0>(block, scale, minimum, interleave, out);
    expand_quad<kBits, 1>(block, scale, minimum, interleave, out + 128);
    expand_quad<kBits, 2>(block, scale, minimum, interleave, out + 256);
    expand_quad<kBits, 3>(block, scale, minimum, interleave, out + 384);
    scale = _mm512_loadu_ps(scales + half);
    minimum = _mm512_loadu_ps(minimums + half);
    expand_quad<kBits, 4>(block, scale, minimum, interleave, out + 512);
    expand_quad<kBits, 5>(block, scale, minimum, interleave, out + 640);
    expand_quad<kBits, 6>(block, scale, minimum, interleave, out + 768);
    expand_quad<kBits, 7>(block, scale, minimum, interleave, out + 896);
    scales += half + kPanelOutputs;
    minimums += half + kPanelOutputs;
  }
}

using ExpandPanel = void (*)(const PackedLayout&, const std::byte*, const float*, const float*,
                             std::byte*);
ExpandPanel expand_panel_of(uint32_t bits) {
  switch (bits) {
    case 2:
      return expand_panel<2>;
    case 3:
      return expand_panel<3>;
    case 4:
      return expand_panel<4>;
    case 5:
      return expand_panel<5>;
    case 6:
      return expand_panel<6>;
    default:
      return expand_panel<8>;
  }
}

}  // namespace

VESPER_AMX void gemm_blocks_amx(const Gemm& gemm) {
  const PackedLayout& layout = *gemm.layout;
  const uint32_t n_steps = layout.n_in / kBlockInputs;
  const size_t panel_bytes = n_steps * kTileBytes;
  const ExpandPanel expand = expand_panel_of(layout.format.blocks.bits);
  auto* const scales = reinterpret_cast<float*>(gemm.scratch);
  float* const minimums = scales + expanded_scale_bytes(layout) / sizeof(float) / 2;
  std::byte* const weights = gemm.scratch + expanded_scale_bytes(layout);
  const bool direct = gemm.out != nullptr;
  const size_t stride = direct ? gemm.out_stride : kPanelOutputs;
  const size_t panel_stride = direct ? kPanelOutputs : gemm.sums.panel_stride;
  _tile_loadconfig(&kTileConfig);
  for (uint32_t panel = 0; panel < gemm.n_panels; panel += kPanelsAtOnce) {
    const bool two_panels = gemm.n_panels - panel >= 2;
    for (uint32_t p = 0; p < 1u + two_panels; ++p) {
      const std::byte* from = gemm.panels + (panel + p) * layout.panel_bytes;
      expand_scales(layout, from, true, scales, minimums);
      expand(layout, from, scales, minimums, weights + p * panel_bytes);
    }
    float* const sums = (direct ? gemm.out : gemm.sums.data) + panel * panel_stride;
    for (uint32_t row = 0; row < gemm.n_rows; row += 2 * kTileRows) {
      const uint32_t n = std::min<uint32_t>(2 * kTileRows, gemm.n_rows - row);
      // Complete tiles are stored as the result, others through a copy.
      alignas(64) float copy[2][2 * kTileRows * kPanelOutputs];
      const bool whole = !direct || n % kTileRows == 0;
      multiply_tiles<OneBF16>(n > kTileRows, two_panels,
                              static_cast<const std::byte*>(gemm.rows) + row * gemm.row_bytes,
                              gemm.row_bytes * kTileRows, weights, panel_bytes, n_steps,
                              whole ? sums + row * stride : copy[0], whole ? stride : kPanelOutputs,
                              whole ? panel_stride : std::size(copy[0]), [](uint32_t) {});
      for (uint32_t p = 0; !whole && p < 1u + two_panels; ++p) {
        for (uint32_t r = 0; r < n; ++r) {
          std::memcpy(sums + p * panel_stride + (row + r) * stride, copy[p] + r * kPanelOutputs,
                      sizeof(float) * kPanelOutputs);
        }
      }
    }
  }
  _tile_release();
}

size_t gemm_blocks_amx_scratch_bytes(const PackedLayout& layout) {
  return expanded_scale_bytes(layout) + kPanelsAtOnce * (layout.n_in / kBlockInputs) * kTileBytes;
}

}  // namespace vesper
#endif
