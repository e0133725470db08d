#include "llm/cpu/matmul/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/packed_blocks.h"
#include "llm/dtype/number_conversion.h"

namespace vesper {
namespace {

// The fields of a format's word, from the lowest bit on.
constexpr uint32_t kStorageBits = 3, kInputsBits = 2, kRowMajorBits = 1, kCodeBits = 4,
                   kScaleBits = 2, kGroupBits = 8, kMinimumBits = 1, kZeroBits = 8;

// Removes and returns the lowest bits of a word.
uint32_t take(uint32_t& word, uint32_t bits) {
  const uint32_t field = word & ((1u << bits) - 1);
  word >>= bits;
  return field;
}

// 16 rows of pairs to a panel [n_pairs][16]; a null row gives zeros.
template <class Pair>
void interleave_pairs(const std::byte* const* rows, uint32_t n_pairs, std::byte* panel) {
  for (uint32_t pair = 0; pair < n_pairs; ++pair) {
    for (uint32_t o = 0; o < kPanelOutputs; ++o) {
      Pair value{};
      if (rows[o] != nullptr) std::memcpy(&value, rows[o] + sizeof(Pair) * pair, sizeof(Pair));
      std::memcpy(panel + sizeof(Pair) * (uint64_t{pair} * kPanelOutputs + o), &value,
                  sizeof(Pair));
    }
  }
}

// Scratch of a packing thread.
struct PackScratch {
  PackScratch(uint32_t n_in, uint32_t padded_n_in)
      : row(n_in), elements(size_t{kPanelOutputs} * padded_n_in * 4) {}
  std::vector<float> row;
  std::vector<std::byte> elements;  // [16] rows of the panel, as stored
  QuantizedRow quantized[kPanelOutputs];
};

class Packer {
 public:
  Packer(const MatrixSource& source, const PackedLayout& layout, std::byte* packed, float* scale)
      : source_(source), layout_(layout), packed_(packed), scale_(scale) {
    const Storage storage = layout.format.storage;
    element_ = storage == Storage::kF32   ? DType::kF32
               : storage == Storage::kF16 ? DType::kF16
                                          : DType::kBF16;
    same_element_ =
        !source.is_convolution() && layout.n_in % 2 == 0 &&
        (storage == Storage::kF32 || storage == Storage::kF16 || storage == Storage::kBF16);
    for (const TensorView* part : source.parts) same_element_ &= part->dtype == element_;
  }

  void pack_panel(uint32_t panel, PackScratch& scratch) const {
    std::byte* const to = packed_ + panel * layout_.panel_bytes;
    const uint32_t first = panel * layout_.panel_outputs;
    const uint32_t n = std::min(layout_.panel_outputs, layout_.n_out - first);
    switch (layout_.format.storage) {
      case Storage::kBlocks:
        for (uint32_t o = 0; o < n; ++o) {
          const MatrixRow at = matrix_row(source_, first + o);
          read_quantized_row(*at.part, at.row, layout_.format.blocks, scratch.quantized[o]);
        }
        return pack_block_panel(layout_, scratch.quantized, n, to);
      case Storage::kI8:
        for (uint32_t o = 0; o < n; ++o) pack_int8_row(first + o, o, to, scratch);
        return;
      case Storage::kThreeBF16:
        for (uint32_t o = 0; o < n; ++o) {
          read_f32(source_, first + o, scratch.row.data());
          pack_three_bf16(o, scratch.row.data(), to);
        }
        return;
      default:
        return pack_floats(first, n, to, scratch);
    }
  }

 private:
  void pack_floats(uint32_t first, uint32_t n, std::byte* to, PackScratch& scratch) const {
    const size_t size = element_ == DType::kF32 ? sizeof(float) : sizeof(uint16_t);
    const size_t row_bytes = size * round_up(layout_.n_in, 2);
    const std::byte* rows[kPanelOutputs] = {};
    for (uint32_t o = 0; o < n; ++o) {
      if (same_element_) {
        rows[o] = matrix_row(source_, first + o).data;
        continue;
      }
      read_f32(source_, first + o, scratch.row.data());
      std::byte* const elements = scratch.elements.data() + o * row_bytes;
      store_elements(scratch.row.data(), elements);
      rows[o] = elements;
    }
    if (layout_.panel_outputs == 1) {
      std::memcpy(to, rows[0], layout_.panel_bytes);
    } else if (element_ == DType::kF32) {
      interleave_pairs<uint64_t>(rows, (layout_.n_in + 1) / 2, to);
    } else {
      interleave_pairs<uint32_t>(rows, (layout_.n_in + 1) / 2, to);
    }
  }

  // A row as elements of the storage. The element after an odd last one stays 0.
  void store_elements(const float* row, std::byte* to) const {
    if (element_ == DType::kF32) {
      std::memcpy(to, row, sizeof(float) * layout_.n_in);
      return;
    }
    auto* const bits = reinterpret_cast<uint16_t*>(to);
    if (element_ == DType::kF16) {
      std::transform(row, row + layout_.n_in, bits, f32_to_f16);
    } else {
      std::transform(row, row + layout_.n_in, bits, f32_to_bf16);
    }
  }

  void pack_three_bf16(uint32_t o, const float* row, std::byte* panel) const {
    auto* const tiles = reinterpret_cast<uint16_t*>(panel);
    constexpr uint32_t kStep = 32, kTile = kStep * kPanelOutputs;
    for (uint32_t i = 0; i < layout_.n_in; ++i) {
      uint16_t* const to =
          tiles + size_t{i / kStep} * 3 * kTile + i % kStep / 2 * 2 * kPanelOutputs + 2 * o + i % 2;
      float left = row[i];
      for (uint32_t term = 0; term < 3; ++term) {
        to[term * kTile] = f32_to_bf16(left);
        left -= bf16_to_f32(to[term * kTile]);
      }
    }
  }

  void pack_int8_row(uint32_t row, uint32_t o, std::byte* panel, PackScratch& scratch) const {
    auto* const weights = reinterpret_cast<int8_t*>(panel);
    auto* const sums =
        reinterpret_cast<int32_t*>(panel + uint64_t{layout_.padded_n_in} * kPanelOutputs);
    int32_t sum = 0;
    const auto put = [&](uint32_t i, int8_t w) {
      weights[(i / 4) * 4 * kPanelOutputs + o * 4 + i % 4] = w;
      sum += w;
    };
    const MatrixRow at = matrix_row(source_, row);
    if (at.part->dtype == DType::kI8 && !source_.is_convolution()) {
      scale_[row] = at.part->scale[at.row];
      for (uint32_t i = 0; i < layout_.n_in; ++i) put(i, static_cast<int8_t>(at.data[i]));
    } else {
      read_f32(source_, row, scratch.row.data());
      float largest = 0.0f;
      for (const float w : scratch.row) largest = std::max(largest, std::abs(w));
      scale_[row] = largest / 127.0f;
      const float inverse = scale_[row] > 0.0f ? 1.0f / scale_[row] : 0.0f;
      for (uint32_t i = 0; i < layout_.n_in; ++i) {
        put(i, static_cast<int8_t>(std::lrintf(scratch.row[i] * inverse)));
      }
    }
    sums[o] = sum;
  }

  const MatrixSource& source_;
  const PackedLayout& layout_;
  std::byte* packed_;
  float* scale_;
  DType element_;
  bool same_element_ = false;  // the source has rows of stored elements
};

// For a matrix of floats of a decoder: the widest format of the parts. Quantized files fit in f16
// (8 bits times an f16 scale). f32 and bf16 files may exceed the range of f16.
Storage choose_float_storage(const MatrixSource& source, bool in_16_bits) {
  bool any_f32 = false, any_bf16 = false, any_other = false;
  for (const TensorView* part : source.parts) {
    any_f32 |= part->dtype == DType::kF32;
    any_bf16 |= part->dtype == DType::kBF16;
    any_other |= part->dtype != DType::kF32 && part->dtype != DType::kBF16;
  }
  if (!any_f32 && !any_bf16) return Storage::kF16;
  return in_16_bits || (!any_f32 && !any_other) ? Storage::kBF16 : Storage::kF32;
}

InputFormat inputs_of_blocks(Compute compute) {
  switch (compute) {
    case Compute::kAuto:
      return InputFormat::kFastest;
    case Compute::kI8:
      return InputFormat::kI8;
    case Compute::kBF16:
      return InputFormat::kBF16;
    default:
      return InputFormat::kF32;
  }
}

}  // namespace

uint32_t PackedFormat::word() const {
  uint32_t word = 0, shift = 0;
  const auto put = [&](uint32_t field, uint32_t bits) {
    word |= field << shift;
    shift += bits;
  };
  put(static_cast<uint32_t>(storage), kStorageBits);
  put(static_cast<uint32_t>(inputs), kInputsBits);
  put(row_major, kRowMajorBits);
  if (storage == Storage::kBlocks) {
    put(blocks.bits, kCodeBits);
    put(static_cast<uint32_t>(blocks.scale), kScaleBits);
    put(blocks.group, kGroupBits);
    put(blocks.has_minimum, kMinimumBits);
    put(blocks.zero, kZeroBits);
  }
  return word;
}

std::optional<PackedFormat> PackedFormat::from_word(uint32_t word) {
  const uint32_t whole = word;
  const uint32_t storage = take(word, kStorageBits);
  if (storage > static_cast<uint32_t>(Storage::kBlocks)) return std::nullopt;
  PackedFormat format;
  format.storage = static_cast<Storage>(storage);
  format.inputs = static_cast<InputFormat>(take(word, kInputsBits));
  format.row_major = take(word, kRowMajorBits) != 0;
  if (format.storage == Storage::kBlocks) {
    format.blocks.bits = take(word, kCodeBits);
    format.blocks.scale = static_cast<ScaleKind>(take(word, kScaleBits));
    format.blocks.group = take(word, kGroupBits);
    format.blocks.has_minimum = take(word, kMinimumBits) != 0;
    format.blocks.zero = take(word, kZeroBits);
  }
  if (format.word() != whole) return std::nullopt;
  return format;
}

PackedLayout packed_layout(const PackedFormat& format, uint32_t n_out, uint32_t n_in) {
  PackedLayout layout{};
  layout.format = format;
  layout.n_out = n_out;
  layout.n_in = n_in;
  layout.panel_outputs = format.row_major ? 1 : kPanelOutputs;
  layout.n_panels = (n_out + layout.panel_outputs - 1) / layout.panel_outputs;
  switch (format.storage) {
    case Storage::kBlocks:
      lay_out_blocks(layout);
      return layout;
    case Storage::kI8:
      layout.padded_n_in = round_up(n_in, 64);
      layout.panel_bytes = uint64_t{layout.padded_n_in} * kPanelOutputs + 4 * kPanelOutputs;
      return layout;
    default:
      break;
  }
  layout.padded_n_in = format.row_major ? n_in : round_up(n_in, 32);
  const uint32_t element_bytes = format.storage == Storage::kF32         ? 4
                                 : format.storage == Storage::kThreeBF16 ? 6
                                                                         : 2;
  layout.panel_bytes = uint64_t{layout.padded_n_in} * layout.panel_outputs * element_bytes;
  return layout;
}

PackedFormat choose_packed_format(const MatrixSource& source, WeightUse use, Compute compute) {
  if (use == WeightUse::kManyRows) {
    switch (compute) {
      case Compute::kI8:
        return {Storage::kI8, InputFormat::kI8};
      case Compute::kBF16:
        return {Storage::kBF16, InputFormat::kBF16};
      default:
        return {cpu_features().amx ? Storage::kThreeBF16 : Storage::kF32, InputFormat::kF32};
    }
  }
  if (const std::optional<BlockFormat> blocks = block_format(source)) {
    return {Storage::kBlocks, inputs_of_blocks(compute), false, *blocks};
  }
  if (compute == Compute::kI8) return {Storage::kI8, InputFormat::kI8};
  const bool in_16_bits = compute == Compute::kBF16 || compute == Compute::kAuto;
  const Storage storage = choose_float_storage(source, in_16_bits);
  if (use == WeightUse::kLookup) return {storage, InputFormat::kF32, true};
  return {storage, in_16_bits ? InputFormat::kFastest : InputFormat::kF32};
}

void pack_weight(const MatrixSource& source, const PackedLayout& layout, std::byte* packed,
                 float* scale, ThreadPool& pool) {
  check_matrix("cpu", source);
  const Packer packer(source, layout, packed, scale);
  std::vector<PackScratch> scratch(pool.n_threads(), PackScratch(layout.n_in, layout.padded_n_in));
  // A few panels per task: a panel of a narrow matrix is packed in less than a microsecond.
  const uint32_t panels_per_task = 8 * kPanelOutputs / layout.panel_outputs;
  pool.for_each((layout.n_panels + panels_per_task - 1) / panels_per_task,
                [&](uint32_t task, uint32_t thread) {
                  const uint32_t first = task * panels_per_task;
                  const uint32_t end = std::min(first + panels_per_task, layout.n_panels);
                  for (uint32_t panel = first; panel < end; ++panel) {
                    packer.pack_panel(panel, scratch[thread]);
                  }
                });
}

}  // namespace vesper
