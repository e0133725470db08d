// Products of AMX tiles: 32 x 32 sums at a time. Included within Highway's loop over instruction
// sets, and there only for the one that AMX comes with (VESPER_AMX_TARGET is 1).
#if defined(VESPER_LLM_CPU_AMX_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_AMX_TILES_INL_H_
#undef VESPER_LLM_CPU_AMX_TILES_INL_H_
#else
#define VESPER_LLM_CPU_AMX_TILES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "llm/cpu/amx_tile.h"

#undef VESPER_AMX_TARGET
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define VESPER_AMX_TARGET 1
#include <immintrin.h>

#define VESPER_AMX __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

constexpr size_t kGroup = 32;  // rows, and columns, that are accumulated together

// sums [32][32] = or += a times b over n_steps of the inner dimension. Both are [n_steps][2][1024]
// bytes: for each step two tiles of 16 rows of a, and two of 16 columns of b with 2 bf16 of the
// inner dimension side by side.
template <bool kAccumulate>
VESPER_AMX HWY_INLINE void multiply_tiles(const uint8_t* a, const uint8_t* b, size_t n_steps,
                                          float* sums) {
  uint8_t* out = reinterpret_cast<uint8_t*>(sums);
  constexpr size_t kStride = kGroup * sizeof(float);
  if constexpr (kAccumulate) {
    _tile_loadd(0, out, kStride);
    _tile_loadd(1, out + kTileRowBytes, kStride);
    _tile_loadd(2, out + kTileRows * kStride, kStride);
    _tile_loadd(3, out + kTileRows * kStride + kTileRowBytes, kStride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (size_t step = 0; step < n_steps; ++step, a += 2 * kTileBytes, b += 2 * kTileBytes) {
    _tile_loadd(4, a, kTileRowBytes);
    _tile_loadd(6, b, kTileRowBytes);
    _tile_loadd(7, b + kTileBytes, kTileRowBytes);
    _tile_loadd(5, a + kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, kStride);
  _tile_stored(1, out + kTileRowBytes, kStride);
  _tile_stored(2, out + kTileRows * kStride, kStride);
  _tile_stored(3, out + kTileRows * kStride + kTileRowBytes, kStride);
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();
#else
#define VESPER_AMX_TARGET 0
#endif

#endif
