// Biases of attention scores by the distance of query and key, computed at load for the kernel
// `attention`. Used by stacks of encoders.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/models/weight_uploader.h"

namespace vesper {

// Whether the stack has ALiBi or a bias per bucket.
bool has_position_bias(const StackConfig& config);

// f32 [n_heads, 2 * reach + 1], by the query's position minus the key's plus `reach`. Buckets are
// those of the tensor "STACK.position_bias.weight". Throws Error(kModel).
Operand upload_position_bias(const WeightUploader& upload, const WeightProvider& provider,
                             const StackConfig& config, uint32_t reach);

// ALiBi (Press et al., "Train Short, Test Long", 2022): a bias of -slope * distance, in the layout
// above.
std::vector<float> alibi_bias(uint32_t n_heads, uint32_t reach);

// The bias of each distance's bucket (Raffel et al., "Exploring the Limits of Transfer Learning
// with a Unified Text-to-Text Transformer", 2020, as in MPNet), in the layout above. `buckets`,
// [n_buckets, n_heads]: the first half for keys up to the query, the second for keys after it. The
// buckets of a half are single distances at first, then grow exponentially up to distance 128.
std::vector<float> bucket_bias(std::span<const float> buckets, uint32_t n_heads, uint32_t reach);

}  // namespace vesper
