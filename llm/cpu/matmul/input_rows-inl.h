// Converts a command's input rows to the layout of a GEMM micro-kernel (input_rows.h). Compiled
// once per instruction set (Highway's foreach_target), so there is no plain include guard.
#if defined(VESPER_LLM_CPU_INPUT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_INPUT_ROWS_INL_H_
#undef VESPER_LLM_CPU_INPUT_ROWS_INL_H_
#else
#define VESPER_LLM_CPU_INPUT_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "llm/cpu/matmul/input_rows.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

HWY_INLINE float largest_magnitude(const float* row, uint32_t n) {
  const F32 d;
  VF32 most = hn::Zero(d);
  for (uint32_t i = 0; i < n; i += kLanes) most = hn::Max(most, hn::Abs(hn::LoadU(d, row + i)));
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// A row of f32 [padded_n_in] as int8 at to[at(i)]; returns its scale.
template <class Int, class At>
HWY_INLINE float quantize_row(const float* row, uint32_t padded, Int* to, const At& at) {
  const F32 d;
  const hn::Rebind<int32_t, F32> d32;
  const hn::Rebind<Int, F32> d8;
  const float scale = largest_magnitude(row, padded) / 127.0f;
  const VF32 inverse = hn::Set(d, scale > 0.0f ? 1.0f / scale : 0.0f);
  const auto offset = hn::Set(d32, std::is_same_v<Int, uint8_t> ? 128 : 0);
  for (uint32_t i = 0; i < padded; i += kLanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, row + i), inverse));
    hn::StoreU(hn::DemoteTo(d8, hn::Add(rounded, offset)), d8, to + at(i));
  }
  return scale;
}

// A row of f32 as int8 in blocks of 32 (Int8BlockRow).
inline HWY_NOINLINE void quantize_blocks(const float* row, const PackedLayout& layout,
                                         std::byte* to) {
  const F32 d;
  const hn::Rebind<int32_t, F32> d32;
  const hn::Rebind<int8_t, F32> d8;
  const Int8BlockRow at(layout);
  const uint32_t group = expanded_group(layout.format.blocks);
  const auto zero = static_cast<int32_t>(layout.format.blocks.zero);
  for (uint32_t i = 0; i < layout.n_in; i += kBlockInputs) {
    const float largest = largest_magnitude(row + i, kBlockInputs);
    const VF32 inverse = hn::Set(d, largest > 0.0f ? 127.0f / largest : 0.0f);
    const float scale = largest / 127.0f;
    std::memcpy(to + Int8BlockRow::kScale, &scale, sizeof scale);
    for (uint32_t g = 0; g < kBlockInputs; g += group) {
      auto sum = hn::Zero(d32);
      for (uint32_t j = g; j < g + group; j += kLanes) {
        const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, row + i + j), inverse));
        hn::StoreU(hn::DemoteTo(d8, rounded), d8, reinterpret_cast<int8_t*>(to) + j);
        sum = hn::Add(sum, rounded);
      }
      const int32_t total = hn::GetLane(hn::SumOfLanes(d32, sum)), start = -zero * total;
      const float scaled_total = static_cast<float>(total) * scale;
      const uint32_t offset = g / group * 4;
      std::memcpy(to + Int8BlockRow::kStarts + offset, &start, sizeof start);
      std::memcpy(to + Int8BlockRow::kSums + offset, &scaled_total, sizeof scaled_total);
    }
    to += at.block_bytes;
  }
}

// A row of f32 [padded_n_in] as 16-bit integers (I16Row).
inline HWY_NOINLINE void quantize_to_i16(const float* row, const PackedLayout& layout,
                                         std::byte* to) {
  const F32 d;
  const hn::Rebind<int16_t, F32> d16;
  const I16Row at(layout);
  for (uint32_t block = 0; block < at.n_blocks; ++block) {
    const uint32_t begin = block * kI16Inputs;
    const uint32_t end = std::min(begin + kI16Inputs, layout.padded_n_in);
    const float largest = largest_magnitude(row + begin, end - begin);
    const VF32 inverse = hn::Set(d, largest > 0.0f ? kI16RowLimit / largest : 0.0f);
    for (uint32_t i = begin; i < end; i += kLanes) {
      const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, row + i), inverse));
      hn::StoreU(hn::DemoteTo(d16, rounded), d16, reinterpret_cast<int16_t*>(to) + i);
    }
    const float scale = largest / kI16RowLimit;
    std::memcpy(to + at.scales_offset + block * sizeof scale, &scale, sizeof scale);
  }
}

// A row of f32 [padded_n_in] as the sum of kTerms bf16, each the rounded rest of the previous ones,
// in tiles [padded_n_in / 32, kTerms, 16, 32]. `tiles` is the row's part of the first tile.
template <uint32_t kTerms>
HWY_NOINLINE void split_to_tiles(const float* row, uint32_t padded, BF16* tiles) {
  constexpr uint32_t kWidth = 32, kTile = kFewRows * kWidth;
  for (uint32_t i = 0; i < padded; i += kLanes) {
    BF16* to = tiles + size_t{i / kWidth} * kTerms * kTile + i % kWidth;
    VF32 left = hn::LoadU(F32(), row + i);
    for (uint32_t term = 0; term < kTerms; ++term, to += kTile) {
      store_f32(left, to);
      if (term + 1 < kTerms) left = hn::Sub(left, load_f32(to));
    }
  }
}

// Converts row `r` of a block; returns its scale, if the layout has one. The row starts at element
// `start` of `in`. Converted rows are at `rows`, row_bytes apart; `passing` has padded_n_in floats.
inline HWY_NOINLINE float convert_row(RowLayout to, const PackedLayout& layout, uint32_t in_dtype,
                                      const void* in, size_t start, uint32_t r, size_t row_bytes,
                                      std::byte* rows, float* passing) {
  const uint32_t n_in = layout.n_in, padded = layout.padded_n_in;
  std::byte* const to_row = rows + r * row_bytes;
  // For tiles: the row's tile, and its 64 bytes in it.
  std::byte* const to_tiles =
      rows + r / kFewRows * (kFewRows * row_bytes) + size_t{r % kFewRows} * 64;
  if (in_dtype == kDTypeBF16 && (to == RowLayout::kBF16 || to == RowLayout::kBF16Tiles)) {
    // Copies 64 bytes at a time.
    constexpr uint32_t kWidth = 32;
    const bool in_tiles = to == RowLayout::kBF16Tiles;
    auto* bits = reinterpret_cast<BF16*>(in_tiles ? to_tiles : to_row);
    const BF16* from = static_cast<const BF16*>(in) + start;
    for (uint32_t i = 0; i < padded; i += kWidth, from += kWidth) {
      const uint32_t n = i < n_in ? std::min(kWidth, n_in - i) : 0;
      std::memcpy(bits, from, n * sizeof(BF16));
      std::memset(bits + n, 0, (kWidth - n) * sizeof(BF16));
      bits += in_tiles ? kWidth * kFewRows : kWidth;
    }
    return 1.0f;
  }
  float* const row = to == RowLayout::kF32 ? reinterpret_cast<float*>(to_row) : passing;
  read_numbers(in_dtype, in, start, n_in, row);
  std::fill(row + n_in, row + padded, 0.0f);
  const auto in_order = [](uint32_t i) { return size_t{i}; };
  switch (to) {
    case RowLayout::kF32:
      break;
    case RowLayout::kBF16:
      convert(row, padded, reinterpret_cast<BF16*>(to_row));
      break;
    case RowLayout::kI8:
      return quantize_row(row, padded, reinterpret_cast<int8_t*>(to_row), in_order);
    case RowLayout::kI8Unsigned:
      return quantize_row(row, padded, reinterpret_cast<uint8_t*>(to_row), in_order);
    case RowLayout::kI8Tiles:
      return quantize_row(row, padded, reinterpret_cast<int8_t*>(to_tiles),
                          [](uint32_t i) { return size_t{i / 64} * 64 * kFewRows + i % 64; });
    case RowLayout::kBF16Tiles:
      split_to_tiles<1>(row, padded, reinterpret_cast<BF16*>(to_tiles));
      break;
    case RowLayout::kTwoBF16Tiles:
      split_to_tiles<2>(row, padded, reinterpret_cast<BF16*>(to_tiles));
      break;
    case RowLayout::kThreeBF16Tiles:
      split_to_tiles<3>(row, padded, reinterpret_cast<BF16*>(to_tiles));
      break;
    case RowLayout::kI8Blocks:
      quantize_blocks(row, layout, to_row);
      break;
    case RowLayout::kI16Blocks:
      quantize_to_i16(row, layout, to_row);
      break;
  }
  return 1.0f;
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif
