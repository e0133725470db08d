#include "llm/vulkan/kernels/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "error/error.h"
#include "llm/dtype/number_conversion.h"
#include "llm/vulkan/kernels/block_layout.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vesper {
namespace {

constexpr uint32_t kColumnUnit = 32;

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void to_f16_f16c(const float* in, uint16_t* out, uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  }
  _mm256_zeroupper();  // see read_f16s_f16c in llm/dtype/dtype.cc
  for (; i < n; ++i) out[i] = f32_to_f16(in[i]);
}
#endif

void to_f16(const float* in, uint16_t* out, uint64_t n) {
#if defined(__x86_64__)
  // Every CPU with AVX2 has F16C, whose name clang does not know here.
  static const bool has_f16c = __builtin_cpu_supports("avx2");
  if (has_f16c) return to_f16_f16c(in, out, n);
#endif
  for (uint64_t i = 0; i < n; ++i) out[i] = f32_to_f16(in[i]);
}

uint64_t format_bytes(DType format) {
  return format == DType::kF32 ? 4 : format == DType::kF16 ? 2 : 1;
}

// Rows [matrix_side, padded n_in] in the order of matrices. A pair of columns is a word.
void order_matrices(const WeightLayout& layout, const std::byte* rows, std::byte* out) {
  const uint64_t words = layout.row_bytes / 4;  // of a row
  const auto copy = [&](uint64_t row, uint64_t word, uint64_t n) {
    std::memcpy(out, rows + (row * words + word) * 4, n * 4);
    out += n * 4;
  };
  for (uint64_t word = 0; word < words; word += layout.matrix_side / 2) {
    for (uint64_t row = 0; row < 8; ++row) {
      if (layout.matrix_side == 8) {
        copy(row, word, 4);
        continue;
      }
      for (uint64_t pair = word; pair < word + 4; ++pair) {
        copy(row, pair, 1);
        copy(row, pair + 4, 1);
        copy(row + 8, pair, 1);
        copy(row + 8, pair + 4, 1);
      }
    }
  }
}

void write_matrices(const MatrixSource& source, const WeightLayout& layout, uint32_t first,
                    uint32_t n, std::byte* out) {
  WeightLayout in_rows = layout;
  in_rows.matrix_side = 0;
  // `out` may be write-combined memory, which is very slow to read.
  std::vector<std::byte> rows(layout.matrix_side * layout.row_bytes);
  for (uint32_t end = first + n; first < end; first += layout.matrix_side) {
    const uint32_t step = layout.has_gates ? 4 : layout.matrix_side;
    for (uint32_t i = 0; i < layout.matrix_side; i += step) {
      const uint32_t at = first + i;
      const uint32_t row = layout.has_gates ? at % 8 / 4 * (layout.n_out / 2) + at / 8 * 4 : at;
      write_rows(source, in_rows, row, step, rows.data() + i * layout.row_bytes, nullptr);
    }
    order_matrices(layout, rows.data(), out);
    out += rows.size();
  }
}

}  // namespace

uint32_t WeightLayout::weight_format() const {
  if (blocks.bits != 0) return name_blocks(blocks);
  return static_cast<uint32_t>(format) | (matrix_side != 0 ? kWeightInMatrices : 0) |
         (has_gates ? kWeightGatesInMatrices : 0);
}

WeightLayout weight_layout(const MatrixSource& source, WeightUse use, Compute compute,
                           uint32_t matrix_side) {
  if (source.parts.empty()) throw Error(ErrorKind::kInternal, "a matrix of no parts");
  WeightLayout layout;
  uint64_t n_out = 0, n_in = 0;
  bool all_f16 = true, all_i8 = true, any_i8 = false, any_f32 = false;
  check_matrix("vulkan", source);
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max() - kColumnUnit;
  for (const TensorView* part : source.parts) {
    n_in = part->n_elements() / part->shape[0];
    if (n_in > kMost || part->shape[0] > kMost - n_out) {
      throw Error(ErrorKind::kModel, "tensor " + part->file_name + ": its shape overflows");
    }
    n_out += part->shape[0];
    const bool is_i8 = part->dtype == DType::kI8;
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
  if (all_i8 || (compute == Compute::kI8 && !source.is_convolution())) {
    layout.format = DType::kI8;
  } else if (compute == Compute::kF32 && (any_f32 || any_i8)) {
    layout.format = DType::kF32;
  } else {
    layout.format = DType::kF16;
  }
  layout.row_bytes =
      (n_in + kColumnUnit - 1) / kColumnUnit * kColumnUnit * format_bytes(layout.format);
  layout.scale_bytes = layout.format == DType::kI8 ? sizeof(float) : 0;
  const bool only_on_matrix_units = use == WeightUse::kManyRows && compute != Compute::kF32 &&
                                    source.kind != MatrixKind::kExperts && n_in % 8 == 0;
  if (matrix_side != 0 && only_on_matrix_units && layout.format == DType::kF16 &&
      n_out % matrix_side == 0) {
    layout.matrix_side = matrix_side;
    layout.has_gates = source.kind == MatrixKind::kGates;
  }
  return layout;
}

void write_rows(const MatrixSource& source, const WeightLayout& layout, uint32_t first, uint32_t n,
                std::byte* out, std::byte* row_scales) {
  if (layout.matrix_side != 0) return write_matrices(source, layout, first, n, out);
  const uint64_t n_in = layout.n_in;
  if (layout.blocks.bits != 0) {
    QuantizedRow codes;
    // `out` may be write-combined memory, which is very slow to read.
    std::vector<std::byte> packed(layout.row_bytes);
    for (uint32_t i = 0; i < n; ++i) {
      const MatrixRow row = matrix_row(source, first + i);
      read_quantized_row(*row.part, row.row, layout.blocks, codes);
      write_block_row(layout.blocks, codes, packed.data(), row_scales + i * layout.scale_bytes);
      std::memcpy(out + i * layout.row_bytes, packed.data(), layout.row_bytes);
    }
    return;
  }
  auto* const scales = reinterpret_cast<float*>(row_scales);
  const uint64_t row_bytes = n_in * format_bytes(layout.format);
  std::vector<float> values;
  std::vector<int8_t> bytes;
  for (uint32_t i = 0; i < n; ++i, out += layout.row_bytes) {
    const MatrixRow row = matrix_row(source, first + i);
    const TensorView& part = *row.part;
    std::memset(out + row_bytes, 0, layout.row_bytes - row_bytes);
    const bool same = part.dtype == layout.format;
    if (same && !source.is_convolution()) {
      std::memcpy(out, row.data, row_bytes);
      if (part.dtype == DType::kI8) scales[i] = part.scale[row.row];
      continue;
    }
    values.resize(n_in);
    read_f32(source, first + i, values.data());
    if (layout.format == DType::kF32) {
      std::memcpy(out, values.data(), row_bytes);
    } else if (layout.format == DType::kF16) {
      to_f16(values.data(), reinterpret_cast<uint16_t*>(out), n_in);
    } else {
      float greatest = 0.0f;
      for (const float value : values) greatest = std::max(greatest, std::abs(value));
      const float scale = same ? part.scale[row.row] : greatest / 127.0f;
      const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
      bytes.resize(n_in);
      for (uint64_t k = 0; k < n_in; ++k) {
        bytes[k] =
            static_cast<int8_t>(std::lrint(std::clamp(values[k] * inverse, -127.0f, 127.0f)));
      }
      std::memcpy(out, bytes.data(), row_bytes);
      scales[i] = scale;
    }
  }
}

}  // namespace vesper
