// What both readers of language models do to tensors.
#pragma once

#include "llm/weights/tensor_naming.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A family of language models and how its files order things.
struct LanguageFamily {
  const char* model_type;    // in config.json; empty if there is none
  const char* architecture;  // in GGUF
  const char* arch;          // the row of llm/config/arch_descriptor
  bool gguf_is_interleaved;  // the converter to GGUF puts the halves of a rotary pair side by side
  // Gains of norms are stored less 1, but in GGUF, whose converter adds it.
  bool norm_weights_are_offset;
};
const LanguageFamily* find_language_family_by_type(std::string_view model_type);
const LanguageFamily* find_language_family_by_architecture(std::string_view architecture);

// Gives the tensors their canonical names and cuts fused ones into their parts: queries, keys and
// values by the facts' heads, gates and rows in halves. What the naming does not have, and what
// does not fit the facts, keeps its name.
void name_language_tensors(const TensorNaming& naming, ModelContents& contents);

// `tensor` cut into parts of so many rows, which the names are for; nothing if a row is not a whole
// number of bytes.
std::vector<TensorView> cut_tensor(const TensorView& tensor, const std::vector<std::string>& names,
                                   const std::vector<uint64_t>& rows);

}  // namespace vesper
