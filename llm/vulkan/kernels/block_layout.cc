#include "llm/vulkan/kernels/block_layout.h"

#include <cstring>

namespace vesper {
namespace {

uint32_t n_kinds(const BlockFormat& format) { return format.has_minimum ? 2 : 1; }
uint32_t scale_bytes(const BlockFormat& format) {
  return format.scale == ScaleKind::kParts ? 1 : format.scale == ScaleKind::kF32 ? 4 : 2;
}
uint64_t padded(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

// Bytes of the scales of kPartsBlock columns in a row of scales, before those of groups.
uint64_t whole_scale_bytes(const BlockFormat& format, uint32_t n_in) {
  if (format.scale != ScaleKind::kParts) return 0;
  return padded(uint64_t{n_in} / kPartsBlock * 2 * n_kinds(format));
}

// Writes kWidth bits of every code, from bit `low` on, to a plane; returns its end. The second and
// third of four codes are exchanged.
template <uint32_t kWidth>
std::byte* write_plane(const QuantizedRow& row, uint32_t low, std::byte* to) {
  constexpr uint32_t kQuads = 8 / kWidth, kMask = ((1u << kWidth) - 1) * 0x01010101u;
  const size_t n_words = row.codes.size() * kWidth / 32;
  const uint8_t* codes = row.codes.data();
  for (size_t i = 0; i < n_words; ++i, codes += 4 * kQuads) {
    uint32_t word = 0;
    for (uint32_t q = 0; q < kQuads; ++q) {
      uint32_t quad;
      std::memcpy(&quad, codes + 4 * q, sizeof quad);
      quad = (quad & 0xff0000ff) | (quad & 0xff00) << 8 | (quad >> 8 & 0xff00);
      word |= (quad >> low & kMask) << (q * kWidth);
    }
    std::memcpy(to + 4 * i, &word, sizeof word);
  }
  return to + 4 * n_words;
}

}  // namespace

uint32_t name_blocks(const BlockFormat& format) {
  return kWeightBlocks | format.bits << 9 | static_cast<uint32_t>(format.scale) << 13 |
         format.group / 16 << 15 | (n_kinds(format) - 1) << 19 | format.zero << 20;
}

bool names_minimums(uint32_t weight_format) { return (weight_format >> 19 & 1) != 0; }

uint64_t code_row_bytes(const BlockFormat& format, uint32_t n_in) {
  return padded(uint64_t{n_in} / 8 * format.bits);
}

uint64_t scale_row_bytes(const BlockFormat& format, uint32_t n_in) {
  const uint64_t n_groups = uint64_t{n_in} / format.group * n_kinds(format);
  return whole_scale_bytes(format, n_in) + padded(n_groups * scale_bytes(format));
}

void write_block_row(const BlockFormat& format, const QuantizedRow& row, std::byte* codes,
                     std::byte* scales) {
  const auto n_in = static_cast<uint32_t>(row.codes.size());
  std::memset(codes, 0, code_row_bytes(format, n_in));
  std::memset(scales, 0, scale_row_bytes(format, n_in));
  uint32_t low = 0;
  if (format.bits & 8) codes = write_plane<8>(row, low, codes), low += 8;
  if (format.bits & 4) codes = write_plane<4>(row, low, codes), low += 4;
  if (format.bits & 2) codes = write_plane<2>(row, low, codes), low += 2;
  if (format.bits & 1) write_plane<1>(row, low, codes);
  std::byte* parts = scales + whole_scale_bytes(format, n_in);
  const uint32_t width = format.scale == ScaleKind::kF32 ? 4 : 2;
  const auto put = [&](uint32_t value) {
    std::memcpy(scales, &value, width);  // 16-bit scales are in the low half
    scales += width;
  };
  for (size_t i = 0; i < row.scales.size(); ++i) {
    put(row.scales[i]);
    if (format.has_minimum) put(row.minimums[i]);
  }
  for (size_t i = 0; i < row.part_scales.size(); ++i) {
    *parts++ = static_cast<std::byte>(row.part_scales[i]);
    if (format.has_minimum) *parts++ = static_cast<std::byte>(row.part_minimums[i]);
  }
}

}  // namespace vesper
