#include "tests/llm/cpu/modelled_features.h"

#include <cstdlib>
#include <string_view>

#include "tests/llm/cpu/amx_model.h"
#include "tests/llm/cpu/required_instructions.h"

// The linker's names for cpu_features() with --wrap.
extern "C" const vesper::CpuFeatures& __real__ZN6vesper12cpu_featuresEv();
extern "C" const vesper::CpuFeatures& __wrap__ZN6vesper12cpu_featuresEv();

namespace vesper::testing {
namespace {

CpuFeatures with_models(CpuFeatures features) {
  const char* variable = std::getenv("VESPER_CPU_TARGET");
  const std::string_view target = variable == nullptr ? "" : variable;
  if (models_vectors()) {
    features.avx_vnni = target == "avx2_vnni";
    features.amx = target == "amx";
    features.avx512_bf16 = features.amx || target == "avx512_bf16";
    features.avx512_vnni = features.avx512_bf16 || target == "avx512_vnni";
    if (features.amx) model_amx();
  } else if (target == "amx" && features.avx512_bf16 && model_amx()) {
    features.amx = true;
  }
  return features;
}

}  // namespace

const CpuFeatures& features_of_cpu() { return __real__ZN6vesper12cpu_featuresEv(); }

}  // namespace vesper::testing

const vesper::CpuFeatures& __wrap__ZN6vesper12cpu_featuresEv() {
  using namespace vesper::testing;
  static const vesper::CpuFeatures features = with_models(features_of_cpu());
  return features;
}
