// Instruction sets and cores of the CPU that this process may use.
//
// The environment variable VESPER_CPU_TARGET limits the instruction sets to those of an older CPU:
// generic, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 or amx, for tests and experiments. By
// default everything is used.
#pragma once

#include <cstdint>
#include <string>

namespace vesper {

struct CpuFeatures {
  bool avx2 = false;         // with FMA
  bool avx_vnni = false;     // on 256-bit vectors, with AVX2
  bool avx512_vnni = false;  // with the AVX-512 foundation
  bool avx512_bf16 = false;  // products of bf16 pairs
  bool amx = false;          // bf16 and int8 tiles, with AVX512-BF16, permitted by the kernel
};

// Detected at the first call, which also applies VESPER_CPU_TARGET to Highway (so it must precede
// Highway's first use) and requests the tile registers from the kernel. Throws Error(kUsage)
// listing the names if the variable has another value.
const CpuFeatures& cpu_features();

// Cores that this process may use: those of its affinity mask, or its cgroup quota rounded up if
// that is lower. At least 1.
uint32_t available_cores();

// The instruction set of Highway's kernels, as Highway names it: "AVX3_DL".
std::string vector_target_name();

// The CPU's name ("Intel(R) Xeon(R) Processor"), or "CPU".
std::string cpu_name();

// Available memory in bytes without swapping: from the kernel, or the rest of the cgroup's limit if
// that is lower. UINT64_MAX if unknown.
uint64_t available_memory_bytes();

// Memory of the machine in bytes, or the cgroup's limit if that is lower. UINT64_MAX if unknown.
uint64_t total_memory_bytes();

}  // namespace vesper
