// Shared by the micro-kernels for quantized blocks (packed_blocks.h): the scales of a panel are
// expanded to f32 first, so kernels have only scales for 16 or 32 inputs.
#pragma once

#include "llm/cpu/matmul/gemm.h"

namespace vesper {

// Scales and minimums of a panel as f32 [n_in / expanded_group][16]. `minimums` is written if the
// format has minimums, or with `zero_as_minimum`: -zero * scale. Returns whether it was written.
bool expand_scales(const PackedLayout& layout, const std::byte* panel, bool zero_as_minimum,
                   float* scales, float* minimums);

}  // namespace vesper
