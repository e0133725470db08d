// A test program that links this has the instructions of software models besides those of the CPU:
// its linker replaces cpu_features() (--wrap).
//
// - With VESPER_CPU_TARGET=amx, AMX on a CPU with AVX512-BF16: amx_model.h.
// - In a program whose kernels for AVX-512 are compiled for the vector model (vector_model/), every
//   instruction set that VESPER_CPU_TARGET names, on a CPU with AVX2.
#pragma once

#include "llm/cpu/cpu_features.h"

namespace vesper::testing {

// Without models.
const CpuFeatures& features_of_cpu();

}  // namespace vesper::testing
