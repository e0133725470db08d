// Experts of gpt-oss in safetensors: one tensor per layer has all of them, and rows of gates and of
// values alternate. For NAME = gate_up_proj [n, 2 * d_ffn, d_model] and down_proj [n, d_model,
// d_ffn] of "model.layers.L.mlp.experts.":
//
//   NAME_blocks u8 [n, rows, columns / 32, 16], NAME_scales u8 [n, rows, columns / 32]: MXFP4, as
//     published. Byte j of a block has elements 2 * j (low bits) and 2 * j + 1.
//   NAME [n, columns, rows] of f32, f16 or bf16: as transformers saves it.
//   NAME_bias [n, rows]
#pragma once

#include "llm/weights/weight_provider.h"

namespace vesper {

// Replaces these tensors of `contents`, a language model, by those that other families have:
// decoder.layers.L.experts.E.{gate,up,down}.{weight,bias}. Their bytes are computed when they are
// loaded (ModelContents::compute), MXFP4 in GGUF's layout of blocks. Throws Error(kModel) naming
// the tensor if its shape is another, or a part is missing.
void split_alternating_experts(ModelContents& contents);

}  // namespace vesper
