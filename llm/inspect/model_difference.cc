#include "llm/inspect/model_difference.h"

#include <map>

#include "llm/inspect/tensor_statistics.h"

namespace vesper {
namespace {

using nlohmann::json;
using Values = std::map<std::string, json>;

constexpr uint64_t kMaxCompared = 1000;  // elements of a metadata array

std::vector<ModelDifference::Value> compare(const Values& a, const Values& b) {
  std::vector<ModelDifference::Value> differences;
  Values keys = a;
  keys.insert(b.begin(), b.end());
  for (const auto& [key, unused] : keys) {
    const auto in_a = a.find(key);
    const auto in_b = b.find(key);
    json value_a = in_a == a.end() ? json() : in_a->second;
    json value_b = in_b == b.end() ? json() : in_b->second;
    if (value_a != value_b) {
      differences.push_back({key, std::move(value_a), std::move(value_b)});
    }
  }
  return differences;
}

Values facts_of(const ModelDescription& description) {
  Values values = {{"format", description.format}, {"family", description.family}};
  for (const Fact& fact : description.facts) values[fact.key] = fact.value;
  return values;
}

Values metadata_of(const ModelDescription& description) {
  Values values;
  for (const MetadataEntry& entry : description.metadata) {
    values[entry.key] = entry.value(kMaxCompared);
    if (entry.n_values > kMaxCompared) values[entry.key + " (number)"] = entry.n_values;
  }
  return values;
}

bool can_read(const DescribedTensor& tensor, const ModelDescription& model) {
  return tensor.has_reader && has_values(tensor.view, model.provider.get());
}

}  // namespace

std::string shape_and_format(const DescribedTensor& tensor) {
  return tensor.format + " " + shape_text(tensor.view.shape);
}

ModelDifference model_difference(const ModelDescription& a, const ModelDescription& b,
                                 uint32_t n_threads) {
  ModelDifference difference;
  difference.facts = compare(facts_of(a), facts_of(b));
  difference.metadata = compare(metadata_of(a), metadata_of(b));
  std::map<std::string_view, const DescribedTensor*> by_name;
  for (const DescribedTensor& tensor : b.tensors) by_name.emplace(tensor.view.name, &tensor);
  std::vector<TensorPair> pairs;
  std::vector<ModelDifference::Tensor> compared;  // those of `pairs`
  for (const DescribedTensor& tensor : a.tensors) {
    ModelDifference::Tensor row{tensor.view.name, shape_and_format(tensor), "", std::nullopt};
    const auto found = by_name.find(tensor.view.name);
    if (found == by_name.end()) {
      difference.tensors.push_back(std::move(row));
      continue;
    }
    const DescribedTensor& other = *found->second;
    by_name.erase(found);
    row.b = shape_and_format(other);
    if (tensor.view.shape != other.view.shape || !can_read(tensor, a) || !can_read(other, b)) {
      if (row.a != row.b) difference.tensors.push_back(std::move(row));
      continue;
    }
    pairs.push_back({&tensor.view, &other.view, a.provider.get(), b.provider.get()});
    compared.push_back(std::move(row));
  }
  const std::vector<double> largest = largest_differences(pairs, n_threads);
  for (size_t i = 0; i < pairs.size(); ++i) {
    compared[i].largest = largest[i];
    if (compared[i].a == compared[i].b && largest[i] == 0) {
      ++difference.n_equal_tensors;
    } else {
      difference.tensors.push_back(std::move(compared[i]));
    }
  }
  for (const DescribedTensor& tensor : b.tensors) {
    if (by_name.count(tensor.view.name) == 0) continue;
    difference.tensors.push_back({tensor.view.name, "", shape_and_format(tensor), std::nullopt});
  }
  return difference;
}

}  // namespace vesper
