// The matrix tiles (AMX) of some x86 CPUs: whether this process may use them.
#pragma once

namespace vesper {

// True if the CPU has AMX with bf16 and int8 products and AVX-512 with bf16 conversion, the kernel
// grants the tiles to this process (asked for on the first call), and neither
// hwy::SetSupportedTargetsForTest nor the environment variable DNNL_MAX_CPU_ISA, which oneDNN
// reads too, has taken them away. The environment is read once.
bool amx_usable();

}  // namespace vesper
