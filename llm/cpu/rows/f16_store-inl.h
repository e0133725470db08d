// Stores vectors of f32 as f16. Compiled once per instruction set (Highway's foreach_target), so
// there is no plain include guard.
#if defined(VESPER_LLM_CPU_F16_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_F16_STORE_INL_H_
#undef VESPER_LLM_CPU_F16_STORE_INL_H_
#else
#define VESPER_LLM_CPU_F16_STORE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "llm/dtype/number_conversion.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rounds to nearest even, like number_conversion.h; Highway 1.0 truncates without F16C.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE void store_f16(DF d, V value, uint16_t* to) {
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, DF> d16;
  hn::StoreU(hn::DemoteTo(d16, value), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  float values[hn::MaxLanes(DF())];
  hn::StoreU(value, d, values);
  for (size_t i = 0; i < hn::MaxLanes(DF()); ++i) to[i] = f32_to_f16(values[i]);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#endif
