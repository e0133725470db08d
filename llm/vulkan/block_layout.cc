#include "llm/vulkan/block_layout.h"

#include <cstring>

namespace vesper {
namespace {

uint32_t n_kinds(const BlockFormat& format) { return format.has_minimum ? 2 : 1; }
uint32_t scale_bytes(const BlockFormat& format) { return format.scale == ScaleKind::kF32 ? 4 : 2; }

// Writes `width` bits of every code, from bit `low` on, to a plane; answers where it ends.
std::byte* write_plane(const QuantizedRow& row, uint32_t width, uint32_t low, std::byte* to) {
  const uint32_t quads_a_word = 8 / width;
  for (size_t i = 0; i < row.codes.size(); ++i) {
    const size_t quad = i / 4;
    const uint32_t part = row.codes[i] >> low & ((1u << width) - 1);
    to[quad / quads_a_word * 4 + i % 4] |=
        static_cast<std::byte>(part << (quad % quads_a_word * width));
  }
  return to + row.codes.size() * width / 8;
}

}  // namespace

uint32_t name_blocks(const BlockFormat& format) {
  return kWeightBlocks | format.bits << 9 | static_cast<uint32_t>(format.scale) << 13 |
         format.group / 16 << 15 | (n_kinds(format) - 1) << 19 | format.zero << 20;
}

uint64_t code_row_bytes(const BlockFormat& format, uint32_t n_in) {
  return (uint64_t{n_in} / 8 * format.bits + 15) / 16 * 16;
}

uint64_t scale_row_bytes(const BlockFormat& format, uint32_t n_in) {
  const uint64_t n_groups = n_in / format.group;
  if (format.scale != ScaleKind::kParts) return n_groups * n_kinds(format) * scale_bytes(format);
  const uint64_t halves = n_in / kPartsBlock * n_kinds(format);
  return (2 * halves + n_groups * n_kinds(format) + 3) / 4 * 4;
}

void write_block_row(const BlockFormat& format, const QuantizedRow& row, std::byte* codes,
                     std::byte* scales) {
  std::memset(codes, 0, code_row_bytes(format, static_cast<uint32_t>(row.codes.size())));
  if (format.bits == 8) {
    std::memcpy(codes, row.codes.data(), row.codes.size());
  } else {
    uint32_t low = 0;
    for (const uint32_t width : {4u, 2u, 1u}) {
      if ((format.bits & width) == 0) continue;
      codes = write_plane(row, width, low, codes);
      low += width;
    }
  }
  const auto put = [&](const void* value, size_t bytes) {
    std::memcpy(scales, value, bytes);
    scales += bytes;
  };
  for (size_t i = 0; i < row.scales.size(); ++i) {
    put(&row.scales[i], scale_bytes(format));
    if (format.has_minimum) put(&row.minimums[i], scale_bytes(format));
  }
  for (size_t i = 0; i < row.part_scales.size(); ++i) {
    put(&row.part_scales[i], 1);
    if (format.has_minimum) put(&row.part_minimums[i], 1);
  }
}

}  // namespace vesper
