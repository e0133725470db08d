// The reports of `inspect`, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/inspect/model_description.h"
#include "llm/inspect/model_difference.h"
#include "llm/inspect/tensor_statistics.h"

namespace vesper {

using ReportJson = nlohmann::ordered_json;

// The memory that a model needs, in bytes. 0: unknown.
struct MemoryNeed {
  std::string device;  // "cpu"
  std::string compute;
  uint64_t weights = 0, kv_cache = 0, scratch = 0;
  // If programs and the device share memory: the program with its vocabulary, and the additional
  // memory while weights are stored (a matrix and its part of the file at once).
  uint64_t program = 0, loading = 0;
  uint64_t available = 0;
  uint32_t n_ctx = 0;  // positions of a language model's planned cache
  // A lower limit computed from the file sizes, not planned.
  bool at_least = false;
  std::string problem;  // why the device cannot run it; empty if it can
  uint64_t total() const { return weights + kv_cache + scratch + program + loading; }
};

struct Summary {
  const ModelDescription& model;
  std::string runs;                // "yes", or the reason
  uint64_t kv_bytes_per_1000 = 0;  // of 1000 tokens in f16; 0: unknown
  std::vector<MemoryNeed> memory;  // one per device
};
std::string summary_text(const Summary& summary);
ReportJson summary_json(const Summary& summary);

// Names that match one of the globs; all if there are none.
bool matches(const std::vector<std::string>& globs, const std::string& name);

std::string metadata_text(const ModelDescription& model, const std::vector<std::string>& globs);
ReportJson metadata_json(const ModelDescription& model, const std::vector<std::string>& globs);

// `statistics` is empty, or has one per tensor.
struct TensorList {
  std::vector<const DescribedTensor*> tensors;
  std::vector<TensorStatistics> statistics;
};
std::string tensors_text(const TensorList& list);
ReportJson tensors_json(const TensorList& list);

std::string difference_text(const ModelDifference& difference);
ReportJson difference_json(const ModelDifference& difference);

// One line of ASCII; other characters are escaped.
std::string dump(const ReportJson& json);

}  // namespace vesper
