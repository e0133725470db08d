// What this process may use of the processor: instruction sets and cores.
//
// The environment variable VESPER_CPU_TARGET limits the instruction sets to those of an older CPU:
// generic, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 or amx. It serves tests and
// experiments; unset, everything that the CPU has is used.
#pragma once

#include <cstdint>
#include <string>

namespace vesper {

struct CpuFeatures {
  bool avx2 = false;         // with FMA
  bool avx_vnni = false;     // on 256-bit vectors, with AVX2
  bool avx512_vnni = false;  // with the AVX-512 foundation
  bool avx512_bf16 = false;  // products of pairs of bf16
  bool amx = false;          // bf16 and int8 tiles, with AVX512-BF16, granted to this process
};

// Found once, at the first call, which also applies VESPER_CPU_TARGET to Highway (it must therefore
// come before its first use) and asks the kernel for the tile registers.
// Throws Error(kUsage) listing the names if the variable has another value.
const CpuFeatures& cpu_features();

// Cores that this process may run on: those of its affinity mask, or its cgroup's quota rounded up
// where that is lower. At least 1.
uint32_t available_cores();

// The instruction set that Highway's kernels use here, as Highway names it: "AVX3_DL".
std::string vector_target_name();

// The processor as it calls itself ("Intel(R) Xeon(R) Processor"), or "CPU".
std::string cpu_name();

// Bytes of memory that may still be taken without swapping: what the kernel says is available, or
// what is left of the cgroup's limit where that is lower. UINT64_MAX if neither is known.
uint64_t available_memory_bytes();

}  // namespace vesper
