// Assigns canonical names to a model's tensors.
#pragma once

#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// Names the tensors of `contents`, a model of `family` with one stack. Splits fused tensors:
// queries, keys and values by heads, others in halves, stacks of
// experts into one tensor each. Tensors that the naming lacks, or of other
// sizes, keep their names. Sets gated_ffn if the tensors show it.
void name_tensors(const TensorNaming& naming, const ModelFamily& family, ModelContents& contents);

// `tensor` split into parts of `rows` rows, named `names`; empty if a row is not an integer number
// of bytes.
std::vector<TensorView> cut_tensor(const TensorView& tensor, const std::vector<std::string>& names,
                                   const std::vector<uint64_t>& rows);

}  // namespace vesper
