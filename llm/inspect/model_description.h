// The contents of a model's files, without loading the model. In: a path. Out: facts, metadata and
// the list of tensors. Called by `inspect`.
//
// Describes every file with a known container, whether or not the engine can run it. Unknown
// features are listed in `unknown`, damage in `problems`. No weight is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/files/gguf_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// One fact about a model, such as its number of layers.
struct Fact {
  std::string key;    // for programs: "n_layers"
  std::string label;  // for people: "layers"
  nlohmann::json value;
};

// One metadata entry of the files.
struct MetadataEntry {
  std::string key;
  std::string type;       // as named by the format: "u32", "string", "array of string"
  uint64_t n_values = 1;  // elements of an array
  // The value; of an array, the first `limit` elements.
  std::function<nlohmann::json(uint64_t limit)> value;
};

struct DescribedTensor {
  TensorView view;     // data is null if the format cannot be read as numbers
  std::string format;  // as named by the file, lower case
  bool has_reader = false;
  size_t file = 0;      // in ModelDescription::files
  uint64_t offset = 0;  // from the start of that file
};

struct ModelDescription {
  struct File {
    std::string name;
    uint64_t bytes = 0;
  };

  std::filesystem::path path;
  std::string format;  // "GGUF version 3"
  std::string family;  // "llama", "whisper"; empty if unknown
  std::vector<File> files;
  std::vector<Fact> facts;
  std::vector<MetadataEntry> metadata;
  std::vector<DescribedTensor> tensors;
  std::string chat_template;         // empty if there is none
  std::vector<std::string> unknown;  // features that the engine does not know
  std::vector<std::string> problems;
  // Owns what tensors and metadata point into; the first is null for a GGUF file.
  std::shared_ptr<const WeightProvider> provider;
  std::shared_ptr<const Gguf> gguf;

  uint64_t bytes_on_disk() const;
  uint64_t n_parameters() const;
  // Those that a token uses: of a mixture of experts, only the used experts.
  uint64_t n_active_parameters() const;
  uint64_t tensor_bytes() const;
  double bits_per_weight() const;  // 0 without tensors
  // The fact `key` as a count, 0 if absent.
  uint64_t count(std::string_view key) const;
  void add(std::string key, std::string label, nlohmann::json value);
};

// Throws Error(kModel) if the container is unknown, or its metadata or tensor directory is damaged.
ModelDescription describe_model(const std::filesystem::path& path);

// The tensors of one class and one format, a line of the table of formats.
struct TensorClass {
  std::string name;  // "attention", "feed-forward", "embedding", "output", "norm", ...
  std::string format;
  uint64_t n_tensors = 0, n_parameters = 0, bytes = 0;
  double bits_per_weight() const;
};
// Largest first, by bytes.
std::vector<TensorClass> tensor_classes(const ModelDescription& description);
std::string tensor_class(std::string_view name);

}  // namespace vesper
