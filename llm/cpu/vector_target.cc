// The name of the instruction set of Highway's kernels.
#include "llm/cpu/cpu_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/vector_target.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {
const char* compiled_for() { return hwy::TargetName(HWY_TARGET); }
}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(compiled_for);

std::string vector_target_name() {
  cpu_features();
  return HWY_DYNAMIC_DISPATCH(compiled_for)();
}

}  // namespace vesper
#endif
