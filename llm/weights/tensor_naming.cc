#include "llm/weights/tensor_naming.h"

#include <algorithm>

namespace vesper {
namespace {

const TensorNaming::Row* find_row(const std::vector<TensorNaming::Row>& rows,
                                  std::string_view spelling) {
  for (const auto& row : rows) {
    if (row.first == spelling) return &row;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> canonical_names(const TensorNaming& naming, std::string_view file_name) {
  if (file_name.starts_with(naming.optional_prefix)) {
    file_name.remove_prefix(naming.optional_prefix.size());
  }
  if (const auto* row = find_row(naming.whole, file_name)) return {std::string(row->second)};

  const size_t last = file_name.rfind(naming.separator);
  if (last == std::string_view::npos) return {};
  const auto* leaf = find_row(naming.leaves, file_name.substr(last + 1));
  if (leaf == nullptr) return {};
  std::string_view stem = file_name.substr(0, last);
  if (const auto* row = find_row(naming.stems, stem)) {
    return {std::string(row->second) + "." + std::string(leaf->second)};
  }

  for (const auto& [prefix, canonical_prefix] : naming.layer_prefixes) {
    if (!stem.starts_with(prefix)) continue;
    stem.remove_prefix(prefix.size());
    const size_t n_digits = std::min(stem.find_first_not_of("0123456789"), stem.size());
    if (n_digits == 0 || n_digits > 4 || n_digits == stem.size() ||
        stem[n_digits] != naming.separator) {
      return {};
    }
    const auto* row = find_row(naming.layer_stems, stem.substr(n_digits + 1));
    if (row == nullptr) return {};
    std::vector<std::string> names;
    std::string_view parts = row->second;
    while (true) {
      const size_t end = std::min(parts.find('|'), parts.size());
      names.push_back(std::string(canonical_prefix) + std::string(stem.substr(0, n_digits)) + "." +
                      std::string(parts.substr(0, end)) + "." + std::string(leaf->second));
      if (end == parts.size()) return names;
      parts.remove_prefix(end + 1);
    }
  }
  return {};
}

}  // namespace vesper
