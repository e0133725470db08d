// The shape of AMX tiles, as every kernel that multiplies with them loads it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vesper {

// A tile: 16 rows of 64 bytes, one after the other.
inline constexpr size_t kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;

// What ldtilecfg reads: palette 1 has eight tiles.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

}  // namespace vesper
