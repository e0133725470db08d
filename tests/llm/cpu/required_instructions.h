// Reruns of tests with VESPER_CPU_TARGET test nothing on a CPU without these instructions: kernels
// for older ones run instead. A program that links this skips all of its tests then, and says which
// instructions the CPU lacks; ctest lists the rerun as not run.
#pragma once

#include <string>
#include <string_view>

#include "llm/cpu/cpu_features.h"

namespace vesper::testing {

// The instructions that a value of VESPER_CPU_TARGET asks for and that are not in `features`, with
// Highway's instruction set `vectors`; empty if there are none.
std::string missing_instructions(std::string_view target, const CpuFeatures& features,
                                 std::string_view vectors);

// Whether this program's kernels for AVX-512 are compiled for the vector model (vector_model/).
bool models_vectors();

}  // namespace vesper::testing
