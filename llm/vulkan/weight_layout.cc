#include "llm/vulkan/weight_layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "error/error.h"
#include "llm/vulkan/block_layout.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vesper {
namespace {

constexpr uint32_t kColumnUnit = 32;

uint16_t f32_to_f16_bits(float value) {
  // Rounds to nearest even. Above the largest f16: infinity. Below the smallest normal one: the sum
  // with a constant leaves the rounded subnormal in the low bits.
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above
  if (magnitude < 0x38800000u) {
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void to_f16_f16c(const float* in, uint16_t* out, uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) out[i] = f32_to_f16_bits(in[i]);
}
#endif

void to_f16(const float* in, uint16_t* out, uint64_t n) {
#if defined(__x86_64__)
  static const bool has_f16c = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  if (has_f16c) return to_f16_f16c(in, out, n);
#endif
  for (uint64_t i = 0; i < n; ++i) out[i] = f32_to_f16_bits(in[i]);
}

uint64_t format_bytes(DType format) {
  return format == DType::kF32 ? 4 : format == DType::kF16 ? 2 : 1;
}

// The part with row `row` of the whole matrix; `row` becomes the row within it.
const TensorView& part_of(const MatrixSource& source, uint32_t& row) {
  for (const TensorView* part : source.parts) {
    if (row < part->shape[0]) return *part;
    row -= static_cast<uint32_t>(part->shape[0]);
  }
  throw Error(ErrorKind::kInternal, "a row past the end of a matrix");
}

// Reorders [channels, width] to [width, channels].
template <class T>
void transpose_taps(const T* in, T* out, uint64_t channels, uint64_t width) {
  for (uint64_t c = 0; c < channels; ++c) {
    for (uint64_t w = 0; w < width; ++w) out[w * channels + c] = in[c * width + w];
  }
}

}  // namespace

uint32_t WeightLayout::weight_format() const {
  return blocks.bits != 0 ? name_blocks(blocks) : static_cast<uint32_t>(format);
}

WeightLayout weight_layout(const MatrixSource& source, WeightUse use, Compute compute) {
  if (source.parts.empty()) throw Error(ErrorKind::kInternal, "a matrix of no parts");
  WeightLayout layout;
  uint64_t n_out = 0, n_in = 0;
  bool all_f16 = true, all_i8 = true, any_i8 = false, any_f32 = false;
  for (const TensorView* part : source.parts) {
    const auto fail = [part](const std::string& what) {
      return Error(ErrorKind::kModel, "tensor " + part->file_name + ": " + what);
    };
    const size_t rank = source.convolution ? 3 : 2;
    if (part->shape.size() != rank) {
      throw fail("expected " + std::to_string(rank) + " dimensions, found " +
                 std::to_string(part->shape.size()));
    }
    const DTypeDescriptor& dtype = dtype_descriptor(part->dtype);
    const bool is_i8 = part->dtype == DType::kI8;
    if (!is_i8 && !dtype.to_f32 && !is_affine(part->dtype)) {
      throw fail(std::string("format ") + dtype.name + " has no kernel on a Vulkan device");
    }
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max() - kColumnUnit;
    uint64_t columns = 1;
    for (size_t i = 1; i < rank; ++i) {
      if (part->shape[i] == 0 || part->shape[i] > kMost / columns)
        throw fail("its shape overflows");
      columns *= part->shape[i];
    }
    if (n_in != 0 && columns != n_in) {
      throw fail("expected " + std::to_string(n_in) + " columns, found " + std::to_string(columns));
    }
    n_in = columns;
    if (part->shape[0] == 0 || part->shape[0] > kMost - n_out) throw fail("its shape overflows");
    n_out += part->shape[0];
    const uint32_t block = is_affine(part->dtype) ? part->groups.group : dtype.block;
    if (columns % block != 0) {
      throw fail("rows of " + std::to_string(columns) + " elements are no multiple of the " +
                 std::to_string(block) + " of a block of " + dtype.name);
    }
    // n_out * n_in is below about 2^40 in any model; 2^48 keeps bytes below 2^50.
    if (part->shape[0] > (uint64_t{1} << 48) / columns ||
        part->bytes < part->shape[0] * (columns / dtype.block) * dtype.block_bytes) {
      throw fail("expected data for its shape, found " + std::to_string(part->bytes) + " bytes");
    }
    if (is_i8 && part->scale.size() != part->shape[0]) {
      throw fail("expected a scale for each row, found " + std::to_string(part->scale.size()));
    }
    all_i8 = all_i8 && is_i8;
    any_i8 = any_i8 || is_i8;
    all_f16 = all_f16 && part->dtype == DType::kF16;
    any_f32 = any_f32 || part->dtype == DType::kF32 || part->dtype == DType::kBF16;
  }
  layout.n_out = static_cast<uint32_t>(n_out);
  layout.n_in = static_cast<uint32_t>(n_in);
  if (use != WeightUse::kManyRows) {
    if (const std::optional<BlockFormat> blocks = block_format(source)) {
      layout.blocks = *blocks;
      layout.row_bytes = code_row_bytes(*blocks, layout.n_in);
      layout.scale_bytes = scale_row_bytes(*blocks, layout.n_in);
      return layout;
    }
  }
  if (all_i8 || (compute == Compute::kI8 && !source.convolution)) {
    layout.format = DType::kI8;
  } else if (compute == Compute::kF32 && (any_f32 || any_i8)) {
    layout.format = DType::kF32;
  } else {
    layout.format = DType::kF16;
  }
  layout.row_bytes =
      (n_in + kColumnUnit - 1) / kColumnUnit * kColumnUnit * format_bytes(layout.format);
  layout.scale_bytes = layout.format == DType::kI8 ? sizeof(float) : 0;
  return layout;
}

void write_rows(const MatrixSource& source, const WeightLayout& layout, uint32_t first, uint32_t n,
                std::byte* out, std::byte* row_scales) {
  const uint64_t n_in = layout.n_in;
  if (layout.blocks.bits != 0) {
    QuantizedRow codes;
    // `out` may be write-combined memory, which is very slow to read.
    std::vector<std::byte> packed(layout.row_bytes);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t row = first + i;
      const TensorView& part = part_of(source, row);
      read_quantized_row(part, row, layout.blocks, codes);
      write_block_row(layout.blocks, codes, packed.data(), row_scales + i * layout.scale_bytes);
      std::memcpy(out + i * layout.row_bytes, packed.data(), layout.row_bytes);
    }
    return;
  }
  auto* const scales = reinterpret_cast<float*>(row_scales);
  const uint64_t row_bytes = n_in * format_bytes(layout.format);
  std::vector<float> values(n_in), reordered(source.convolution ? n_in : 0);
  std::vector<int8_t> bytes(n_in);
  for (uint32_t i = 0; i < n; ++i, out += layout.row_bytes) {
    uint32_t row = first + i;
    const TensorView& part = part_of(source, row);
    const DTypeDescriptor& dtype = dtype_descriptor(part.dtype);
    const auto* from =
        static_cast<const std::byte*>(part.data) + row * (n_in / dtype.block) * dtype.block_bytes;
    std::memset(out + row_bytes, 0, layout.row_bytes - row_bytes);
    const bool same = part.dtype == layout.format;
    if (same && !source.convolution) {
      std::memcpy(out, from, row_bytes);
      if (part.dtype == DType::kI8) scales[i] = part.scale[row];
      continue;
    }
    if (part.dtype == DType::kI8) {
      const auto* integers = reinterpret_cast<const int8_t*>(from);
      const float scale = same ? 1.0f : part.scale[row];
      for (uint64_t k = 0; k < n_in; ++k) values[k] = static_cast<float>(integers[k]) * scale;
    } else if (is_affine(part.dtype)) {
      read_affine_row(part, row, values.data());
    } else {
      dtype.to_f32(from, values.data(), n_in);
    }
    if (source.convolution) {
      transpose_taps(values.data(), reordered.data(), part.shape[1], part.shape[2]);
      values.swap(reordered);
    }
    if (layout.format == DType::kF32) {
      std::memcpy(out, values.data(), row_bytes);
    } else if (layout.format == DType::kF16) {
      to_f16(values.data(), reinterpret_cast<uint16_t*>(out), n_in);
    } else {
      float greatest = 0.0f;
      for (const float value : values) greatest = std::max(greatest, std::abs(value));
      const float scale = same ? 1.0f : greatest / 127.0f;
      const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
      for (uint64_t k = 0; k < n_in; ++k) {
        bytes[k] =
            static_cast<int8_t>(std::lrint(std::clamp(values[k] * inverse, -127.0f, 127.0f)));
      }
      std::memcpy(out, bytes.data(), row_bytes);
      scales[i] = same ? part.scale[row] : scale;
    }
  }
}

}  // namespace vesper
