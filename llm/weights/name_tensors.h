// Gives a model's tensors their canonical names.
#pragma once

#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// Names the tensors of `contents`, a model of `family` with one stack, and cuts fused ones into
// their parts: queries, keys and values by the heads, others in halves. What the naming does not
// have, and what does not fit the sizes, keeps its name. Sets gated_ffn where the tensors tell.
void name_tensors(const TensorNaming& naming, const ModelFamily& family, ModelContents& contents);

// `tensor` cut into parts of so many rows, named by `names`; nothing if a row is not a whole number
// of bytes.
std::vector<TensorView> cut_tensor(const TensorView& tensor, const std::vector<std::string>& names,
                                   const std::vector<uint64_t>& rows);

}  // namespace vesper
