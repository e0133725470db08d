#include "llm/cpu/matmul/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "error/error.h"
#include "llm/cpu/matmul/block_layout.h"
#include "llm/cpu/number_conversion.h"

namespace vesper {
namespace {

// Where a row of the source lies.
struct SourceRow {
  const TensorView* part;
  const std::byte* data;
  uint32_t row_of_part;
};

SourceRow find_row(const MatrixSource& source, uint32_t row, uint32_t n_in) {
  uint64_t left = row;
  for (const TensorView* part : source.parts) {
    if (left < part->shape[0]) {
      return {part,
              static_cast<const std::byte*>(part->data) + dtype_bytes(part->dtype, left * n_in),
              static_cast<uint32_t>(left)};
    }
    left -= part->shape[0];
  }
  throw Error(ErrorKind::kInternal, "cpu: row " + std::to_string(row) + " is below the matrix");
}

// 16 rows of elements of the packed size, as they are: a transposition of pairs.
template <class Pair>
void transpose_pairs(const std::byte* const* rows, uint32_t n_pairs, std::byte* panel) {
  for (uint32_t pair = 0; pair < n_pairs; ++pair) {
    for (uint32_t o = 0; o < kPanelOutputs; ++o) {
      Pair value{};
      if (rows[o] != nullptr) std::memcpy(&value, rows[o] + sizeof(Pair) * pair, sizeof(Pair));
      std::memcpy(panel + sizeof(Pair) * (uint64_t{pair} * kPanelOutputs + o), &value,
                  sizeof(Pair));
    }
  }
}

void store_element(DType element, float value, std::byte* to) {
  if (element == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    const uint16_t bits = element == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(to, &bits, sizeof(bits));
  }
}

class Packer {
 public:
  Packer(const MatrixSource& source, const WeightLayout& layout, std::byte* packed, float* scale)
      : source_(source), layout_(layout), packed_(packed), scale_(scale) {
    same_element_ = !source.convolution && layout.n_in % 2 == 0 && layout.element != DType::kI8;
    for (const TensorView* part : source.parts) same_element_ &= part->dtype == layout.element;
  }

  // `scratch` has 2 * n_in floats, `rows` 16 rows.
  void pack_panel(uint32_t panel, float* scratch, QuantizedRow* rows) const {
    std::byte* to = packed_ + panel * layout_.panel_bytes;
    const uint32_t first = panel * layout_.panel_outputs;
    const uint32_t n = std::min(layout_.panel_outputs, layout_.n_out - first);
    if (layout_.blocks.bits != 0) {
      for (uint32_t o = 0; o < n; ++o) {
        const SourceRow at = find_row(source_, first + o, layout_.n_in);
        read_quantized_row(*at.part, at.row_of_part, layout_.blocks, rows[o]);
      }
      return pack_block_panel(layout_, rows, n, to);
    }
    if (same_element_ && layout_.panel_outputs == 1) {
      std::memcpy(to, find_row(source_, first, layout_.n_in).data, layout_.panel_bytes);
      return;
    }
    if (same_element_) return pack_same(first, n, to);
    for (uint32_t o = 0; o < n; ++o) {
      if (layout_.element == DType::kI8) {
        pack_int8_row(first + o, o, to, scratch);
      } else {
        read_source_row(source_, first + o, layout_.n_in, scratch + layout_.n_in, scratch);
        const uint64_t size = layout_.element == DType::kF32 ? 4 : 2;
        for (uint32_t i = 0; i < layout_.n_in; ++i) {
          store_element(layout_.element, scratch[i],
                        to + size * ((i / 2) * 2 * layout_.panel_outputs + o * 2 + i % 2));
        }
      }
    }
  }

 private:
  void pack_same(uint32_t first, uint32_t n, std::byte* to) const {
    const std::byte* rows[kPanelOutputs] = {};
    for (uint32_t o = 0; o < n; ++o) rows[o] = find_row(source_, first + o, layout_.n_in).data;
    if (layout_.element == DType::kF32) {
      transpose_pairs<uint64_t>(rows, layout_.n_in / 2, to);
    } else {
      transpose_pairs<uint32_t>(rows, layout_.n_in / 2, to);
    }
  }

  void pack_int8_row(uint32_t row, uint32_t o, std::byte* panel, float* scratch) const {
    auto* const weights = reinterpret_cast<int8_t*>(panel);
    auto* const sums =
        reinterpret_cast<int32_t*>(panel + uint64_t{layout_.padded_n_in} * kPanelOutputs);
    const auto place = [&](uint32_t i) { return (i / 4) * 4 * kPanelOutputs + o * 4 + i % 4; };
    int32_t sum = 0;
    const SourceRow at = find_row(source_, row, layout_.n_in);
    if (at.part->dtype == DType::kI8 && !source_.convolution) {
      scale_[row] = at.part->scale.empty() ? 1.0f : at.part->scale[at.row_of_part];
      for (uint32_t i = 0; i < layout_.n_in; ++i) {
        const auto w = static_cast<int8_t>(at.data[i]);
        weights[place(i)] = w;
        sum += w;
      }
    } else {
      read_source_row(source_, row, layout_.n_in, scratch + layout_.n_in, scratch);
      float largest = 0.0f;
      for (uint32_t i = 0; i < layout_.n_in; ++i) largest = std::max(largest, std::abs(scratch[i]));
      const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
      scale_[row] = largest / 127.0f;
      for (uint32_t i = 0; i < layout_.n_in; ++i) {
        const auto w = static_cast<int8_t>(std::lrintf(scratch[i] * inverse));
        weights[place(i)] = w;
        sum += w;
      }
    }
    sums[o] = sum;
  }

  const MatrixSource& source_;
  const WeightLayout& layout_;
  std::byte* packed_;
  float* scale_;
  bool same_element_ = false;
};

}  // namespace

bool is_in_panels(CpuWeightFormat format) {
  if (is_in_blocks(format)) return true;
  switch (format) {
    case CpuWeightFormat::kF32:
    case CpuWeightFormat::kF16:
    case CpuWeightFormat::kBF16:
    case CpuWeightFormat::kI8:
    case CpuWeightFormat::kF16Tiles:
    case CpuWeightFormat::kBF16Tiles:
      return true;
    case CpuWeightFormat::kEncoder:
    case CpuWeightFormat::kF32Rows:
    case CpuWeightFormat::kF16Rows:
    case CpuWeightFormat::kBF16Rows:
      break;
  }
  return false;
}

bool is_in_rows(CpuWeightFormat format) {
  return format == CpuWeightFormat::kF32Rows || format == CpuWeightFormat::kF16Rows ||
         format == CpuWeightFormat::kBF16Rows;
}

WeightLayout weight_layout(CpuWeightFormat format, uint32_t n_out, uint32_t n_in) {
  WeightLayout layout{};
  layout.n_out = n_out;
  layout.n_in = n_in;
  const bool in_rows = is_in_rows(format);
  layout.panel_outputs = in_rows ? 1 : kPanelOutputs;
  layout.n_panels = round_up(n_out, layout.panel_outputs) / layout.panel_outputs;
  if (is_in_blocks(format)) {
    layout.blocks = block_format(format);
    lay_out_blocks(layout);
    return layout;
  }
  switch (format) {
    case CpuWeightFormat::kF32:
    case CpuWeightFormat::kF32Rows:
      layout.element = DType::kF32;
      break;
    case CpuWeightFormat::kF16:
    case CpuWeightFormat::kF16Tiles:
    case CpuWeightFormat::kF16Rows:
      layout.element = DType::kF16;
      break;
    case CpuWeightFormat::kBF16:
    case CpuWeightFormat::kBF16Tiles:
    case CpuWeightFormat::kBF16Rows:
      layout.element = DType::kBF16;
      break;
    case CpuWeightFormat::kI8:
      layout.element = DType::kI8;
      layout.padded_n_in = round_up(n_in, 64);
      layout.panel_bytes = uint64_t{layout.padded_n_in} * kPanelOutputs + 4 * kPanelOutputs;
      return layout;
    default:
      throw Error(ErrorKind::kInternal, "cpu: weight format " +
                                            std::to_string(static_cast<uint32_t>(format)) +
                                            " is not laid out in panels or rows");
  }
  layout.padded_n_in = in_rows ? n_in : round_up(n_in, 32);
  layout.panel_bytes = uint64_t{layout.padded_n_in} * layout.panel_outputs *
                       (layout.element == DType::kF32 ? sizeof(float) : sizeof(uint16_t));
  return layout;
}

namespace {

// Of a matrix that is multiplied.
CpuWeightFormat choose_panel_format(const MatrixSource& source, Compute compute) {
  if (const std::optional<BlockFormat> blocks = block_format(source)) {
    return name_blocks(*blocks, compute == Compute::kAuto   ? BlockProducts::kFastest
                                : compute == Compute::kI8   ? BlockProducts::kI8
                                : compute == Compute::kBF16 ? BlockProducts::kBF16
                                                            : BlockProducts::kF32);
  }
  if (compute == Compute::kI8) return CpuWeightFormat::kI8;
  // The widest of what the parts have. Quantized files fit in f16: 8 bits times an f16 scale.
  bool any_f32 = false, any_bf16 = false, any_other = false;
  for (const TensorView* part : source.parts) {
    any_f32 |= part->dtype == DType::kF32;
    any_bf16 |= part->dtype == DType::kBF16;
    any_other |= part->dtype != DType::kF32 && part->dtype != DType::kBF16;
  }
  // f32 and bf16 files may hold numbers beyond f16's range.
  if (compute == Compute::kBF16 || compute == Compute::kAuto) {
    return any_f32 || any_bf16 ? CpuWeightFormat::kBF16Tiles : CpuWeightFormat::kF16Tiles;
  }
  if (any_bf16 && !any_f32 && !any_other) return CpuWeightFormat::kBF16;
  return any_f32 || any_bf16 ? CpuWeightFormat::kF32 : CpuWeightFormat::kF16;
}

}  // namespace

CpuWeightFormat choose_weight_format(const MatrixSource& source, WeightUse use, Compute compute) {
  const CpuWeightFormat format = choose_panel_format(source, compute);
  if (use != WeightUse::kLookup) return format;
  switch (format) {
    case CpuWeightFormat::kF32:
      return CpuWeightFormat::kF32Rows;
    case CpuWeightFormat::kF16:
    case CpuWeightFormat::kF16Tiles:
      return CpuWeightFormat::kF16Rows;
    case CpuWeightFormat::kBF16:
    case CpuWeightFormat::kBF16Tiles:
      return CpuWeightFormat::kBF16Rows;
    default:
      return format;
  }
}

void read_source_row(const MatrixSource& source, uint32_t row, uint32_t n_in, float* scratch,
                     float* out) {
  const SourceRow at = find_row(source, row, n_in);
  float* const to = source.convolution ? scratch : out;
  if (at.part->dtype == DType::kI8) {
    const float scale = at.part->scale.empty() ? 1.0f : at.part->scale[at.row_of_part];
    for (uint32_t i = 0; i < n_in; ++i) {
      to[i] = static_cast<float>(static_cast<int8_t>(at.data[i])) * scale;
    }
  } else if (is_affine(at.part->dtype)) {
    read_affine_row(*at.part, at.row_of_part, to);
  } else {
    dtype_descriptor(at.part->dtype).to_f32(at.data, to, n_in);
  }
  if (source.convolution) {
    const auto width = static_cast<uint32_t>(at.part->shape[2]), channels = n_in / width;
    for (uint32_t c = 0; c < channels; ++c) {
      for (uint32_t tap = 0; tap < width; ++tap) out[tap * channels + c] = to[c * width + tap];
    }
  }
}

void require_readable(const MatrixSource& source) {
  for (const TensorView* part : source.parts) {
    const DTypeDescriptor& descriptor = dtype_descriptor(part->dtype);
    if (part->dtype != DType::kI8 && !is_affine(part->dtype) && descriptor.to_f32 == nullptr) {
      throw Error(ErrorKind::kModel, "tensor " + part->file_name + ": no product reads format " +
                                         std::string(descriptor.name));
    }
    uint64_t n_in = 1;
    for (size_t i = 1; i < part->shape.size(); ++i) n_in *= part->shape[i];
    const uint64_t block = is_affine(part->dtype) ? part->groups.group : descriptor.block;
    if (n_in % block != 0) {
      throw Error(ErrorKind::kModel,
                  "tensor " + part->file_name + ": expected rows of whole blocks of " +
                      std::to_string(block) + " numbers, found rows of " + std::to_string(n_in));
    }
  }
}

void pack_weight(const MatrixSource& source, const WeightLayout& layout, std::byte* packed,
                 float* scale, ThreadPool& pool) {
  require_readable(source);
  const Packer packer(source, layout, packed, scale);
  std::vector<float> scratch(size_t{2} * layout.n_in * pool.n_threads());
  std::vector<QuantizedRow> rows(size_t{kPanelOutputs} * pool.n_threads());
  // A few panels a task: a panel of a narrow matrix is packed in less than a microsecond.
  const uint32_t panels_per_task = 8 * kPanelOutputs / layout.panel_outputs;
  pool.for_each((layout.n_panels + panels_per_task - 1) / panels_per_task,
                [&](uint32_t task, uint32_t thread) {
                  const uint32_t first = task * panels_per_task;
                  const uint32_t end = std::min(first + panels_per_task, layout.n_panels);
                  for (uint32_t panel = first; panel < end; ++panel) {
                    packer.pack_panel(panel, scratch.data() + size_t{2} * layout.n_in * thread,
                                      rows.data() + size_t{kPanelOutputs} * thread);
                  }
                });
}

}  // namespace vesper
