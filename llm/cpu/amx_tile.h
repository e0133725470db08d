// The shape of AMX tiles for all kernels that use them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vesper {

// A tile: 16 consecutive rows of 64 bytes.
inline constexpr size_t kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;

// The operand of ldtilecfg: palette 1 has eight tiles.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// For _tile_loadconfig(). It must be a constant of the program: GCC's intrinsic declares a read of
// the first 8 bytes only, so the compiler may leave out the other stores to a local variable, and
// ldtilecfg then faults.
inline constexpr TileConfig kTileConfig;

}  // namespace vesper
