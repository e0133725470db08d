// Quantizers of single blocks (of eight for iq4_nl), compiled once for each instruction set: the
// codes and scales of quantize_fits-inl.h in the layout of each format.
#if defined(VESPER_LLM_DTYPE_QUANTIZE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_DTYPE_QUANTIZE_BLOCKS_INL_H_
#undef VESPER_LLM_DTYPE_QUANTIZE_BLOCKS_INL_H_
#else
#define VESPER_LLM_DTYPE_QUANTIZE_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "llm/dtype/number_conversion.h"
#include "llm/dtype/quantize_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {

inline void store_u16(uint8_t* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }

// Blocks of 32, by ggml's rules.

HWY_INLINE void store_nibbles(const uint8_t* codes, uint8_t* out) {
  for (uint32_t j = 0; j < 16; ++j) {
    out[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
  }
}

HWY_INLINE void store_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t high = 0;
  for (uint32_t j = 0; j < 32; ++j) high |= uint32_t{codes[j]} >> 4 << j;
  std::memcpy(out, &high, sizeof high);
}

// The number of largest magnitude, with its sign; the first of equal ones.
HWY_INLINE float largest(const float* x) {
  float most = 0, magnitude = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > magnitude) magnitude = std::fabs(x[i]), most = x[i];
  }
  return most;
}

// q4_0 and q5_0: the number of largest magnitude has code 0.
template <int kHalf>
HWY_INLINE void signed_codes(const float* x, uint8_t* scale, uint8_t* codes) {
  const float d = largest(x) / -kHalf;
  const float inverse = d != 0 ? 1 / d : 0;
  store_u16(scale, f32_to_f16(d));
  for (uint32_t j = 0; j < 32; ++j) {
    const auto code = static_cast<int>(x[j] * inverse + (kHalf + 0.5f));
    codes[j] = static_cast<uint8_t>(std::min(code, 2 * kHalf - 1));
  }
}

// q4_1 and q5_1.
template <int kMost>
HWY_INLINE void codes_above_minimum(const float* x, uint8_t* scales, uint8_t* codes) {
  float low = x[0], high = x[0];
  for (uint32_t j = 1; j < 32; ++j) {
    low = std::min(low, x[j]);
    high = std::max(high, x[j]);
  }
  const float d = (high - low) / kMost;
  const float inverse = d != 0 ? 1 / d : 0;
  store_u16(scales, f32_to_f16(d));
  store_u16(scales + 2, f32_to_f16(low));
  for (uint32_t j = 0; j < 32; ++j) {
    const auto code = static_cast<int>((x[j] - low) * inverse + 0.5f);
    codes[j] = static_cast<uint8_t>(std::min(code, kMost));
  }
}

HWY_INLINE void quantize_q4_0(const float* x, uint8_t* out) {
  uint8_t codes[32];
  signed_codes<8>(x, out, codes);
  store_nibbles(codes, out + 2);
}

HWY_INLINE void quantize_q4_1(const float* x, uint8_t* out) {
  uint8_t codes[32];
  codes_above_minimum<15>(x, out, codes);
  store_nibbles(codes, out + 4);
}

HWY_INLINE void quantize_q5_0(const float* x, uint8_t* out) {
  uint8_t codes[32];
  signed_codes<16>(x, out, codes);
  store_fifth_bits(codes, out + 2);
  store_nibbles(codes, out + 6);
}

HWY_INLINE void quantize_q5_1(const float* x, uint8_t* out) {
  uint8_t codes[32];
  codes_above_minimum<31>(x, out, codes);
  store_fifth_bits(codes, out + 4);
  store_nibbles(codes, out + 8);
}

HWY_INLINE void quantize_q8_0(const float* x, uint8_t* out) {
  float magnitude = 0;
  for (uint32_t j = 0; j < 32; ++j) magnitude = std::max(magnitude, std::fabs(x[j]));
  const float d = magnitude / 127;
  const float inverse = d != 0 ? 1 / d : 0;
  store_u16(out, f32_to_f16(d));
  for (uint32_t j = 0; j < 32; ++j) {
    // To nearest, ties away from zero.
    const float scaled = x[j] * inverse;
    const float whole = static_cast<float>(static_cast<int>(scaled));
    const float rest = scaled - whole;
    const int up = (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
    out[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(static_cast<int>(whole) + up));
  }
}

// ggml-common.h, kvalues_iq4nl.
constexpr int8_t kUnevenValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

// The value of kUnevenValues nearest to `scaled`; its code is the number of middles below it.
HWY_INLINE Vector uneven_value(Vector scaled) {
  const Lanes d;
  Vector value = hn::Set(d, kUnevenValues[0]);
  for (int i = 0; i < 15; ++i) {
    const float middle = 0.5f * static_cast<float>(kUnevenValues[i] + kUnevenValues[i + 1]);
    const auto step = static_cast<float>(kUnevenValues[i + 1] - kUnevenValues[i]);
    value =
        hn::Add(value, hn::IfThenElseZero(hn::Gt(scaled, hn::Set(d, middle)), hn::Set(d, step)));
  }
  return value;
}

// Eight blocks; errors are weighted by x^2, as in ggml.
HWY_INLINE void quantize_iq4_nl(const float* values, uint8_t* out) {
  const Lanes d;
  const Vector zero = hn::Zero(d), one = hn::Set(d, 1);
  Columns<32, 8> x, squares;
  transpose(values, x);
  alignas(64) float scales[8];
  for (uint32_t g = 0; g < 8; g += kWidth) {
    Vector most = zero;
    for (uint32_t i = 0; i < 32; ++i) {
      const Vector value = hn::Load(d, x.at + i * 8 + g);
      hn::Store(hn::Mul(value, value), d, squares.at + i * 8 + g);
      most = hn::IfThenElse(hn::Gt(hn::Abs(value), hn::Abs(most)), value, most);
    }
    const auto varies = hn::Gt(hn::Abs(most), hn::Set(d, 1e-15f));
    const Vector safe = hn::IfThenElse(varies, most, one);
    Vector best = zero, largest_gain = hn::Set(d, -1);
    const auto attempt = [&](Vector inverse) HWY_ATTR {
      try_scale(
          x, squares, g, inverse, [](Vector scaled) HWY_ATTR { return uneven_value(scaled); }, best,
          largest_gain);
    };
    for (int i = -7; i <= 7; ++i) {
      attempt(hn::Div(hn::Set(d, static_cast<float>(i + kUnevenValues[0])), safe));
    }
    // The largest magnitude may also be at the other end.
    attempt(hn::Div(hn::Set(d, kUnevenValues[15]), safe));
    attempt(hn::Div(one, hn::IfThenElse(hn::Eq(best, zero), one, best)));
    hn::Store(hn::IfThenElseZero(varies, best), d, scales + g);
  }
  for (uint32_t g = 0; g < 8; ++g, out += 18) {
    const uint16_t bits = f32_to_f16(scales[g]);
    const float stored = f16_to_f32(bits), inverse = stored != 0 ? 1 / stored : 0;
    uint8_t codes[32];
    for (uint32_t i = 0; i < 32; ++i) {
      const float scaled = values[32 * g + i] * inverse;
      int code = 0;
      for (int k = 0; k < 15; ++k) {
        code += scaled > 0.5f * static_cast<float>(kUnevenValues[k] + kUnevenValues[k + 1]);
      }
      codes[i] = static_cast<uint8_t>(code);
    }
    store_u16(out, bits);
    store_nibbles(codes, out + 2);
  }
}

// Blocks of 256. dtype.cc describes the layouts.

HWY_INLINE void store_six_bit_scales(const uint8_t* scales, const uint8_t* minimums, uint8_t* out) {
  for (uint32_t k = 0; k < 4; ++k) {
    out[k] = static_cast<uint8_t>(scales[k] | scales[k + 4] >> 4 << 6);
    out[k + 4] = static_cast<uint8_t>(minimums[k] | minimums[k + 4] >> 4 << 6);
    out[k + 8] = static_cast<uint8_t>((scales[k + 4] & 15) | (minimums[k + 4] & 15) << 4);
  }
}

// Low nibbles of runs of 32: runs 2k and 2k + 1 share bytes.
HWY_INLINE void store_run_nibbles(const uint8_t* codes, uint8_t* out) {
  for (uint32_t pair = 0; pair < 4; ++pair) {
    for (uint32_t l = 0; l < 32; ++l) {
      out[32 * pair + l] =
          static_cast<uint8_t>((codes[64 * pair + l] & 15) | (codes[64 * pair + 32 + l] & 15) << 4);
    }
  }
}

HWY_INLINE void quantize_q2_k(const float* x, uint8_t* out) {
  PartsWithMinimum<16> parts;
  quantize_with_minimum<16, 3, 15, Weighting::kMagnitude>(x, {-0.9f, 0.1f, 24}, parts);
  for (uint32_t k = 0; k < 16; ++k) {
    out[k] = static_cast<uint8_t>(parts.scales[k] | parts.minimums[k] << 4);
  }
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t byte = 0;
      for (uint32_t k = 0; k < 4; ++k) byte |= parts.codes[128 * half + 32 * k + l] << 2 * k;
      out[16 + 32 * half + l] = static_cast<uint8_t>(byte);
    }
  }
  store_u16(out + 80, parts.d);
  store_u16(out + 82, parts.dmin);
}

HWY_INLINE void quantize_q3_k(const float* x, uint8_t* out) {
  SignedParts parts;
  quantize_signed<4, 32, Weighting::kMagnitudeAndRms>(x, 12, 0.1f, parts);
  std::memset(out, 0, 110);
  for (uint32_t run = 0; run < 8; ++run) {
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t code = parts.codes[32 * run + l];
      out[l] = static_cast<uint8_t>(out[l] | code >> 2 << run);
      uint8_t& low = out[32 + 32 * (run / 4) + l];
      low = static_cast<uint8_t>(low | (code & 3) << 2 * (run % 4));
    }
  }
  for (uint32_t k = 0; k < 16; ++k) {
    const auto scale = static_cast<uint32_t>(parts.scales[k] + 32);
    uint8_t &low = out[96 + k % 8], &high = out[104 + k % 4];
    low = static_cast<uint8_t>(low | (scale & 15) << 4 * (k / 8));
    high = static_cast<uint8_t>(high | scale >> 4 << 2 * (k / 4));
  }
  store_u16(out + 108, parts.d);
}

HWY_INLINE void quantize_q4_k(const float* x, uint8_t* out) {
  PartsWithMinimum<32> parts;
  quantize_with_minimum<32, 15, 63, Weighting::kMagnitudeAndRms>(x, {-1, 0.1f, 20}, parts);
  store_u16(out, parts.d);
  store_u16(out + 2, parts.dmin);
  store_six_bit_scales(parts.scales, parts.minimums, out + 4);
  store_run_nibbles(parts.codes, out + 16);
}

HWY_INLINE void quantize_q5_k(const float* x, uint8_t* out) {
  PartsWithMinimum<32> parts;
  quantize_with_minimum<32, 31, 63, Weighting::kMagnitudeAndRms>(x, {-1, 0.1f, 20}, parts);
  store_u16(out, parts.d);
  store_u16(out + 2, parts.dmin);
  store_six_bit_scales(parts.scales, parts.minimums, out + 4);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t high = 0;
    for (uint32_t run = 0; run < 8; ++run) high |= uint32_t{parts.codes[32 * run + l]} >> 4 << run;
    out[16 + l] = static_cast<uint8_t>(high);
  }
  store_run_nibbles(parts.codes, out + 48);
}

HWY_INLINE void quantize_q6_k(const float* x, uint8_t* out) {
  SignedParts parts;
  quantize_signed<32, 128, Weighting::kSquare>(x, 9, 0.1f, parts);
  for (uint32_t half = 0; half < 2; ++half) {
    const uint8_t* codes = parts.codes + 128 * half;
    for (uint32_t l = 0; l < 32; ++l) {
      out[64 * half + l] = static_cast<uint8_t>((codes[l] & 15) | (codes[64 + l] & 15) << 4);
      out[64 * half + 32 + l] =
          static_cast<uint8_t>((codes[32 + l] & 15) | (codes[96 + l] & 15) << 4);
      uint32_t high = 0;
      for (uint32_t k = 0; k < 4; ++k) high |= uint32_t{codes[32 * k + l]} >> 4 << 2 * k;
      out[128 + 32 * half + l] = static_cast<uint8_t>(high);
    }
  }
  std::memcpy(out + 192, parts.scales, 16);
  store_u16(out + 208, parts.d);
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
