#include "llm/cpu/matmul/encoder_matmul_amx.h"

#include <algorithm>
#include <vector>

#include "error/error.h"
#include "llm/cpu/matmul/matmul_rows.h"
#include "llm/cpu/matmul/tile_config.h"
#include "llm/cpu/number_conversion.h"

#ifndef VESPER_AMX_MATMUL_LAYOUT
#define VESPER_AMX_MATMUL_LAYOUT
namespace vesper {
namespace {

// Elements that a step of the inner dimension takes, and how many steps there are.
constexpr size_t amx_step_elements(Compute compute) { return compute == Compute::kI8 ? 64 : 32; }
constexpr size_t amx_steps(size_t n_in, Compute compute) {
  return (n_in + amx_step_elements(compute) - 1) / amx_step_elements(compute);
}
// Numbers that an element is the sum of.
constexpr size_t amx_parts(Compute compute) { return compute == Compute::kF32 ? 3 : 1; }
// Of a step of 32 outputs or rows, all parts.
constexpr size_t amx_step_bytes(Compute compute) { return amx_parts(compute) * 2 * kTileBytes; }

}  // namespace
}  // namespace vesper
#endif

// AMX comes with AVX-512, so of all instruction sets only that one is compiled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/encoder_matmul_amx.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "llm/cpu/matmul/amx_tiles-inl.h"
#include "llm/cpu/matmul/encoder_rows-inl.h"

#if VESPER_AMX_TARGET && !defined(VESPER_AMX_MATMUL_COMPILED)
#define VESPER_AMX_MATMUL_COMPILED

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Where a row's results go, and what its int8 are worth.
struct RowPlace {
  size_t out, residual;  // elements
  float scale;
};
static_assert(sizeof(RowPlace) == 3 * sizeof(size_t));

// Lays out rows as tiles: row r of group g at tiles + g * n_steps * kStepBytes + (r / 16) KiB. What
// is beyond n_in, and beyond the last row, is zero.
template <class In, Compute kCompute>
void pack_rows(const MatmulParams& params, const void* in, uint32_t first_row, uint32_t n_rows,
               size_t n_steps, uint8_t* tiles, RowPlace* places) {
  constexpr size_t kStep = amx_step_elements(kCompute);
  constexpr size_t kStepBytes = amx_step_bytes(kCompute);
  const size_t n_padded = (n_rows + kTileRows - 1) / kTileRows * kTileRows;
  for (size_t r = 0; r < n_padded; ++r) {
    uint8_t* to = tiles + (r / kGroup) * n_steps * kStepBytes +
                  (r % kGroup / kTileRows) * kTileBytes + r % kTileRows * kTileRowBytes;
    const auto clear = [&] {
      for (size_t part = 0; part < kStepBytes; part += 2 * kTileBytes) {
        std::memset(to + part, 0, kTileRowBytes);
      }
    };
    if (r >= n_rows) {
      for (size_t step = 0; step < n_steps; ++step, to += kStepBytes) clear();
      continue;
    }
    const In* from = static_cast<const In*>(in) + matmul_in_offset(params, first_row + r);
    if constexpr (kCompute == Compute::kI8) places[r].scale = row_scale_i8(from, params.n_in);
    for (size_t k = 0; k < params.n_in; k += kStep, to += kStepBytes) {
      const size_t n = std::min<size_t>(kStep, params.n_in - k);
      if (n < kStep) clear();
      if constexpr (kCompute == Compute::kI8) {
        quantize_row(from + k, n, places[r].scale, reinterpret_cast<int8_t*>(to));
      } else if constexpr (kCompute == Compute::kBF16) {
        convert_row(from + k, n, reinterpret_cast<Bf16Bits*>(to));
      } else {
        split_row(from + k, n, reinterpret_cast<Bf16Bits*>(to),
                  reinterpret_cast<Bf16Bits*>(to + 2 * kTileBytes),
                  reinterpret_cast<Bf16Bits*>(to + 4 * kTileBytes));
      }
    }
  }
}

// 32 x 32 sums that wait to be finished: those of one group of rows and one of columns.
struct Unfinished {
  const void* sums = nullptr;
  const RowPlace* places = nullptr;  // of its rows
  size_t n_rows = 0, n_done = 0;
  size_t column = 0, n_columns = 0;
};

// Finishes rows of a group up to, but without, row `end`.
template <bool kInt8, class Out>
VESPER_AMX HWY_INLINE void finish_rows(const AmxWeight& weight, const MatmulParams& params,
                                       const MatmulOperands& operands, Unfinished& group,
                                       size_t end) {
  using Sum = std::conditional_t<kInt8, int32_t, float>;
  const size_t column = group.column;
  for (; group.n_done < end; ++group.n_done) {
    const RowPlace& place = group.places[group.n_done];
    finish_row(static_cast<const Sum*>(group.sums) + group.n_done * kGroup, group.n_columns,
               place.scale, kInt8 ? weight.column_scale + column : nullptr,
               operands.bias ? operands.bias + column : nullptr, params.activation,
               operands.residual ? operands.residual + place.residual + column : nullptr,
               static_cast<Out*>(operands.out) + place.out + column);
  }
}

template <Compute kCompute, class Out>
VESPER_AMX void multiply(const AmxWeight& weight, const MatmulParams& params,
                         const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                         uint8_t* scratch) {
  constexpr bool kInt8 = kCompute == Compute::kI8;
  const size_t n_steps = amx_steps(weight.n_in, kCompute);
  const size_t group_bytes = n_steps * amx_step_bytes(kCompute);
  const size_t n_groups = (n_rows + kGroup - 1) / kGroup;
  alignas(64) float sums[2][kGroup * kGroup];  // int32 for int8: one being made, one being finished
  uint8_t* tiles = scratch;
  RowPlace* places = reinterpret_cast<RowPlace*>(scratch + n_groups * group_bytes);

  for (uint32_t r = 0; r < n_rows; ++r) {
    places[r] = {matmul_out_offset(params, first_row + r),
                 matmul_residual_offset(params, first_row + r), 1.0f};
  }
  switch (params.in_dtype) {
    case kDTypeF32:
      pack_rows<float, kCompute>(params, operands.in, first_row, n_rows, n_steps, tiles, places);
      break;
    case kDTypeF16:
      pack_rows<hwy::float16_t, kCompute>(params, operands.in, first_row, n_rows, n_steps, tiles,
                                          places);
      break;
    default:
      pack_rows<Bf16Bits, kCompute>(params, operands.in, first_row, n_rows, n_steps, tiles, places);
  }
  const TileConfig config;
  _tile_loadconfig(&config);
  Unfinished last;
  size_t turn = 0;
  for (size_t column = 0; column < weight.n_out; column += kGroup) {
    const uint8_t* b = weight.tiles + column / kGroup * group_bytes;
    for (size_t g = 0; g < n_groups; ++g, turn ^= 1) {
      const size_t rows = std::min<size_t>(kGroup, n_rows - g * kGroup);
      // The group before is finished while this one is multiplied.
      const auto finish = [&](size_t step) VESPER_AMX {
        finish_rows<kInt8, Out>(weight, params, operands, last, (step + 1) * last.n_rows / n_steps);
      };
      const uint8_t* a = tiles + g * group_bytes;
      const bool two_row_tiles = rows > kTileRows;
      if constexpr (kCompute == Compute::kF32) {
        two_row_tiles ? multiply_split_tiles<true>(a, b, n_steps, sums[turn], finish)
                      : multiply_split_tiles<false>(a, b, n_steps, sums[turn], finish);
      } else {
        multiply_tiles<kInt8, false>(a, b, n_steps, two_row_tiles, sums[turn], finish);
      }
      last = {sums[turn], places + g * kGroup,
              rows,       0,
              column,     std::min<size_t>(kGroup, weight.n_out - column)};
    }
  }
  finish_rows<kInt8, Out>(weight, params, operands, last, last.n_rows);
  _tile_release();
}

template <Compute kCompute>
void multiply_to(const AmxWeight& weight, const MatmulParams& params,
                 const MatmulOperands& operands, uint32_t first_row, uint32_t n_rows,
                 uint8_t* scratch) {
  switch (params.out_dtype) {
    case kDTypeF32:
      return multiply<kCompute, float>(weight, params, operands, first_row, n_rows, scratch);
    case kDTypeF16:
      return multiply<kCompute, hwy::float16_t>(weight, params, operands, first_row, n_rows,
                                                scratch);
    default:
      return multiply<kCompute, Bf16Bits>(weight, params, operands, first_row, n_rows, scratch);
  }
}

}  // namespace HWY_NAMESPACE

void amx_matmul(const AmxWeight& weight, const MatmulParams& params, const MatmulOperands& operands,
                uint32_t first_row, uint32_t n_rows, void* scratch) {
  uint8_t* bytes = static_cast<uint8_t*>(scratch);
  switch (weight.compute) {
    case Compute::kI8:
      return HWY_NAMESPACE::multiply_to<Compute::kI8>(weight, params, operands, first_row, n_rows,
                                                      bytes);
    case Compute::kBF16:
      return HWY_NAMESPACE::multiply_to<Compute::kBF16>(weight, params, operands, first_row, n_rows,
                                                        bytes);
    default:
      return HWY_NAMESPACE::multiply_to<Compute::kF32>(weight, params, operands, first_row, n_rows,
                                                       bytes);
  }
}

}  // namespace vesper
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace vesper {
namespace {

// What a row's place takes in scratch.
constexpr size_t kPlaceBytes = 3 * sizeof(size_t);

// Lays out rows of bf16 or int8 as part `part` of the tiles.
template <class Element>
void pack(const Element* rows, Compute compute, size_t part, uint32_t first, uint32_t n_rows,
          uint32_t n_in, uint8_t* tiles) {
  constexpr size_t kGrouped = 4 / sizeof(Element);
  const size_t step = amx_step_elements(compute), n_steps = amx_steps(n_in, compute);
  for (size_t o = first; o < size_t{first} + n_rows; ++o) {
    const Element* const from = rows + (o - first) * n_in;
    for (size_t i = 0; i < n_in; ++i) {
      uint8_t* const tile = tiles + (o / 32 * n_steps + i / step) * amx_step_bytes(compute) +
                            (part * 2 + o % 32 / 16) * kTileBytes;
      const size_t row = i % step / kGrouped;
      reinterpret_cast<Element*>(tile + row * kTileRowBytes)[o % 16 * kGrouped + i % kGrouped] =
          from[i];
    }
  }
}

}  // namespace

size_t amx_weight_bytes(uint32_t n_out, uint32_t n_in, Compute compute) {
  return (size_t{n_out} + 31) / 32 * amx_steps(n_in, compute) * amx_step_bytes(compute);
}

void amx_pack_rows(const float* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles) {
  std::vector<float> left(rows, rows + size_t{n_rows} * n_in);
  std::vector<uint16_t> bits(left.size());
  for (size_t part = 0; part < amx_parts(Compute::kF32); ++part) {
    for (size_t i = 0; i < left.size(); ++i) {
      bits[i] = f32_to_bf16(left[i]);
      left[i] -= bf16_to_f32(bits[i]);
    }
    pack(bits.data(), Compute::kF32, part, first, n_rows, n_in, tiles);
  }
}
void amx_pack_rows(const uint16_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles) {
  pack(rows, Compute::kBF16, 0, first, n_rows, n_in, tiles);
}
void amx_pack_rows(const int8_t* rows, uint32_t first, uint32_t n_rows, uint32_t n_in,
                   uint8_t* tiles) {
  pack(rows, Compute::kI8, 0, first, n_rows, n_in, tiles);
}

size_t amx_matmul_scratch_bytes(const AmxWeight& weight, uint32_t n_rows) {
  const size_t groups = (size_t{n_rows} + 31) / 32;
  return groups * amx_weight_bytes(32, weight.n_in, weight.compute) + groups * 32 * kPlaceBytes;
}

#ifndef VESPER_AMX_MATMUL_COMPILED
void amx_matmul(const AmxWeight&, const MatmulParams&, const MatmulOperands&, uint32_t, uint32_t,
                void*) {
  throw Error(ErrorKind::kInternal, "AMX product called in a build without AMX");
}
#endif

}  // namespace vesper
#endif
