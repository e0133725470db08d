#include "llm/cpu/matmul/packed_blocks.h"

#include <bit>
#include <cstring>

#include "llm/dtype/number_conversion.h"

namespace vesper {
namespace {

uint32_t scale_bytes(ScaleKind kind) { return kind == ScaleKind::kF32 ? 4 : 2; }
// Per group: a scale, and a minimum if the format has them.
uint32_t n_kinds(const BlockFormat& format) { return format.has_minimum ? 2 : 1; }
uint32_t scale_inputs(const BlockFormat& format) {
  return format.scale == ScaleKind::kParts ? kPartsBlock : format.group;
}

// The bits of quad k in a plane: byte offset of its 64 bytes in the block, and lowest bit.
struct Plane {
  uint32_t at, shift;
};
Plane plane_of_8(uint32_t k) { return {64 * k, 0}; }
Plane plane_of_4(uint32_t k) { return {64 * (k % 4), 4 * (k / 4)}; }
Plane plane_of_2(uint32_t k) { return {64 * (k / 4), 2 * (k % 4)}; }
Plane plane_of_1(uint32_t k) { return {0, k}; }

template <class Visit>
void for_each_plane(uint32_t bits, uint32_t k, const Visit& visit) {
  // visit(plane, width, lowest bit in the code)
  if (bits == 8) return visit(plane_of_8(k), 8u, 0u);
  uint32_t start = 0, low = 0;
  if (bits >= 4) {
    visit(plane_of_4(k), 4u, 0u);
    start = 256, low = 4;
  }
  if (bits - low >= 2) {
    const Plane plane = plane_of_2(k);
    visit(Plane{start + plane.at, plane.shift}, 2u, low);
    start += 128, low += 2;
  }
  if (bits - low == 1) {
    const Plane plane = plane_of_1(k);
    visit(Plane{start + plane.at, plane.shift}, 1u, low);
  }
}

// Packs a block's codes of one output, whose words begin at `to`, four codes at a time.
void pack_output(uint32_t bits, const uint8_t* codes, std::byte* to) {
  uint32_t quads[8];
  std::memcpy(quads, codes, sizeof quads);
  const auto put = [&](uint32_t word) {
    std::memcpy(to, &word, sizeof word);
    to += 64;
  };
  if (bits == 8) {
    for (const uint32_t quad : quads) put(quad);
    return;
  }
  uint32_t low = 0;
  if (bits >= 4) {
    for (uint32_t k = 0; k < 4; ++k) {
      put((quads[k] & 0x0f0f0f0f) | (quads[k + 4] & 0x0f0f0f0f) << 4);
    }
    low = 4;
  }
  if (bits - low >= 2) {
    for (uint32_t k = 0; k < 8; k += 4) {
      uint32_t word = 0;
      for (uint32_t f = 0; f < 4; ++f) word |= (quads[k + f] >> low & 0x03030303) << 2 * f;
      put(word);
    }
    low += 2;
  }
  if (bits - low == 1) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < 8; ++k) word |= (quads[k] >> low & 0x01010101) << k;
    put(word);
  }
}

void store_scale(ScaleKind kind, uint32_t bits, std::byte* to) {
  std::memcpy(to, &bits, scale_bytes(kind));
}

float load_scale(ScaleKind kind, const std::byte* from) {
  if (kind == ScaleKind::kF32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return kind == ScaleKind::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

}  // namespace

void lay_out_blocks(PackedLayout& layout) {
  const BlockFormat& format = layout.format.blocks;
  layout.padded_n_in = layout.n_in;
  const uint32_t row_of_scales = kPanelOutputs * n_kinds(format);
  layout.sub_scales_offset =
      round_up(layout.n_in / scale_inputs(format) * row_of_scales * scale_bytes(format.scale), 64);
  layout.codes_offset = layout.sub_scales_offset;
  if (format.scale == ScaleKind::kParts) {
    layout.codes_offset += round_up(layout.n_in / format.group * row_of_scales, 64);
  }
  layout.panel_bytes =
      layout.codes_offset + uint64_t{layout.n_in / kBlockInputs} * 64 * format.bits;
}

void pack_block_panel(const PackedLayout& layout, const QuantizedRow* rows, uint32_t n_rows,
                      std::byte* panel) {
  const BlockFormat& format = layout.format.blocks;
  const uint32_t size = scale_bytes(format.scale), kinds = n_kinds(format);
  const auto at = [&](uint32_t group, uint32_t kind, uint32_t output) {
    return size_t{group * kinds + kind} * kPanelOutputs + output;
  };
  for (uint32_t o = 0; o < n_rows; ++o) {
    const QuantizedRow& row = rows[o];
    for (uint32_t g = 0; g < row.scales.size(); ++g) {
      store_scale(format.scale, row.scales[g], panel + size * at(g, 0, o));
      if (kinds == 2) {
        store_scale(format.scale, row.minimums[g], panel + size * at(g, 1, o));
      }
    }
    std::byte* const sub_scales = panel + layout.sub_scales_offset;
    for (uint32_t g = 0; g < row.part_scales.size(); ++g) {
      sub_scales[at(g, 0, o)] = static_cast<std::byte>(row.part_scales[g]);
      if (kinds == 2) sub_scales[at(g, 1, o)] = static_cast<std::byte>(row.part_minimums[g]);
    }
    std::byte* block = panel + layout.codes_offset + sizeof(uint32_t) * o;
    for (uint32_t i = 0; i < layout.n_in; i += kBlockInputs, block += 64 * format.bits) {
      pack_output(format.bits, row.codes.data() + i, block);
    }
  }
}

void read_block(const PackedLayout& layout, const std::byte* panel, uint32_t output, uint32_t first,
                float* out) {
  const BlockFormat& format = layout.format.blocks;
  const uint32_t size = scale_bytes(format.scale), kinds = n_kinds(format);
  float scale[2], minimum[2];  // of each half block
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t i = first + half * kBlockInputs / 2, group = i / format.group;
    const uint32_t at = i / scale_inputs(format) * kinds * kPanelOutputs + output;
    scale[half] = load_scale(format.scale, panel + size_t{size} * at);
    minimum[half] = -scale[half] * static_cast<float>(format.zero);
    if (kinds == 2) {
      minimum[half] = load_scale(format.scale, panel + size_t{size} * (at + kPanelOutputs));
    }
    if (format.scale != ScaleKind::kParts) continue;
    const auto* sub_scales = reinterpret_cast<const int8_t*>(panel + layout.sub_scales_offset) +
                             group * kinds * kPanelOutputs + output;
    scale[half] *= sub_scales[0];
    minimum[half] *= kinds == 2 ? sub_scales[kPanelOutputs] : sub_scales[0];
  }
  const std::byte* const block =
      panel + layout.codes_offset + size_t{first / kBlockInputs} * 64 * format.bits;
  for (uint32_t i = 0; i < kBlockInputs; ++i) {
    uint32_t code = 0;
    for_each_plane(format.bits, i / 4, [&](Plane plane, uint32_t width, uint32_t low) {
      const auto byte = static_cast<uint32_t>(block[plane.at + 4 * output + i % 4]);
      code |= (byte >> plane.shift & ((1u << width) - 1)) << low;
    });
    const uint32_t half = i / (kBlockInputs / 2);
    out[i] = scale[half] * static_cast<float>(code) + minimum[half];
  }
}

}  // namespace vesper
