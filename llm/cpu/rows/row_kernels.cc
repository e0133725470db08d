// Kernels that read rows once, compiled together per instruction set: each is a few lines, and
// Highway's headers are large.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/rows/row_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/rows/activation-inl.h"
#include "llm/cpu/rows/combine_experts-inl.h"
#include "llm/cpu/rows/gated_activation-inl.h"
#include "llm/cpu/rows/lstm-inl.h"
#include "llm/cpu/rows/magnitude-inl.h"
#include "llm/cpu/rows/norm-inl.h"
#include "llm/cpu/rows/pool-inl.h"
#include "llm/cpu/rows/rope-inl.h"
#include "llm/cpu/rows/write_kv-inl.h"
