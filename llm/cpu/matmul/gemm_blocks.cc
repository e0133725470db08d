#include <algorithm>

#include "llm/cpu/matmul/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/matmul/gemm_blocks.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/numbers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// Converts 16 elements to f32 and multiplies by `factor`.
template <class T>
HWY_INLINE void widen_16(const T* from, float factor, float* to) {
  const F32 d;
  for (uint32_t i = 0; i < kPanelOutputs; i += kLanes) {
    hn::StoreU(hn::Mul(load_f32(from + i), hn::Set(d, factor)), d, to + i);
  }
}

HWY_INLINE VF32 load_bytes(const int8_t* from) {
  const hn::Rebind<int8_t, F32> d8;
  const hn::Rebind<int32_t, F32> d32;
  return hn::ConvertTo(F32(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
}

template <class T>
HWY_INLINE void expand_groups(const PackedLayout& layout, const std::byte* panel, bool with_zero,
                              float* scales, float* minimums) {
  const BlockFormat& format = layout.format.blocks;
  const T* from = reinterpret_cast<const T*>(panel);
  const uint32_t expanded = expanded_group(format), copies = format.group / expanded;
  const float zero = -static_cast<float>(format.zero);
  for (uint32_t i = 0; i < layout.n_in; i += format.group) {
    const T* minimum = format.has_minimum ? from + kPanelOutputs : from;
    for (uint32_t c = 0; c < copies; ++c) {
      widen_16(from, 1.0f, scales);
      scales += kPanelOutputs;
      if (!format.has_minimum && !with_zero) continue;
      widen_16(minimum, format.has_minimum ? 1.0f : zero, minimums);
      minimums += kPanelOutputs;
    }
    from = minimum + kPanelOutputs;
  }
}

// Scales that are an f16 per 256 inputs times a byte per group.
HWY_INLINE void expand_sub_scales(const PackedLayout& layout, const std::byte* panel,
                                  bool with_zero, float* scales, float* minimums) {
  const F32 d;
  const BlockFormat& format = layout.format.blocks;
  const F16* block = reinterpret_cast<const F16*>(panel);
  const auto* sub_scales = reinterpret_cast<const int8_t*>(panel + layout.sub_scales_offset);
  const VF32 zero = hn::Set(d, -static_cast<float>(format.zero));
  const uint32_t kinds = format.has_minimum ? 2 : 1;
  const uint32_t expanded = expanded_group(format);
  for (uint32_t i = 0; i < layout.n_in; i += kPartsBlock, block += kinds * kPanelOutputs) {
    for (uint32_t g = 0; g < kPartsBlock; g += expanded) {
      for (uint32_t o = 0; o < kPanelOutputs; o += kLanes) {
        const VF32 scale = hn::Mul(load_f32(block + o), load_bytes(sub_scales + o));
        hn::StoreU(scale, d, scales + o);
        if (format.has_minimum) {
          hn::StoreU(hn::Mul(load_f32(block + kPanelOutputs + o),
                             load_bytes(sub_scales + kPanelOutputs + o)),
                     d, minimums + o);
        } else if (with_zero) {
          hn::StoreU(hn::Mul(scale, zero), d, minimums + o);
        }
      }
      scales += kPanelOutputs;
      minimums += kPanelOutputs;
      // Groups are powers of two.
      if (((g + expanded) & (format.group - 1)) == 0) sub_scales += kinds * kPanelOutputs;
    }
  }
}

void expand_scales(const PackedLayout& layout, const std::byte* panel, bool with_zero,
                   float* scales, float* minimums) {
  switch (layout.format.blocks.scale) {
    case ScaleKind::kF16:
      return expand_groups<F16>(layout, panel, with_zero, scales, minimums);
    case ScaleKind::kBF16:
      return expand_groups<BF16>(layout, panel, with_zero, scales, minimums);
    case ScaleKind::kF32:
      return expand_groups<float>(layout, panel, with_zero, scales, minimums);
    case ScaleKind::kParts:
      return expand_sub_scales(layout, panel, with_zero, scales, minimums);
  }
}

using U32 = hn::Rebind<uint32_t, F32>;
using VU32 = hn::Vec<U32>;

HWY_INLINE VU32 load_plane(const std::byte* from) {
  return hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(from));
}
HWY_INLINE VU32 masked(VU32 bits, uint32_t each_byte) {
  return hn::And(bits, hn::Set(U32(), each_byte * 0x01010101u));
}

// The codes of quad kQuad, for as many outputs as lanes; `block` is that of the first output.
template <uint32_t kBits, int kQuad>
HWY_INLINE VU32 load_quad(const std::byte* block) {
  if constexpr (kBits == 8) {
    return load_plane(block + 64 * kQuad);
  } else if constexpr (kBits == 4) {
    return masked(hn::ShiftRight<4 * (kQuad / 4)>(load_plane(block + 64 * (kQuad % 4))), 15);
  } else if constexpr (kBits == 2) {
    return masked(hn::ShiftRight<2 * (kQuad % 4)>(load_plane(block + 64 * (kQuad / 4))), 3);
  } else if constexpr (kBits == 1) {
    return masked(hn::ShiftRight<kQuad>(load_plane(block)), 1);
  } else if constexpr (kBits == 3) {
    return hn::Or(load_quad<2, kQuad>(block), hn::ShiftLeft<2>(load_quad<1, kQuad>(block + 128)));
  } else if constexpr (kBits == 5) {
    return hn::Or(load_quad<4, kQuad>(block), hn::ShiftLeft<4>(load_quad<1, kQuad>(block + 256)));
  } else {
    return hn::Or(load_quad<4, kQuad>(block), hn::ShiftLeft<4>(load_quad<2, kQuad>(block + 256)));
  }
}

// One quad of all outputs, as two rows of pairs of an f32 panel.
template <uint32_t kBits, int kQuad>
HWY_INLINE void expand_quad(const std::byte* block, const float* scale, const float* minimum,
                            float* pairs) {
  const F32 d;
  const hn::Rebind<int32_t, F32> d32;
  for (uint32_t o = 0; o < kPanelOutputs; o += kLanes) {
    const VU32 quad = load_quad<kBits, kQuad>(block + 4 * o);
    const VF32 by = hn::LoadU(d, scale + o), from = hn::LoadU(d, minimum + o);
    const auto number = [&](VU32 code) HWY_ATTR {
      return hn::MulAdd(hn::ConvertTo(d, hn::BitCast(d32, code)), by, from);
    };
    const VU32 low = hn::Set(U32(), 0xff);
    hn::StoreInterleaved2(number(hn::And(quad, low)), number(hn::And(hn::ShiftRight<8>(quad), low)),
                          d, pairs + 2 * o);
    hn::StoreInterleaved2(number(hn::And(hn::ShiftRight<16>(quad), low)),
                          number(hn::ShiftRight<24>(quad)), d, pairs + 2 * (kPanelOutputs + o));
  }
}

// A panel as f32 [n_in / 2][16][2].
template <uint32_t kBits>
void expand_panel(const PackedLayout& layout, const std::byte* panel, const float* scales,
                  const float* minimums, float* out) {
  constexpr uint32_t kQuadNumbers = 4 * kPanelOutputs;
  const std::byte* block = panel + layout.codes_offset;
  const uint32_t half = layout.format.blocks.group == 16 ? kPanelOutputs : 0;
  for (uint32_t i = 0; i < layout.n_in; i += kBlockInputs, block += 64 * kBits) {
    expand_quad<kBits, 0>(block, scales, minimums, out);
    expand_quad<kBits, 1>(block, scales, minimums, out + kQuadNumbers);
    expand_quad<kBits, 2>(block, scales, minimums, out + 2 * kQuadNumbers);
    expand_quad<kBits, 3>(block, scales, minimums, out + 3 * kQuadNumbers);
    scales += half;
    minimums += half;
    expand_quad<kBits, 4>(block, scales, minimums, out + 4 * kQuadNumbers);
    expand_quad<kBits, 5>(block, scales, minimums, out + 5 * kQuadNumbers);
    expand_quad<kBits, 6>(block, scales, minimums, out + 6 * kQuadNumbers);
    expand_quad<kBits, 7>(block, scales, minimums, out + 7 * kQuadNumbers);
    scales += kPanelOutputs;
    minimums += kPanelOutputs;
    out += 8 * kQuadNumbers;
  }
}

void expand_panel_of(const PackedLayout& layout, const std::byte* panel, const float* scales,
                     const float* minimums, float* out) {
  switch (layout.format.blocks.bits) {
    case 2:
      return expand_panel<2>(layout, panel, scales, minimums, out);
    case 3:
      return expand_panel<3>(layout, panel, scales, minimums, out);
    case 4:
      return expand_panel<4>(layout, panel, scales, minimums, out);
    case 5:
      return expand_panel<5>(layout, panel, scales, minimums, out);
    case 6:
      return expand_panel<6>(layout, panel, scales, minimums, out);
    default:
      return expand_panel<8>(layout, panel, scales, minimums, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(expand_scales);
HWY_EXPORT(expand_panel_of);

namespace {

// As many panels at once as the f32 kernel takes, unless they exceed a cache.
uint32_t f32_panels_at_once(const PackedLayout& layout) {
  constexpr size_t kCacheBytes = 1 << 20;
  const size_t panel_bytes = sizeof(float) * kPanelOutputs * size_t{layout.n_in};
  return static_cast<uint32_t>(std::clamp<size_t>(kCacheBytes / panel_bytes, 1, kMaxGemmPanels));
}

}  // namespace

bool expand_scales(const PackedLayout& layout, const std::byte* panel, bool zero_as_minimum,
                   float* scales, float* minimums) {
  HWY_DYNAMIC_DISPATCH(expand_scales)(layout, panel, zero_as_minimum, scales, minimums);
  return layout.format.blocks.has_minimum || zero_as_minimum;
}

size_t expanded_scale_bytes(const PackedLayout& layout) {
  return size_t{2} * sizeof(float) * kPanelOutputs *
         (layout.n_in / expanded_group(layout.format.blocks));
}

void gemm_blocks_f32(const Gemm& gemm) {
  const PackedLayout& layout = *gemm.layout;
  const PackedLayout expanded = packed_layout({}, layout.n_out, layout.n_in);
  auto* const scales = reinterpret_cast<float*>(gemm.scratch);
  float* const minimums = scales + expanded_scale_bytes(layout) / sizeof(float) / 2;
  std::byte* const panels = gemm.scratch + expanded_scale_bytes(layout);
  Gemm part = gemm;
  part.layout = &expanded;
  part.panels = panels;
  const uint32_t at_once = f32_panels_at_once(layout);
  for (uint32_t panel = 0; panel < gemm.n_panels; panel += at_once) {
    part.n_panels = std::min(at_once, gemm.n_panels - panel);
    part.sums.data = gemm.sums.data + panel * gemm.sums.panel_stride;
    for (uint32_t p = 0; p < part.n_panels; ++p) {
      const std::byte* from = gemm.panels + (panel + p) * layout.panel_bytes;
      expand_scales(layout, from, true, scales, minimums);
      HWY_DYNAMIC_DISPATCH(expand_panel_of)
      (layout, from, scales, minimums, reinterpret_cast<float*>(panels + p * expanded.panel_bytes));
    }
    gemm_f32(part);
  }
}

size_t gemm_blocks_f32_scratch_bytes(const PackedLayout& layout) {
  return expanded_scale_bytes(layout) +
         f32_panels_at_once(layout) * sizeof(float) * kPanelOutputs * size_t{layout.n_in};
}

}  // namespace vesper
#endif
