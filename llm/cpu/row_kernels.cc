// Kernels that go over rows once, compiled together for every instruction set: each of them is a
// few lines, Highway's headers are many.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/row_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway demands.
#include "hwy/highway.h"
#include "llm/cpu/activation-inl.h"
#include "llm/cpu/draw_partials-inl.h"
#include "llm/cpu/gated_activation-inl.h"
#include "llm/cpu/lstm-inl.h"
#include "llm/cpu/magnitude-inl.h"
#include "llm/cpu/norm-inl.h"
#include "llm/cpu/pool-inl.h"
#include "llm/cpu/rope-inl.h"
#include "llm/cpu/write_kv-inl.h"
