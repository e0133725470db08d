#include "llm/dtype/quantized_row.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "llm/dtype/number_conversion.h"

namespace vesper {
namespace {

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

// Reads the separate scales and biases of a tensor from group `first` on.
void read_groups(const TensorView::Groups& groups, uint64_t first, QuantizedRow& out) {
  const uint64_t size = dtype_descriptor(groups.dtype).block_bytes;
  const auto* scales = static_cast<const uint8_t*>(groups.scales) + first * size;
  const auto* biases = static_cast<const uint8_t*>(groups.biases) + first * size;
  for (uint64_t g = 0; g < out.scales.size(); ++g) {
    out.scales[g] = out.minimums[g] = 0;
    std::memcpy(&out.scales[g], scales + g * size, size);
    std::memcpy(&out.minimums[g], biases + g * size, size);
  }
}

// Elements [first, first + n) in the tensor's own format.
void read_codes(const TensorView& tensor, const BlockFormat& format, uint64_t first, uint64_t n,
                QuantizedRow& out) {
  resize(format, n, out);
  const DTypeDescriptor& dtype = dtype_descriptor(tensor.dtype);
  const auto* blocks =
      static_cast<const uint8_t*>(tensor.data) + first / dtype.block * dtype.block_bytes;
  dtype.unpack(blocks, n / dtype.block,
               {out.codes.data(), out.scales.data(), out.minimums.data(), out.part_scales.data(),
                out.part_minimums.data()});
  if (tensor.groups.group != 0) read_groups(tensor.groups, first / format.group, out);
}

float scale_value(ScaleKind kind, uint32_t bits) {
  switch (kind) {
    case ScaleKind::kF32:
      return std::bit_cast<float>(bits);
    case ScaleKind::kBF16:
      return bf16_to_f32(static_cast<uint16_t>(bits));
    default:
      return f16_to_f32(static_cast<uint16_t>(bits));
  }
}

// Of the group of element `i`. The minimum is 0 if the format has none.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum group_scale(const BlockFormat& format, const QuantizedRow& row, uint64_t i) {
  const bool parts = format.scale == ScaleKind::kParts;
  const uint64_t group = i / format.group, at = parts ? i / kPartsBlock : group;
  ScaleAndMinimum value{scale_value(format.scale, row.scales[at]), 0};
  if (format.has_minimum) value.minimum = scale_value(format.scale, row.minimums[at]);
  if (parts) value.scale *= row.part_scales[group];
  if (parts && format.has_minimum) value.minimum *= row.part_minimums[group];
  return value;
}

}  // namespace

std::optional<BlockFormat> block_format(const TensorView& tensor) {
  BlockFormat format = dtype_descriptor(tensor.dtype).blocks;
  if (format.bits == 0) return std::nullopt;
  if (format.group == 0) {
    format.group = tensor.groups.group;
    format.scale = tensor.groups.dtype == DType::kF32   ? ScaleKind::kF32
                   : tensor.groups.dtype == DType::kF16 ? ScaleKind::kF16
                                                        : ScaleKind::kBF16;
  }
  return format;
}

std::optional<BlockFormat> block_format(const MatrixSource& source) {
  if (source.is_convolution()) return std::nullopt;
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

void read_quantized_row(const TensorView& tensor, uint64_t row, const BlockFormat& as,
                        QuantizedRow& out) {
  const BlockFormat own = *block_format(tensor);
  const uint64_t n = tensor.shape[1];
  if (own == as) return read_codes(tensor, own, row * n, n, out);
  QuantizedRow passing;
  read_codes(tensor, own, row * n, n, passing);
  resize(as, n, out);
  out.codes.swap(passing.codes);
  for (uint64_t g = 0; g < out.scales.size(); ++g) {
    auto [scale, minimum] = group_scale(own, passing, g * as.group);
    if (!own.has_minimum) minimum = -scale * static_cast<float>(own.zero);
    out.scales[g] = std::bit_cast<uint32_t>(scale);
    out.minimums[g] = std::bit_cast<uint32_t>(minimum);
  }
}

void dequantize(const TensorView& tensor, uint64_t first, uint64_t n, float* out) {
  constexpr uint64_t kAtOnce = 4 * kPartsBlock;  // a multiple of every row_unit()
  const BlockFormat format = *block_format(tensor);
  const auto zero = static_cast<int>(format.zero);
  QuantizedRow row;
  for (uint64_t begin = 0; begin < n; begin += kAtOnce) {
    const uint64_t here = std::min(kAtOnce, n - begin);
    read_codes(tensor, format, first + begin, here, row);
    for (uint64_t i = 0; i < here; i += format.group) {
      const auto [scale, minimum] = group_scale(format, row, i);
      const uint8_t* codes = row.codes.data() + i;
      float* to = out + begin + i;
      if (format.has_minimum) {
        for (uint32_t j = 0; j < format.group; ++j) {
          to[j] = scale * static_cast<float>(codes[j]) + minimum;
        }
      } else {
        for (uint32_t j = 0; j < format.group; ++j) {
          to[j] = scale * static_cast<float>(codes[j] - zero);
        }
      }
    }
  }
}

}  // namespace vesper
