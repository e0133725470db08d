#include "llm/vulkan/kernels/block_layout.h"

#include <cstring>

namespace vesper {
namespace {

uint32_t n_kinds(const BlockFormat& format) { return format.has_minimum ? 2 : 1; }
uint32_t scale_bytes(const BlockFormat& format) { return format.scale == ScaleKind::kF32 ? 4 : 2; }

// Writes kWidth bits of every code, from bit `low` on, to a plane; returns its end.
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
    if (format.bits & 4) codes = write_plane<4>(row, low, codes), low += 4;
    if (format.bits & 2) codes = write_plane<2>(row, low, codes), low += 2;
    if (format.bits & 1) write_plane<1>(row, low, codes);
  }
  const bool is_wide = format.scale == ScaleKind::kF32;
  const auto put = [&](uint32_t value) {
    std::memcpy(scales, &value, is_wide ? 4 : 2);  // 16-bit scales are in the low half
    scales += is_wide ? 4 : 2;
  };
  for (size_t i = 0; i < row.scales.size(); ++i) {
    put(row.scales[i]);
    if (format.has_minimum) put(row.minimums[i]);
  }
  for (size_t i = 0; i < row.part_scales.size(); ++i) {
    *scales++ = static_cast<std::byte>(row.part_scales[i]);
    if (format.has_minimum) *scales++ = static_cast<std::byte>(row.part_minimums[i]);
  }
}

}  // namespace vesper
