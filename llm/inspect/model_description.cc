#include "llm/inspect/model_description.h"

#include <algorithm>
#include <array>
#include <map>

#include "error/error.h"
#include "llm/inspect/describe.h"

namespace vesper {
namespace {

// The first GGUF file of a folder; empty if there is none, or another format has precedence.
std::filesystem::path gguf_of_folder(const std::filesystem::path& folder) {
  const ModelFiles files(folder);
  if (files.has("model.bin") || !files.names_ending_with(".safetensors").empty()) return {};
  const auto names = files.names_ending_with(".gguf");
  return names.empty() ? std::filesystem::path() : folder / names.front();
}

}  // namespace

uint64_t ModelDescription::bytes_on_disk() const {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  return bytes;
}

uint64_t ModelDescription::n_parameters() const {
  uint64_t n = 0;
  for (const DescribedTensor& tensor : tensors) {
    if (!tensor.view.shape.empty()) n += tensor.view.n_elements();
  }
  return n;
}

uint64_t ModelDescription::n_active_parameters() const {
  const uint64_t n_experts = count("n_experts"), n_used = count("n_experts_used");
  if (n_experts == 0 || n_used > n_experts) return n_parameters();
  uint64_t n_of_experts = 0;
  for (const DescribedTensor& tensor : tensors) {
    const std::string_view name = tensor.view.name;
    const bool is_of_experts =
        name.find("experts.") != name.npos || name.find("_exps.") != name.npos;
    if (is_of_experts && !tensor.view.shape.empty()) n_of_experts += tensor.view.n_elements();
  }
  return n_parameters() - n_of_experts / n_experts * (n_experts - n_used);
}

uint64_t ModelDescription::tensor_bytes() const {
  uint64_t bytes = 0;
  for (const TensorClass& row : tensor_classes(*this)) bytes += row.bytes;
  return bytes;
}

double ModelDescription::bits_per_weight() const {
  const uint64_t n = n_parameters();
  return n == 0 ? 0.0 : 8.0 * static_cast<double>(tensor_bytes()) / static_cast<double>(n);
}

uint64_t ModelDescription::count(std::string_view key) const {
  for (const Fact& fact : facts) {
    if (fact.key == key && fact.value.is_number_unsigned()) return fact.value.get<uint64_t>();
  }
  return 0;
}

void ModelDescription::add(std::string key, std::string label, nlohmann::json value) {
  facts.push_back({std::move(key), std::move(label), std::move(value)});
}

ModelDescription describe_model(const std::filesystem::path& path) {
  ModelDescription description;
  description.path = path;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const std::filesystem::path gguf = is_folder ? gguf_of_folder(path) : path;
  if (!gguf.empty()) {
    auto file = std::make_shared<const MappedFile>(gguf);
    if (is_gguf(*file)) {
      describe_gguf(ModelFiles(gguf.parent_path()), std::move(file), description);
      return description;
    }
  }
  describe_files(path, description);
  return description;
}

std::string tensor_class(std::string_view name) {
  // The first match counts; norms come first because their names contain the names of their layers.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kClasses = {{
      {"norm", "norm"},
      {"Norm", "norm"},
      {"ln_", "norm"},
      {"position", "position"},
      {"conv", "convolution"},
      {"token_types", "embedding"},
      {"embd", "embedding"},
      {"embed", "embedding"},
      {"wte", "embedding"},
      {"lm_head", "output"},
      {"decoder.output", "output"},
      {"attn", "attention"},
      {"attention.output", "attention"},
      {"attention", "attention"},
      {"cross", "attention"},
      {"ffn", "feed-forward"},
      {"mlp", "feed-forward"},
      {"feed_forward", "feed-forward"},
      {"intermediate", "feed-forward"},
      {"output.dense", "feed-forward"},
      {"fc1", "feed-forward"},
      {"fc2", "feed-forward"},
      {".experts.", "feed-forward"},
      {".shared.", "feed-forward"},
      {"output.weight", "output"},
  }};
  for (const auto& [part, class_name] : kClasses) {
    if (name.find(part) != std::string_view::npos) return std::string(class_name);
  }
  return "other";
}

double TensorClass::bits_per_weight() const {
  return n_parameters == 0 ? 0.0
                           : 8.0 * static_cast<double>(bytes) / static_cast<double>(n_parameters);
}

std::vector<TensorClass> tensor_classes(const ModelDescription& description) {
  std::map<std::pair<std::string, std::string>, TensorClass> found;
  for (const DescribedTensor& tensor : description.tensors) {
    if (tensor.view.shape.empty()) continue;
    const std::string name = tensor_class(tensor.view.name);
    TensorClass& row = found[{name, tensor.format}];
    row.name = name;
    row.format = tensor.format;
    ++row.n_tensors;
    row.n_parameters += tensor.view.n_elements();
    row.bytes += tensor.view.bytes + tensor.view.scale.size() * sizeof(float);
  }
  std::vector<TensorClass> rows;
  for (auto& [key, row] : found) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TensorClass& a, const TensorClass& b) { return a.bytes > b.bytes; });
  return rows;
}

}  // namespace vesper
