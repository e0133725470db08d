#include "llm/dtype/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "error/error.h"
#include "error/tasks.h"
#include "llm/dtype/number_conversion.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/dtype/quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "llm/dtype/quantize_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

// Calls `kBlock`, which is inlined, for each block.
template <void (*kBlock)(const float*, uint8_t*), uint32_t kElements, uint32_t kBytes>
void write_blocks(const float* values, uint64_t n, uint8_t* out) {
  for (uint64_t i = 0; i < n; i += kElements, out += kBytes) kBlock(values + i, out);
}

// The same for a function of eight blocks of 32.
template <void (*kBlocks)(const float*, uint8_t*), uint32_t kBytes>
void write_eight_blocks(const float* values, uint64_t n, uint8_t* out) {
  constexpr uint64_t kAtOnce = 256;
  uint64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce, out += 8 * kBytes) kBlocks(values + i, out);
  if (i == n) return;
  float rest[kAtOnce] = {};
  uint8_t blocks[8 * kBytes];
  std::memcpy(rest, values + i, (n - i) * sizeof(float));
  kBlocks(rest, blocks);
  std::memcpy(out, blocks, (n - i) / 32 * kBytes);
}

// Blocks of a quantized format.
void quantize_blocks(DType dtype, const float* values, uint64_t n, uint8_t* out) {
  switch (dtype) {
    case DType::kQ4_0:
      return write_blocks<quantize_q4_0, 32, 18>(values, n, out);
    case DType::kQ4_1:
      return write_blocks<quantize_q4_1, 32, 20>(values, n, out);
    case DType::kQ5_0:
      return write_blocks<quantize_q5_0, 32, 22>(values, n, out);
    case DType::kQ5_1:
      return write_blocks<quantize_q5_1, 32, 24>(values, n, out);
    case DType::kQ8_0:
      return write_blocks<quantize_q8_0, 32, 34>(values, n, out);
    case DType::kQ2_K:
      return write_blocks<quantize_q2_k, 256, 84>(values, n, out);
    case DType::kQ3_K:
      return write_blocks<quantize_q3_k, 256, 110>(values, n, out);
    case DType::kQ4_K:
      return write_blocks<quantize_q4_k, 256, 144>(values, n, out);
    case DType::kQ5_K:
      return write_blocks<quantize_q5_k, 256, 176>(values, n, out);
    case DType::kQ6_K:
      return write_blocks<quantize_q6_k, 256, 210>(values, n, out);
    default:
      return write_eight_blocks<quantize_iq4_nl, 18>(values, n, out);
  }
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {
namespace {

HWY_EXPORT(quantize_blocks);

constexpr DType kQuantizers[] = {DType::kF32,  DType::kF16,   DType::kBF16, DType::kQ4_0,
                                 DType::kQ4_1, DType::kQ5_0,  DType::kQ5_1, DType::kQ8_0,
                                 DType::kQ2_K, DType::kQ3_K,  DType::kQ4_K, DType::kQ5_K,
                                 DType::kQ6_K, DType::kIQ4_NL};

template <uint16_t (*kConvert)(float)>
void write_16_bits(const float* values, uint64_t n, uint8_t* out) {
  for (uint64_t i = 0; i < n; ++i) {
    const uint16_t bits = kConvert(values[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace

std::vector<DType> quantizer_formats() { return {std::begin(kQuantizers), std::end(kQuantizers)}; }

bool has_quantizer(DType dtype) {
  return std::find(std::begin(kQuantizers), std::end(kQuantizers), dtype) != std::end(kQuantizers);
}

void quantize(DType dtype, const float* values, uint64_t n, uint8_t* out) {
  if (!has_quantizer(dtype)) {
    throw Error(ErrorKind::kInternal, std::string("expected a format with a quantizer, found ") +
                                          dtype_descriptor(dtype).name);
  }
  if (dtype == DType::kF32) {
    if (n != 0) std::memcpy(out, values, n * sizeof(float));
  } else if (dtype == DType::kF16) {
    write_16_bits<f32_to_f16>(values, n, out);
  } else if (dtype == DType::kBF16) {
    write_16_bits<f32_to_bf16>(values, n, out);
  } else {
    HWY_DYNAMIC_DISPATCH(quantize_blocks)(dtype, values, n, out);
  }
}

void quantize_rows(const std::string& where, DType dtype, uint64_t first, uint64_t n_rows,
                   uint64_t n_columns, const RowReader& read, uint32_t n_threads, uint8_t* out) {
  constexpr uint64_t kAtOnce = 65536;  // values per task, in the nearest cache of a core
  const uint64_t row_bytes = dtype_bytes(dtype, n_columns);
  const uint64_t rows_at_once = std::max<uint64_t>(kAtOnce / std::max<uint64_t>(n_columns, 1), 1);
  const bool any_value = dtype == DType::kF32 || dtype == DType::kBF16;
  run_tasks((n_rows + rows_at_once - 1) / rows_at_once, n_threads, [&](size_t task) {
    const uint64_t begin = task * rows_at_once, n = std::min(rows_at_once, n_rows - begin);
    std::vector<float> values(n * n_columns);
    read(first + begin, n, values.data());
    const auto is_outside = [](float value) { return !(std::fabs(value) <= kMostQuantized); };
    if (const auto found = std::find_if(values.begin(), values.end(), is_outside);
        !any_value && found != values.end()) {
      const auto at = static_cast<uint64_t>(found - values.begin());
      throw Error(ErrorKind::kModel, where + ": expected numbers of at most 65504 for format " +
                                         dtype_descriptor(dtype).name + ", found " +
                                         std::to_string(*found) + " in row " +
                                         std::to_string(first + begin + at / n_columns) +
                                         ", column " + std::to_string(at % n_columns));
    }
    quantize(dtype, values.data(), values.size(), out + begin * row_bytes);
  });
}

}  // namespace vesper
#endif  // HWY_ONCE
