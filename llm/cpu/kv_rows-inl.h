// Rows of keys and values in pages (shaders/kernel_params.h): addresses, loads and stores in any
// format. Compiled once per instruction set (Highway's foreach_target), so there is no plain
// include guard.
#if defined(VESPER_LLM_CPU_KV_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_KV_ROWS_INL_H_
#undef VESPER_LLM_CPU_KV_ROWS_INL_H_
#else
#define VESPER_LLM_CPU_KV_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"
#include "shaders/kernel_params.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Elements that share a scale.
inline constexpr uint32_t kQ8Block = kv_block(kDTypeQ8_0), kQ4Block = kv_block(kDTypeQ4_0);

HWY_INLINE VF32 kv_scale(const uint16_t* scale) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  const hn::Rebind<uint16_t, F32> du16;
  return hn::PromoteTo(F32(), hn::BitCast(d16, hn::Set(du16, *scale)));
}

// Pointers into quantized rows. Vectors are loaded from multiples of kLanes.
struct Q8Row {
  const int8_t* codes;  // of the row
  const uint16_t* scales;
  size_t first = 0;  // element that the pointer points to

  Q8Row operator+(size_t n) const { return {codes, scales, first + n}; }
  float operator[](size_t i) const {
    return f16_to_f32(scales[(first + i) / kQ8Block]) * static_cast<float>(codes[first + i]);
  }
};
struct Q4Row {
  const uint8_t* codes;
  const uint16_t* scales;
  size_t first = 0;

  Q4Row operator+(size_t n) const { return {codes, scales, first + n}; }
  float operator[](size_t i) const {
    const size_t at = first + i;
    const uint32_t pair = codes[at / 32 * 16 + at % 16];
    const auto code = static_cast<int32_t>(at % 32 < 16 ? pair & 15 : pair >> 4);
    return f16_to_f32(scales[at / kQ4Block]) * static_cast<float>(code - 8);
  }
};

// Codes as numbers, without the scale.
HWY_INLINE VF32 load_codes(const Q8Row& row) {
  const hn::Rebind<int8_t, F32> d8;
  const hn::RebindToSigned<F32> di;
  return hn::ConvertTo(F32(), hn::PromoteTo(di, hn::LoadU(d8, row.codes + row.first)));
}
HWY_INLINE VF32 load_codes(const Q4Row& row) {
  const hn::Rebind<uint8_t, F32> d8;
  const hn::RebindToSigned<F32> di;
  const size_t at = row.first / 32 * 16 + row.first % 16;
  const auto pairs = hn::PromoteTo(di, hn::LoadU(d8, row.codes + at));
  const auto codes =
      row.first % 32 < 16 ? hn::And(pairs, hn::Set(di, 15)) : hn::ShiftRight<4>(pairs);
  return hn::ConvertTo(F32(), hn::Sub(codes, hn::Set(di, 8)));
}
HWY_INLINE VF32 load_f32(const Q8Row& row) {
  return hn::Mul(load_codes(row), kv_scale(row.scales + row.first / kQ8Block));
}
HWY_INLINE VF32 load_f32(const Q4Row& row) {
  return hn::Mul(load_codes(row), kv_scale(row.scales + row.first / kQ4Block));
}

// The rows of a layer's keys or values. `head` is the index of a head's part of a page: page *
// n_kv_heads + kv_head.
template <class T>
struct KvRows {
  KvRows(const void* pages, uint32_t rows_per_page, uint32_t dim)
      : numbers(static_cast<const T*>(pages)), page_rows(rows_per_page), head_dim(dim) {}
  const T* row(size_t head, uint32_t index) const {
    return numbers + (head * page_rows + index) * head_dim;
  }

  const T* numbers;
  size_t page_rows, head_dim;
};

template <class Row, uint32_t kDtype>
struct QuantizedRows {
  static constexpr uint32_t kBlock = kv_block(kDtype);

  QuantizedRows(const void* pages, uint32_t rows_per_page, uint32_t dim)
      : bytes(static_cast<const uint8_t*>(pages)),
        head_dim(dim),
        head_bytes(kv_head_bytes(kDtype, rows_per_page, dim)),
        row_bytes(kv_row_bytes(kDtype, dim)),
        scale_offset(rows_per_page * row_bytes),
        scale_bytes(kv_scale_bytes(kDtype, dim)) {}
  Row row(size_t head, uint32_t index) const {
    const uint8_t* const at = bytes + head * head_bytes;
    return {reinterpret_cast<decltype(Row::codes)>(at + index * row_bytes),
            reinterpret_cast<const uint16_t*>(at + scale_offset + index * scale_bytes)};
  }

  const uint8_t* bytes;
  size_t head_dim, head_bytes, row_bytes, scale_offset, scale_bytes;
};
template <>
struct KvRows<Q8Row> : QuantizedRows<Q8Row, kDTypeQ8_0> {
  using QuantizedRows::QuantizedRows;
};
template <>
struct KvRows<Q4Row> : QuantizedRows<Q4Row, kDTypeQ4_0> {
  using QuantizedRows::QuantizedRows;
};

// Calls body(rows) with the rows of pages of this format.
template <class Body>
HWY_INLINE void with_kv_rows(uint32_t dtype, const void* pages, uint32_t page_rows,
                             uint32_t head_dim, const Body& body) {
  if (dtype == kDTypeF32) body(KvRows<float>(pages, page_rows, head_dim));
  if (dtype == kDTypeF16) body(KvRows<F16>(pages, page_rows, head_dim));
  if (dtype == kDTypeQ8_0) body(KvRows<Q8Row>(pages, page_rows, head_dim));
  if (dtype == kDTypeQ4_0) body(KvRows<Q4Row>(pages, page_rows, head_dim));
}

// Quantizes a block and returns the f16 scale. Codes are relative to the rounded scale. 8 bits: the
// largest magnitude has the code 127 or -127.
HWY_INLINE uint16_t quantize_8_bits(const float* block, int8_t* codes) {
  const F32 d;
  const hn::Rebind<int8_t, F32> d8;
  const hn::RebindToSigned<F32> di;
  VF32 most = hn::Zero(d);
  for (uint32_t i = 0; i < kQ8Block; i += kLanes) {
    most = hn::Max(most, hn::Abs(hn::LoadU(d, block + i)));
  }
  const uint16_t bits = f32_to_f16(hn::GetLane(hn::MaxOfLanes(d, most)) / 127.0f);
  const float scale = f16_to_f32(bits);
  const VF32 inverse = hn::Set(d, scale == 0 ? 0.0f : 1.0f / scale);
  for (uint32_t i = 0; i < kQ8Block; i += kLanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, block + i), inverse));
    const auto bounded = hn::Min(hn::Max(code, hn::Set(di, -127)), hn::Set(di, 127));
    hn::StoreU(hn::DemoteTo(d8, bounded), d8, codes + i);
  }
  return bits;
}
// 4 bits, a byte each: the element of the largest magnitude has the code 0, its scale the other
// sign.
HWY_INLINE uint16_t quantize_4_bits(const float* block, uint8_t* codes) {
  const F32 d;
  const hn::Rebind<uint8_t, F32> d8;
  const hn::RebindToSigned<F32> di;
  VF32 negative = hn::Zero(d), positive = hn::Zero(d);  // largest magnitudes
  for (uint32_t i = 0; i < kQ4Block; i += kLanes) {
    const VF32 x = hn::LoadU(d, block + i);
    negative = hn::Max(negative, hn::Neg(x));
    positive = hn::Max(positive, x);
  }
  const float low = hn::GetLane(hn::MaxOfLanes(d, negative));
  const float high = hn::GetLane(hn::MaxOfLanes(d, positive));
  const uint16_t bits = f32_to_f16((low > high ? low : -high) / 8.0f);
  const float scale = f16_to_f32(bits);
  const VF32 inverse = hn::Set(d, scale == 0 ? 0.0f : 1.0f / scale);
  for (uint32_t i = 0; i < kQ4Block; i += kLanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, block + i), inverse));
    const auto bounded = hn::Min(hn::Max(code, hn::Set(di, -8)), hn::Set(di, 7));
    hn::StoreU(hn::DemoteTo(d8, hn::Add(bounded, hn::Set(di, 8))), d8, codes + i);
  }
  return bits;
}

// Stores a row of head_dim elements in pages of this format; see KvRows::row.
template <class From>
HWY_INLINE void store_kv_row(uint32_t dtype, std::byte* pages, uint32_t page_rows,
                             uint32_t head_dim, size_t head, uint32_t row, const From* from) {
  if (!kv_is_quantized(dtype)) {
    const size_t at = (head * page_rows + row) * head_dim;
    with_type(dtype, pages, [&](auto* to) { convert(from, head_dim, to + at); });
    return;
  }
  const size_t row_bytes = kv_row_bytes(dtype, head_dim);
  std::byte* const codes =
      pages + head * kv_head_bytes(dtype, page_rows, head_dim) + row * row_bytes;
  std::byte* const scales =
      codes + (page_rows - row) * row_bytes + size_t{row} * kv_scale_bytes(dtype, head_dim);
  auto* scale = reinterpret_cast<uint16_t*>(scales);
  for (uint32_t i = 0; i < head_dim; i += 32) {
    float numbers[32];
    convert(from + i, 32, numbers);
    if (dtype == kDTypeQ8_0) {
      *scale++ = quantize_8_bits(numbers, reinterpret_cast<int8_t*>(codes) + i);
      continue;
    }
    uint8_t low[kQ4Block], high[kQ4Block];
    *scale++ = quantize_4_bits(numbers, low);
    *scale++ = quantize_4_bits(numbers + kQ4Block, high);
    for (uint32_t j = 0; j < kQ4Block; ++j) {
      codes[i / 2 + j] = static_cast<std::byte>(low[j] | high[j] << 4);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif
