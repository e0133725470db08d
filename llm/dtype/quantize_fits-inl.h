// Fits of block scales: for each group of numbers the scale, and the minimum, with the least
// weighted squared error. Compiled once for each instruction set. The groups of a block (or of
// eight blocks) are the lanes of a vector, so a group's result does not depend on the length of
// vectors. quantize.cc is compiled without fused multiply-adds for the same reason.
#if defined(VESPER_LLM_DTYPE_QUANTIZE_FITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_DTYPE_QUANTIZE_FITS_INL_H_
#undef VESPER_LLM_DTYPE_QUANTIZE_FITS_INL_H_
#else
#define VESPER_LLM_DTYPE_QUANTIZE_FITS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 8>;
using Vector = hn::Vec<Lanes>;
constexpr uint32_t kWidth = static_cast<uint32_t>(hn::MaxLanes(Lanes()));  // groups per vector

// Groups side by side: element i of group g is at [i * kGroups + g].
template <uint32_t kGroup, uint32_t kGroups>
struct Columns {
  static constexpr uint32_t kSize = kGroup * kGroups;
  alignas(64) float at[kSize];
};

template <uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void transpose(const float* x, Columns<kGroup, kGroups>& out) {
  for (uint32_t i = 0; i < kGroup; ++i) {
    for (uint32_t g = 0; g < kGroups; ++g) out.at[i * kGroups + g] = x[g * kGroup + i];
  }
}

template <uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void store_codes(const Columns<kGroup, kGroups>& codes, float offset, uint8_t* out) {
  for (uint32_t i = 0; i < kGroup; ++i) {
    for (uint32_t g = 0; g < kGroups; ++g) {
      out[g * kGroup + i] =
          static_cast<uint8_t>(static_cast<int>(codes.at[i * kGroups + g] + offset));
    }
  }
}

// Sums over the groups of a block, in order.
template <uint32_t kGroups>
HWY_INLINE float total(const float* groups) {
  float sum = 0;
  for (uint32_t g = 0; g < kGroups; ++g) sum += groups[g];
  return sum;
}

HWY_INLINE Vector code_of(Vector scaled, Vector low, Vector high) {
  return hn::Min(hn::Max(hn::Round(scaled), low), high);
}

// Weights of squared errors, as ggml has them for each format.
enum class Weighting {
  kMagnitude,        // |x|
  kMagnitudeAndRms,  // |x| + the root mean square of the group
  kSquare,           // x^2
};

template <Weighting kWeighting, uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void weigh(const Columns<kGroup, kGroups>& x, Columns<kGroup, kGroups>& w) {
  const Lanes d;
  for (uint32_t g = 0; g < kGroups; g += kWidth) {
    Vector base = hn::Zero(d);
    if constexpr (kWeighting == Weighting::kMagnitudeAndRms) {
      for (uint32_t i = 0; i < kGroup; ++i) {
        const Vector value = hn::Load(d, x.at + i * kGroups + g);
        base = hn::Add(base, hn::Mul(value, value));
      }
      base = hn::Sqrt(hn::Mul(base, hn::Set(d, 1.0f / kGroup)));
    }
    for (uint32_t i = 0; i < kGroup; ++i) {
      const Vector value = hn::Load(d, x.at + i * kGroups + g);
      const Vector weight =
          kWeighting == Weighting::kSquare ? hn::Mul(value, value) : hn::Add(base, hn::Abs(value));
      hn::Store(weight, d, w.at + i * kGroups + g);
    }
  }
}

// Inverse scales that a search tries: (largest code + first + i * step) / range.
struct SearchRange {
  float first, step;
  int count;
};

// value = scale * code - minimum, with codes 0 to kMost and minimum >= 0: for each group the scale
// and minimum with the least weighted squared error. Weighted least squares for the codes of each
// tried scale, then for the codes of the best fit.
template <int kMost, uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void fit_with_minimum(const Columns<kGroup, kGroups>& x,
                                 const Columns<kGroup, kGroups>& w, SearchRange search,
                                 float* scales, float* minimums) {
  const Lanes d;
  const Vector zero = hn::Zero(d), most = hn::Set(d, kMost), tiny = hn::Set(d, 1e-30f);
  for (uint32_t g = 0; g < kGroups; g += kWidth) {
    Vector low = zero, high = hn::Load(d, x.at + g);
    Vector sum_w = zero, sum_wx = zero, sum_wxx = zero;
    for (uint32_t i = 0; i < kGroup; ++i) {
      const Vector value = hn::Load(d, x.at + i * kGroups + g);
      const Vector weight = hn::Load(d, w.at + i * kGroups + g);
      const Vector weighted = hn::Mul(weight, value);
      low = hn::Min(low, value);
      high = hn::Max(high, value);
      sum_w = hn::Add(sum_w, weight);
      sum_wx = hn::Add(sum_wx, weighted);
      sum_wxx = hn::Add(sum_wxx, hn::Mul(weighted, value));
    }
    const Vector range = hn::Sub(high, low);
    const auto varies = hn::Gt(range, tiny);
    const Vector safe_range = hn::IfThenElse(varies, range, hn::Set(d, 1));
    Vector scale = hn::IfThenElseZero(varies, hn::Div(range, most)), minimum = hn::Neg(low);
    Vector least = hn::Set(d, INFINITY);
    const auto attempt = [&](Vector inverse, Vector offset) HWY_ATTR {
      Vector c = zero, cc = zero, xc = zero;
      for (uint32_t i = 0; i < kGroup; ++i) {
        const Vector value = hn::Load(d, x.at + i * kGroups + g);
        const Vector weight = hn::Load(d, w.at + i * kGroups + g);
        const Vector code = code_of(hn::Mul(inverse, hn::Add(value, offset)), zero, most);
        const Vector weighted = hn::Mul(weight, code);
        c = hn::Add(c, weighted);
        cc = hn::Add(cc, hn::Mul(weighted, code));
        xc = hn::Add(xc, hn::Mul(weighted, value));
      }
      const Vector determinant = hn::Sub(hn::Mul(sum_w, cc), hn::Mul(c, c));
      Vector fit = hn::Div(hn::Sub(hn::Mul(sum_w, xc), hn::Mul(sum_wx, c)), determinant);
      Vector base = hn::Div(hn::Sub(hn::Mul(cc, sum_wx), hn::Mul(c, xc)), determinant);
      const auto is_above = hn::Gt(base, zero);
      base = hn::Min(base, zero);
      fit = hn::IfThenElse(is_above, hn::Div(xc, cc), fit);
      const Vector two = hn::Set(d, 2);
      const Vector error =
          hn::Add(sum_wxx, hn::Add(hn::Mul(fit, hn::Sub(hn::Mul(fit, cc), hn::Mul(two, xc))),
                                   hn::Mul(base, hn::Sub(hn::Add(hn::Mul(two, hn::Mul(fit, c)),
                                                                 hn::Mul(base, sum_w)),
                                                         hn::Mul(two, sum_wx)))));
      const auto is_better =
          hn::And(hn::And(hn::Gt(determinant, zero), hn::Gt(fit, zero)), hn::Lt(error, least));
      least = hn::IfThenElse(is_better, error, least);
      scale = hn::IfThenElse(is_better, fit, scale);
      minimum = hn::IfThenElse(is_better, hn::Neg(base), minimum);
    };
    for (int i = 0; i <= search.count; ++i) {
      const float codes = kMost + search.first + search.step * static_cast<float>(i);
      attempt(hn::Div(hn::Set(d, codes), safe_range), hn::Neg(low));
    }
    for (int round = 0; round < 2; ++round) {
      const Vector safe = hn::IfThenElse(hn::Gt(scale, tiny), scale, hn::Set(d, 1));
      attempt(hn::Div(hn::Set(d, 1), safe), minimum);
    }
    hn::Store(hn::IfThenElseZero(varies, scale), d, scales + g);
    hn::Store(minimum, d, minimums + g);
  }
}

// The scale with the least weighted squared error for the code values that `value_of` gives the
// scaled values of groups g, g + 1, ...; it replaces `best` if its gain, sum(w x value)^2 / sum(w
// value^2), is larger than the largest one.
template <uint32_t kGroup, uint32_t kGroups, class ValueOf>
HWY_INLINE void try_scale(const Columns<kGroup, kGroups>& x, const Columns<kGroup, kGroups>& w,
                          uint32_t g, Vector inverse, const ValueOf& value_of, Vector& best,
                          Vector& largest_gain) {
  const Lanes d;
  Vector vv = hn::Zero(d), xv = hn::Zero(d);
  for (uint32_t i = 0; i < kGroup; ++i) {
    const Vector value = hn::Load(d, x.at + i * kGroups + g);
    const Vector code_value = value_of(hn::Mul(inverse, value));
    const Vector weighted = hn::Mul(hn::Load(d, w.at + i * kGroups + g), code_value);
    vv = hn::Add(vv, hn::Mul(weighted, code_value));
    xv = hn::Add(xv, hn::Mul(weighted, value));
  }
  const Vector fit = hn::Div(xv, vv), gain = hn::Mul(fit, xv);
  const auto is_better = hn::And(hn::Gt(vv, hn::Zero(d)), hn::Gt(gain, largest_gain));
  largest_gain = hn::IfThenElse(is_better, gain, largest_gain);
  best = hn::IfThenElse(is_better, fit, best);
}

// value = scale * code with codes -kHalf to kHalf - 1: for each group the scale, of either sign,
// with the least weighted squared error, which is sum(w x^2) - sum(w x code)^2 / sum(w code^2).
template <int kHalf, uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void fit_scale(const Columns<kGroup, kGroups>& x, const Columns<kGroup, kGroups>& w,
                          int tries, float step, float* scales) {
  const Lanes d;
  const Vector zero = hn::Zero(d), one = hn::Set(d, 1);
  const Vector low = hn::Set(d, -kHalf), high = hn::Set(d, kHalf - 1);
  for (uint32_t g = 0; g < kGroups; g += kWidth) {
    Vector most = zero;  // of largest magnitude
    for (uint32_t i = 0; i < kGroup; ++i) {
      const Vector value = hn::Load(d, x.at + i * kGroups + g);
      most = hn::IfThenElse(hn::Gt(hn::Abs(value), hn::Abs(most)), value, most);
    }
    const auto varies = hn::Gt(hn::Abs(most), hn::Set(d, 1e-15f));
    const Vector safe = hn::IfThenElse(varies, most, one);
    Vector best = hn::Div(safe, low), largest_gain = hn::Set(d, -1);
    const auto attempt = [&](Vector inverse) HWY_ATTR {
      try_scale(
          x, w, g, inverse, [&](Vector scaled) HWY_ATTR { return code_of(scaled, low, high); },
          best, largest_gain);
    };
    for (int i = -tries; i <= tries; ++i) {
      attempt(hn::Div(hn::Set(d, -(kHalf + step * static_cast<float>(i))), safe));
    }
    for (int round = 0; round < 2; ++round) {
      attempt(hn::Div(one, hn::IfThenElse(hn::Eq(best, zero), one, best)));
    }
    hn::Store(hn::IfThenElseZero(varies, best), d, scales + g);
  }
}

// Codes for the scales and minimums of the groups. Returns the weighted squared error.
template <uint32_t kGroup, uint32_t kGroups>
HWY_INLINE float assign_codes(const Columns<kGroup, kGroups>& x, const Columns<kGroup, kGroups>& w,
                              const float* scales, const float* minimums, float low, float high,
                              Columns<kGroup, kGroups>& codes) {
  const Lanes d;
  alignas(64) float errors[kGroups];
  for (uint32_t g = 0; g < kGroups; g += kWidth) {
    const Vector scale = hn::Load(d, scales + g), minimum = hn::Load(d, minimums + g);
    const auto is_zero = hn::Eq(scale, hn::Zero(d));
    const Vector inverse =
        hn::IfThenElse(is_zero, hn::Zero(d),
                       hn::Div(hn::Set(d, 1), hn::IfThenElse(is_zero, hn::Set(d, 1), scale)));
    Vector error = hn::Zero(d);
    for (uint32_t i = 0; i < kGroup; ++i) {
      const Vector value = hn::Load(d, x.at + i * kGroups + g);
      const Vector code =
          code_of(hn::Mul(inverse, hn::Add(value, minimum)), hn::Set(d, low), hn::Set(d, high));
      const Vector off = hn::Sub(hn::Sub(hn::Mul(scale, code), minimum), value);
      error = hn::Add(error, hn::Mul(hn::Load(d, w.at + i * kGroups + g), hn::Mul(off, off)));
      hn::Store(code, d, codes.at + i * kGroups + g);
    }
    hn::Store(error, d, errors + g);
  }
  return total<kGroups>(errors);
}

// Sums over the elements of each group, for code sums by least squares.
template <uint32_t kGroups>
struct GroupSums {
  alignas(64) float w[kGroups], wc[kGroups], wcc[kGroups], wx[kGroups], wxc[kGroups];
};
template <uint32_t kGroup, uint32_t kGroups>
HWY_INLINE void sum_groups(const Columns<kGroup, kGroups>& x, const Columns<kGroup, kGroups>& w,
                           const Columns<kGroup, kGroups>& codes, GroupSums<kGroups>& sums) {
  const Lanes d;
  for (uint32_t g = 0; g < kGroups; g += kWidth) {
    Vector s_w = hn::Zero(d), wc = s_w, wcc = s_w, wx = s_w, wxc = s_w;
    for (uint32_t i = 0; i < kGroup; ++i) {
      const Vector value = hn::Load(d, x.at + i * kGroups + g);
      const Vector weight = hn::Load(d, w.at + i * kGroups + g);
      const Vector code = hn::Load(d, codes.at + i * kGroups + g);
      const Vector weighted = hn::Mul(weight, code);
      s_w = hn::Add(s_w, weight);
      wc = hn::Add(wc, weighted);
      wcc = hn::Add(wcc, hn::Mul(weighted, code));
      wx = hn::Add(wx, hn::Mul(weight, value));
      wxc = hn::Add(wxc, hn::Mul(weighted, value));
    }
    hn::Store(s_w, d, sums.w + g);
    hn::Store(wc, d, sums.wc + g);
    hn::Store(wcc, d, sums.wcc + g);
    hn::Store(wx, d, sums.wx + g);
    hn::Store(wxc, d, sums.wxc + g);
  }
}

// A block of 256 whose groups have small scales and minimums:
// value = d * part_scale * code - dmin * part_minimum.
template <uint32_t kGroup>
struct PartsWithMinimum {
  static constexpr uint32_t kGroups = 256 / kGroup;
  uint16_t d = 0, dmin = 0;  // f16
  uint8_t scales[kGroups], minimums[kGroups];
  uint8_t codes[256];
};

// `kMostPart`: the largest small scale.
template <uint32_t kGroup, int kMost, int kMostPart, Weighting kWeighting>
HWY_INLINE void quantize_with_minimum(const float* values, SearchRange search,
                                      PartsWithMinimum<kGroup>& parts) {
  constexpr uint32_t kGroups = 256 / kGroup;
  Columns<kGroup, kGroups> x, w, codes, other_codes;
  transpose(values, x);
  weigh<kWeighting>(x, w);
  alignas(64) float scales[kGroups], minimums[kGroups];
  fit_with_minimum<kMost>(x, w, search, scales, minimums);
  const float most_scale = *std::max_element(scales, scales + kGroups);
  const float most_minimum = *std::max_element(minimums, minimums + kGroups);
  const float per_scale = most_scale > 0 ? kMostPart / most_scale : 0;
  const float per_minimum = most_minimum > 0 ? kMostPart / most_minimum : 0;
  for (uint32_t g = 0; g < kGroups; ++g) {
    parts.scales[g] = static_cast<uint8_t>(per_scale * scales[g] + 0.5f);
    parts.minimums[g] = static_cast<uint8_t>(per_minimum * minimums[g] + 0.5f);
  }
  // The codes for d and dmin in f16; true if they are better.
  float least = INFINITY;
  const auto attempt = [&](float d, float dmin) HWY_ATTR {
    const uint16_t d_bits = f32_to_f16(d), dmin_bits = f32_to_f16(dmin);
    const float stored_d = f16_to_f32(d_bits), stored_dmin = f16_to_f32(dmin_bits);
    for (uint32_t g = 0; g < kGroups; ++g) {
      scales[g] = stored_d * parts.scales[g];
      minimums[g] = stored_dmin * parts.minimums[g];
    }
    const float error = assign_codes(x, w, scales, minimums, 0, kMost, other_codes);
    if (!(error < least)) return false;
    least = error;
    codes = other_codes;
    parts.d = d_bits;
    parts.dmin = dmin_bits;
    return true;
  };
  attempt(most_scale / kMostPart, most_minimum / kMostPart);
  // d and dmin by least squares for the codes and small scales.
  for (int round = 0; round < 2; ++round) {
    GroupSums<kGroups> sums;
    sum_groups(x, w, codes, sums);
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (uint32_t g = 0; g < kGroups; ++g) {
      const float a = parts.scales[g], b = parts.minimums[g];
      aa += a * a * sums.wcc[g];
      ab += a * b * sums.wc[g];
      bb += b * b * sums.w[g];
      xa += a * sums.wxc[g];
      xb += b * sums.wx[g];
    }
    const float determinant = aa * bb - ab * ab;
    float d = 0, dmin = 0;
    if (determinant > 1e-6f * aa * bb) {
      d = (bb * xa - ab * xb) / determinant;
      dmin = (ab * xa - aa * xb) / determinant;
    } else if (aa > 0) {
      d = xa / aa;
    }
    if (!(d > 0) || !(dmin >= 0) || !attempt(d, dmin)) break;
  }
  store_codes(codes, 0, parts.codes);
}

// A block of 256 with value = d * part_scale * (code - kHalf).
struct SignedParts {
  uint16_t d = 0;     // f16
  int8_t scales[16];  // of 16 elements
  uint8_t codes[256];
};

// `kMostPart`: the magnitude of the smallest small scale.
template <int kHalf, int kMostPart, Weighting kWeighting>
HWY_INLINE void quantize_signed(const float* values, int tries, float step, SignedParts& parts) {
  Columns<16, 16> x, w, codes, other_codes;
  transpose(values, x);
  weigh<kWeighting>(x, w);
  alignas(64) float scales[16];
  alignas(64) const float minimums[16] = {};
  fit_scale<kHalf>(x, w, tries, step, scales);
  float most = 0;
  for (const float scale : scales) {
    if (std::fabs(scale) > std::fabs(most)) most = scale;
  }
  const float per_scale = most != 0 ? -kMostPart / most : 0;
  for (uint32_t g = 0; g < 16; ++g) {
    const float part = std::floor(per_scale * scales[g] + 0.5f);
    parts.scales[g] = static_cast<int8_t>(std::min<float>(part, kMostPart - 1));
  }
  float least = INFINITY;
  const auto attempt = [&](float d) HWY_ATTR {
    const uint16_t bits = f32_to_f16(d);
    const float stored = f16_to_f32(bits);
    for (uint32_t g = 0; g < 16; ++g) scales[g] = stored * parts.scales[g];
    const float error = assign_codes(x, w, scales, minimums, -kHalf, kHalf - 1, other_codes);
    if (!(error < least)) return false;
    least = error;
    codes = other_codes;
    parts.d = bits;
    return true;
  };
  attempt(most / -kMostPart);
  for (int round = 0; round < 2; ++round) {
    GroupSums<16> sums;
    sum_groups(x, w, codes, sums);
    float aa = 0, xa = 0;
    for (uint32_t g = 0; g < 16; ++g) {
      const float a = parts.scales[g];
      aa += a * a * sums.wcc[g];
      xa += a * sums.wxc[g];
    }
    if (!(aa > 0) || !attempt(xa / aa)) break;
  }
  store_codes(codes, kHalf, parts.codes);
}

}  // namespace vesper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
