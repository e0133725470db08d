#include "llm/weights/language_model_tensors.h"

#include <algorithm>
#include <utility>

namespace vesper {
namespace {

constexpr LanguageFamily kLanguageFamilies[] = {
    {"llama", "llama", "llama", true, false},
    {"mistral", "", "mistral", true, false},
    {"qwen2", "qwen2", "qwen2", false, false},
    {"qwen3", "qwen3", "qwen3", false, false},
    {"gemma", "gemma", "gemma", false, true},
    {"gemma2", "gemma2", "gemma2", false, true},
    {"gemma3_text", "gemma3", "gemma3", false, true},
    {"gemma3", "", "gemma3", false, true},
    {"phi3", "phi3", "phi3", false, false},
    {"smollm3", "smollm3", "smollm3", true, false},
};

const LanguageFamily* find_family(const char* LanguageFamily::*key, std::string_view value) {
  const auto* found =
      std::find_if(std::begin(kLanguageFamilies), std::end(kLanguageFamilies),
                   [&](const LanguageFamily& family) { return value == family.*key; });
  return value.empty() || found == std::end(kLanguageFamilies) ? nullptr : found;
}

// The rows of each part, if the tensor's rows can be cut so.
std::vector<uint64_t> rows_of_parts(const TensorView& tensor, size_t n_parts,
                                    const LanguageModelFacts& facts) {
  if (tensor.shape.empty()) return {};
  const uint64_t rows = tensor.shape[0];
  if (n_parts == 2)
    return rows % 2 == 0 ? std::vector<uint64_t>{rows / 2, rows / 2} : std::vector<uint64_t>{};
  const uint64_t q = uint64_t{facts.n_heads} * facts.head_dim;
  const uint64_t kv = uint64_t{facts.n_kv_heads} * facts.head_dim;
  return q + 2 * kv == rows ? std::vector<uint64_t>{q, kv, kv} : std::vector<uint64_t>{};
}

}  // namespace

std::vector<TensorView> cut_tensor(const TensorView& tensor, const std::vector<std::string>& names,
                                   const std::vector<uint64_t>& rows) {
  std::vector<TensorView> parts;
  const uint64_t n_rows = tensor.shape[0];
  const uint64_t row_elements = n_rows == 0 ? 0 : tensor.n_elements() / n_rows;
  if (n_rows == 0 || row_elements % dtype_descriptor(tensor.dtype).block != 0) return parts;
  const uint64_t row_bytes = tensor.bytes / n_rows;
  uint64_t first = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    TensorView part = tensor;
    part.name = names[i];
    part.shape[0] = rows[i];
    part.data = static_cast<const uint8_t*>(tensor.data) + first * row_bytes;
    part.bytes = rows[i] * row_bytes;
    if (tensor.scale.size() == n_rows) {
      const auto from = tensor.scale.begin() + static_cast<std::ptrdiff_t>(first);
      part.scale.assign(from, from + static_cast<std::ptrdiff_t>(rows[i]));
    }
    parts.push_back(std::move(part));
    first += rows[i];
  }
  return parts;
}

const LanguageFamily* find_language_family_by_type(std::string_view model_type) {
  return find_family(&LanguageFamily::model_type, model_type);
}

const LanguageFamily* find_language_family_by_architecture(std::string_view architecture) {
  return find_family(&LanguageFamily::architecture, architecture);
}

void name_language_tensors(const TensorNaming& naming, ModelContents& contents) {
  const LanguageModelFacts& facts = *contents.language_model;
  std::vector<TensorView> named;
  named.reserve(contents.tensors.size());
  for (TensorView& tensor : contents.tensors) {
    std::vector<std::string> names = canonical_names(naming, tensor.name);
    // Phi-3 in GGUF: the gate lies in the same tensor, which is called after the rows.
    if (names.size() == 1 && names[0].ends_with(".ffn.up.weight") && tensor.shape.size() == 2 &&
        tensor.shape[0] == 2 * uint64_t{facts.d_ffn}) {
      names.insert(names.begin(), names[0].substr(0, names[0].size() - 9) + "gate.weight");
    }
    if (names.size() > 1) {
      const std::vector<uint64_t> rows = rows_of_parts(tensor, names.size(), facts);
      std::vector<TensorView> parts;
      if (!rows.empty()) parts = cut_tensor(tensor, names, rows);
      for (TensorView& part : parts) named.push_back(std::move(part));
      if (!parts.empty()) continue;
    } else if (names.size() == 1) {
      tensor.name = std::move(names[0]);
    }
    named.push_back(std::move(tensor));
  }
  contents.tensors = std::move(named);
  for (UnreadableTensor& tensor : contents.unreadable) {
    const std::vector<std::string> names = canonical_names(naming, tensor.name);
    if (names.size() == 1) tensor.name = names[0];
  }
}

}  // namespace vesper
