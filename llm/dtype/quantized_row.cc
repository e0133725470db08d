#include "llm/dtype/quantized_row.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "llm/dtype/half.h"
#include "llm/dtype/k_quants.h"

namespace vesper {
namespace {

uint16_t u16_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

uint32_t affine_bits(DType dtype) {
  switch (dtype) {
    case DType::kAffine2:
      return 2;
    case DType::kAffine3:
      return 3;
    case DType::kAffine4:
      return 4;
    case DType::kAffine5:
      return 5;
    case DType::kAffine6:
      return 6;
    case DType::kAffine8:
      return 8;
    default:
      return 0;
  }
}

// Byte j of 16 holds element j (low nibble) and j + 16 (high); bit j of `high` is a fifth bit.
void read_nibbles(const uint8_t* from, uint32_t high, uint8_t* codes) {
  // Apart, because compilers make vectors of the plain one.
  if (high == 0) {
    for (uint32_t j = 0; j < 16; ++j) codes[j] = from[j] & 15;
    for (uint32_t j = 0; j < 16; ++j) codes[j + 16] = from[j] >> 4;
    return;
  }
  for (uint32_t j = 0; j < 16; ++j) {
    codes[j] = static_cast<uint8_t>((from[j] & 15) | (high >> j & 1) << 4);
    codes[j + 16] = static_cast<uint8_t>(from[j] >> 4 | (high >> (j + 16) & 1) << 4);
  }
}

// The formats of 32 numbers a block: an f16 scale first, then an f16 minimum in those that have
// one.
void read_simple(DType dtype, const uint8_t* block, uint64_t n, QuantizedRow& out) {
  const uint32_t block_bytes = dtype_descriptor(dtype).block_bytes;
  for (uint64_t i = 0; i < n; i += 32, block += block_bytes) {
    uint8_t* codes = out.codes.data() + i;
    const uint8_t* at = block + 2;
    out.scales[i / 32] = u16_at(block);
    if (dtype == DType::kQ4_1 || dtype == DType::kQ5_1) {
      out.minimums[i / 32] = u16_at(at);
      at += 2;
    }
    if (dtype == DType::kQ8_0) {
      for (uint32_t j = 0; j < 32; ++j) codes[j] = static_cast<uint8_t>(at[j] ^ 0x80);
      continue;
    }
    uint32_t high = 0;
    if (dtype == DType::kQ5_0 || dtype == DType::kQ5_1) {
      std::memcpy(&high, at, sizeof high);
      at += sizeof high;
    }
    read_nibbles(at, high, codes);
    if (dtype == DType::kIQ4_NL) {
      for (uint32_t j = 0; j < 32; ++j) codes[j] = static_cast<uint8_t>(kIq4Values[codes[j]] + 128);
    }
  }
}

// Of q4_k and q5_k: the 6-bit scale and minimum of part `k` of 8, from their 12 bytes.
void read_six_bits(const uint8_t* packed, uint32_t k, int8_t& scale, int8_t& minimum) {
  if (k < 4) {
    scale = static_cast<int8_t>(packed[k] & 63);
    minimum = static_cast<int8_t>(packed[k + 4] & 63);
  } else {
    scale = static_cast<int8_t>((packed[k + 4] & 15) | (packed[k - 4] >> 6) << 4);
    minimum = static_cast<int8_t>(packed[k + 4] >> 4 | (packed[k] >> 6) << 4);
  }
}

// One block of 256 (layouts: llm/dtype/k_quants.h) as codes, and what is worth how much.
struct KQuantBlock {
  uint8_t* codes;                       // [256]
  int8_t *part_scales, *part_minimums;  // [16] or [8]
  uint32_t *scale, *minimum;
};

// The minimums of the file are subtracted; those of a row are added.
constexpr uint32_t kSignOfF16 = 0x8000;

void read_k_quant(DType dtype, const uint8_t* b, const KQuantBlock& to) {
  switch (dtype) {
    case DType::kQ2_K:
      for (uint32_t run = 0; run < 8; ++run) {
        const uint8_t* low = b + 16 + 32 * (run / 4);
        for (uint32_t l = 0; l < 32; ++l) to.codes[32 * run + l] = low[l] >> (2 * (run % 4)) & 3;
      }
      for (uint32_t k = 0; k < 16; ++k) {
        to.part_scales[k] = static_cast<int8_t>(b[k] & 15);
        to.part_minimums[k] = static_cast<int8_t>(b[k] >> 4);
      }
      *to.scale = u16_at(b + 80);
      *to.minimum = u16_at(b + 82) ^ kSignOfF16;
      break;
    case DType::kQ3_K:
      for (uint32_t run = 0; run < 8; ++run) {
        const uint8_t *low = b + 32 + 32 * (run / 4), *high = b;
        for (uint32_t l = 0; l < 32; ++l) {
          to.codes[32 * run + l] =
              static_cast<uint8_t>((low[l] >> (2 * (run % 4)) & 3) | (high[l] >> run & 1) << 2);
        }
      }
      for (uint32_t k = 0; k < 16; ++k) {
        const uint8_t* s = b + 96;
        const int scale = (s[k % 8] >> (4 * (k / 8)) & 15) | (s[8 + k % 4] >> (2 * (k / 4)) & 3)
                                                                 << 4;
        to.part_scales[k] = static_cast<int8_t>(scale - 32);
      }
      *to.scale = u16_at(b + 108);
      break;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const bool fifth = dtype == DType::kQ5_K;
      const uint8_t *high = b + 16, *low = b + (fifth ? 48 : 16);
      for (uint32_t run = 0; run < 8; ++run) {
        const uint8_t* nibbles = low + 32 * (run / 2);
        uint8_t* codes = to.codes + 32 * run;
        for (uint32_t l = 0; l < 32; ++l) codes[l] = nibbles[l] >> (4 * (run % 2)) & 15;
        if (!fifth) continue;
        for (uint32_t l = 0; l < 32; ++l) {
          codes[l] = static_cast<uint8_t>(codes[l] | (high[l] >> run & 1) << 4);
        }
      }
      for (uint32_t k = 0; k < 8; ++k) {
        read_six_bits(b + 4, k, to.part_scales[k], to.part_minimums[k]);
      }
      *to.scale = u16_at(b);
      *to.minimum = u16_at(b + 2) ^ kSignOfF16;
      break;
    }
    default:  // q6_k
      for (uint32_t run = 0; run < 8; ++run) {
        const uint32_t half = run / 4, r = run % 4;
        const uint8_t *low = b + 64 * half + 32 * (r & 1), *high = b + 128 + 32 * half;
        for (uint32_t l = 0; l < 32; ++l) {
          to.codes[32 * run + l] =
              static_cast<uint8_t>((low[l] >> (4 * (r >> 1)) & 15) | (high[l] >> (2 * r) & 3) << 4);
        }
      }
      std::memcpy(to.part_scales, b + 192, 16);
      *to.scale = u16_at(b + 208);
      break;
  }
}

void read_k_quants(DType dtype, const BlockFormat& format, const uint8_t* block, uint64_t n,
                   QuantizedRow& out) {
  const uint32_t block_bytes = dtype_descriptor(dtype).block_bytes;
  for (uint64_t i = 0; i < n; i += kPartsBlock, block += block_bytes) {
    read_k_quant(dtype, block,
                 {out.codes.data() + i, out.part_scales.data() + i / format.group,
                  format.has_minimum ? out.part_minimums.data() + i / format.group : nullptr,
                  out.scales.data() + i / kPartsBlock,
                  format.has_minimum ? out.minimums.data() + i / kPartsBlock : nullptr});
  }
}

void read_affine(const TensorView& tensor, const BlockFormat& format, uint64_t row, uint64_t n,
                 QuantizedRow& out) {
  const uint32_t bits = format.bits;
  const auto* stream = static_cast<const uint8_t*>(tensor.data) + row * (n * bits / 8);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t bit = i * bits;
    uint32_t value = stream[bit / 8];
    if (bit % 8 + bits > 8) value |= uint32_t{stream[bit / 8 + 1]} << 8;
    out.codes[i] = static_cast<uint8_t>(value >> bit % 8 & ((1u << bits) - 1));
  }
  const uint64_t n_groups = n / format.group;
  const uint64_t size = format.scale == ScaleKind::kF32 ? 4 : 2;
  const auto* scales = static_cast<const uint8_t*>(tensor.groups.scales) + row * n_groups * size;
  const auto* biases = static_cast<const uint8_t*>(tensor.groups.biases) + row * n_groups * size;
  for (uint64_t g = 0; g < n_groups; ++g) {
    out.scales[g] = out.minimums[g] = 0;
    std::memcpy(&out.scales[g], scales + g * size, size);
    std::memcpy(&out.minimums[g], biases + g * size, size);
  }
}

void resize(const BlockFormat& format, uint64_t n, QuantizedRow& row) {
  const bool parts = format.scale == ScaleKind::kParts;
  const uint64_t n_scales = n / (parts ? kPartsBlock : format.group);
  const uint64_t n_parts = parts ? n / format.group : 0;
  row.codes.resize(n);
  row.scales.resize(n_scales);
  row.minimums.resize(format.has_minimum ? n_scales : 0);
  row.part_scales.resize(n_parts);
  row.part_minimums.resize(format.has_minimum ? n_parts : 0);
}

void read_own_format(const TensorView& tensor, uint64_t row, const BlockFormat& format,
                     QuantizedRow& out) {
  const uint64_t n = tensor.shape[1];
  resize(format, n, out);
  if (affine_bits(tensor.dtype) != 0) return read_affine(tensor, format, row, n, out);
  const auto* data = static_cast<const uint8_t*>(tensor.data) + dtype_bytes(tensor.dtype, row * n);
  if (format.scale == ScaleKind::kParts) return read_k_quants(tensor.dtype, format, data, n, out);
  read_simple(tensor.dtype, data, n, out);
}

float scale_value(ScaleKind kind, uint32_t bits) {
  switch (kind) {
    case ScaleKind::kF32:
      return std::bit_cast<float>(bits);
    case ScaleKind::kBF16:
      return std::bit_cast<float>(bits << 16);
    default:
      return f16_bits_to_f32(static_cast<uint16_t>(bits));
  }
}

}  // namespace

std::optional<BlockFormat> block_format(const TensorView& tensor) {
  if (tensor.shape.size() != 2) return std::nullopt;
  switch (tensor.dtype) {
    case DType::kQ4_0:
      return BlockFormat{4, ScaleKind::kF16, 32, false, 8};
    case DType::kQ4_1:
      return BlockFormat{4, ScaleKind::kF16, 32, true, 0};
    case DType::kQ5_0:
      return BlockFormat{5, ScaleKind::kF16, 32, false, 16};
    case DType::kQ5_1:
      return BlockFormat{5, ScaleKind::kF16, 32, true, 0};
    case DType::kQ8_0:
      return BlockFormat{8, ScaleKind::kF16, 32, false, 128};
    case DType::kIQ4_NL:  // the values themselves, which have no even steps
      return BlockFormat{8, ScaleKind::kF16, 32, false, 128};
    case DType::kQ2_K:
      return BlockFormat{2, ScaleKind::kParts, 16, true, 0};
    case DType::kQ3_K:
      return BlockFormat{3, ScaleKind::kParts, 16, false, 4};
    case DType::kQ4_K:
      return BlockFormat{4, ScaleKind::kParts, 32, true, 0};
    case DType::kQ5_K:
      return BlockFormat{5, ScaleKind::kParts, 32, true, 0};
    case DType::kQ6_K:
      return BlockFormat{6, ScaleKind::kParts, 16, false, 32};
    default:
      break;
  }
  const uint32_t bits = affine_bits(tensor.dtype);
  if (bits == 0) return std::nullopt;
  const DType scale = tensor.groups.dtype;
  return BlockFormat{bits,
                     scale == DType::kF32    ? ScaleKind::kF32
                     : scale == DType::kBF16 ? ScaleKind::kBF16
                                             : ScaleKind::kF16,
                     tensor.groups.group, true, 0};
}

std::optional<BlockFormat> block_format(const MatrixSource& source) {
  if (source.convolution) return std::nullopt;
  std::optional<BlockFormat> common;
  for (const TensorView* part : source.parts) {
    const std::optional<BlockFormat> format = block_format(*part);
    if (!format) return std::nullopt;
    if (!common) common = format;
    if (*format == *common) continue;
    common->bits = std::max(common->bits, format->bits);
    common->group = std::min(common->group, format->group);
    common->scale = ScaleKind::kF32;
    common->has_minimum = true;
    common->zero = 0;
  }
  return common;
}

ScaleAndMinimum group_scale(const BlockFormat& format, const QuantizedRow& row, uint32_t i) {
  const uint32_t group = i / format.group;
  float scale, minimum = 0;
  if (format.scale == ScaleKind::kParts) {
    const uint32_t block = i / kPartsBlock;
    scale = scale_value(format.scale, row.scales[block]) * row.part_scales[group];
    if (format.has_minimum) {
      minimum = scale_value(format.scale, row.minimums[block]) * row.part_minimums[group];
    }
  } else {
    scale = scale_value(format.scale, row.scales[group]);
    if (format.has_minimum) minimum = scale_value(format.scale, row.minimums[group]);
  }
  if (!format.has_minimum) minimum = -scale * static_cast<float>(format.zero);
  return {scale, minimum};
}

void read_quantized_row(const TensorView& tensor, uint64_t row, const BlockFormat& as,
                        QuantizedRow& out) {
  const BlockFormat own = *block_format(tensor);
  if (own == as) return read_own_format(tensor, row, own, out);
  QuantizedRow passing;
  read_own_format(tensor, row, own, passing);
  resize(as, passing.codes.size(), out);
  out.codes.swap(passing.codes);
  for (uint32_t g = 0; g < out.scales.size(); ++g) {
    const auto [scale, minimum] = group_scale(own, passing, g * as.group);
    out.scales[g] = std::bit_cast<uint32_t>(scale);
    out.minimums[g] = std::bit_cast<uint32_t>(minimum);
  }
}

bool is_affine(DType dtype) { return affine_bits(dtype) != 0; }

void read_affine_row(const TensorView& tensor, uint64_t row, float* out) {
  const BlockFormat format = *block_format(tensor);
  QuantizedRow codes;
  read_own_format(tensor, row, format, codes);
  for (uint32_t i = 0; i < codes.codes.size(); i += format.group) {
    const auto [scale, minimum] = group_scale(format, codes, i);
    for (uint32_t j = i; j < i + format.group; ++j) {
      out[j] = scale * static_cast<float>(codes.codes[j]) + minimum;
    }
  }
}

}  // namespace vesper
