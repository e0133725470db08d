// What `inspect` prints: each report as text for people, and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/inspect/model_description.h"
#include "llm/inspect/model_difference.h"
#include "llm/inspect/tensor_statistics.h"

namespace vesper {

using ReportJson = nlohmann::ordered_json;

// What a model needs to run, in bytes. 0 where it is not known.
struct MemoryNeed {
  std::string device;  // "cpu"
  std::string compute;
  uint64_t weights = 0, kv_cache = 0, scratch = 0;
  // Where programs and the device share memory: the program itself with its vocabulary, and what
  // storing the weights takes beyond what running takes: a matrix and the file's part that it comes
  // from are there at once.
  uint64_t program = 0, loading = 0;
  uint64_t available = 0;
  uint32_t n_ctx = 0;  // positions that a language model's cache is planned for
  // Not planned, but added up from the files: what the engine needs to hold them at the very least.
  bool at_least = false;
  std::string problem;  // why this device cannot run it; empty if it can
  uint64_t total() const { return weights + kv_cache + scratch + program + loading; }
};

struct Summary {
  const ModelDescription& model;
  std::string runs;                // "yes", or why not
  uint64_t kv_bytes_per_1000 = 0;  // tokens, f16; 0 if not known
  std::vector<MemoryNeed> memory;  // one a device
};
std::string summary_text(const Summary& summary);
ReportJson summary_json(const Summary& summary);

// Names that match one of the globs; any, if there is none.
bool matches(const std::vector<std::string>& globs, const std::string& name);

std::string metadata_text(const ModelDescription& model, const std::vector<std::string>& globs);
ReportJson metadata_json(const ModelDescription& model, const std::vector<std::string>& globs);

// `statistics` is empty, or one a tensor.
struct TensorList {
  std::vector<const DescribedTensor*> tensors;
  std::vector<TensorStatistics> statistics;
};
std::string tensors_text(const TensorList& list);
ReportJson tensors_json(const TensorList& list);

std::string difference_text(const ModelDifference& difference);
ReportJson difference_json(const ModelDifference& difference);

// One line, whatever bytes the strings hold: what is not ASCII is escaped.
std::string dump(const ReportJson& json);

}  // namespace vesper
