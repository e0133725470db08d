#include "llm/conversion/changed_weights.h"

#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "error/error.h"
#include "llm/conversion/adapters.h"
#include "llm/conversion/gguf_tensors.h"
#include "llm/conversion/mixture.h"
#include "llm/dtype/quantize.h"
#include "llm/weights/tensor_names.h"

namespace vesper {
namespace {

constexpr const char* kSetting = "weights";

// The names that a model's tensors have in converted files.
class ConvertedNames {
 public:
  explicit ConvertedNames(const WeightProvider& weights) : is_gguf_(weights.gguf() != nullptr) {
    const ModelFamily* family = gguf_family(weights);
    naming_ = family != nullptr && family->gguf_names != nullptr ? family->gguf_names
              : weights.type() == ModelType::kLanguageModel      ? &kGgufLanguageModelNaming
                                                                 : &kGgufTextEncoderNaming;
  }

  // Absent for tensors that converted files lack.
  std::optional<std::string> of(const TensorView& tensor) const {
    if (is_gguf_) return tensor.file_name;
    const auto named = file_tensor_name(*naming_, tensor.name);
    if (!named) return std::nullopt;
    return named->name;
  }

 private:
  bool is_gguf_;
  const TensorNaming* naming_;
};

// The formats of weights.tensors() in a file of this mixture; absent: as they are.
std::vector<std::optional<DType>> converted_formats(const WeightProvider& weights,
                                                    const Mixture& mixture) {
  const ConvertedNames names(weights);
  MixtureModel facts;
  for (const TensorView& tensor : weights.tensors()) facts.add(names.of(tensor).value_or(""));
  std::vector<std::optional<DType>> formats;
  for (const TensorView& tensor : weights.tensors()) {
    std::optional<DType>& format = formats.emplace_back();
    // Vectors are read as f32 from any format.
    if (is_integer(tensor.dtype) || tensor.shape.size() < 2) continue;
    if (weights.type() == ModelType::kWhisper) {
      format = wanted_whisper_format(mixture, tensor.name, tensor.shape);
    } else if (const auto name = names.of(tensor)) {
      format = wanted_format(mixture, facts, *name, tensor.shape);
    } else {
      continue;
    }
    format = fitting_format(*format, tensor.shape.back());
    if (format == tensor.dtype && tensor.scale.empty()) format.reset();
  }
  return formats;
}

// What is known of a changed tensor.
struct ChangedTensor {
  TensorView source;
  std::vector<LowRankChange> changes;
};

DType format_of_change(DType source) {
  return dtype_descriptor(source).to_f32 != nullptr ? source : DType::kQ8_0;
}

// Computes changed tensors. Copies share it.
class Computation {
 public:
  // Decides how `contents`, those of `weights`, change.
  Computation(std::shared_ptr<const WeightProvider> source, const WeightOptions& options,
              uint32_t n_threads, ModelContents& contents)
      : weights_(std::move(source)), n_threads_(n_threads) {
    const WeightProvider& weights = *weights_;
    std::vector<std::optional<DType>> formats(contents.tensors.size());
    if (!options.type.empty()) {
      formats = converted_formats(weights, find_mixture(options.type, kSetting));
      contents.changes = "weights in " + options.type;
    }
    std::unordered_map<std::string, std::vector<LowRankChange>> changes;
    for (const AdapterFile& file : options.adapters) {
      Adapter adapter = read_adapter(file.path, weights);
      adapter_files_.insert(adapter_files_.end(), adapter.files.begin(), adapter.files.end());
      for (auto& [name, change] : adapter.changes) {
        change.scale *= file.scale;
        changes[name].push_back(std::move(change));
      }
      contents.changes +=
          ", adapter " + file.path.string() + " times " + std::to_string(file.scale);
    }
    for (size_t i = 0; i < formats.size(); ++i) {
      TensorView& tensor = contents.tensors[i];
      const auto found = changes.find(tensor.name);
      if (found == changes.end() && !formats[i]) continue;
      const DType format =
          formats[i].value_or(fitting_format(format_of_change(tensor.dtype), tensor.shape.back()));
      ChangedTensor& changed = tensors_[tensor.name];
      changed.source = tensor;
      if (found != changes.end()) changed.changes = std::move(found->second);
      tensor.dtype = format;
      tensor.data = nullptr;
      tensor.bytes = dtype_bytes(tensor.dtype, tensor.n_elements());
      tensor.scale.clear();
      tensor.groups = {};
    }
  }

  std::vector<uint8_t> operator()(const TensorView& tensor) const {
    const auto found = tensors_.find(tensor.name);
    if (found == tensors_.end()) return weights_->contents().compute(tensor);
    const std::vector<LowRankChange>& changes = found->second.changes;
    const LoadedTensor source = weights_->load(found->second.source);
    const uint64_t n_columns = tensor.shape.back();
    const uint64_t n_rows = tensor.n_elements() / n_columns;
    std::vector<LowRankChange::Factors> factors;
    for (const LowRankChange& change : changes) factors.push_back(change.read());
    std::vector<uint8_t> bytes(tensor.bytes);
    quantize_rows(
        weights_->path().string() + ": tensor " + tensor.file_name, tensor.dtype, 0, n_rows,
        n_columns,
        [&](uint64_t first, uint64_t n, float* rows) {
          read_f32(source.view, first * n_columns, n * n_columns, rows);
          for (size_t i = 0; i < changes.size(); ++i) changes[i].add(factors[i], first, n, rows);
        },
        n_threads_, bytes.data());
    weights_->release(found->second.source);
    return bytes;
  }

 private:
  std::shared_ptr<const WeightProvider> weights_;
  uint32_t n_threads_;
  std::vector<std::shared_ptr<const MappedFile>> adapter_files_;
  std::unordered_map<std::string, ChangedTensor> tensors_;  // by canonical name
};

}  // namespace

void check_weight_options(const WeightOptions& options) {
  if (!options.type.empty()) find_mixture(options.type, kSetting);
  for (const AdapterFile& adapter : options.adapters) {
    if (std::isfinite(adapter.scale)) continue;
    throw Error(ErrorKind::kUsage, "adapters",
                "expected a finite scale, found " + std::to_string(adapter.scale));
  }
}

std::shared_ptr<const WeightProvider> change_weights(std::shared_ptr<const WeightProvider> weights,
                                                     const WeightOptions& options,
                                                     uint32_t n_threads) {
  check_weight_options(options);
  if (options.type.empty() && options.adapters.empty()) return weights;
  weights->config();  // throws for a model that the engine cannot run
  ModelContents contents = weights->contents();
  const auto computation =
      std::make_shared<const Computation>(weights, options, n_threads, contents);
  contents.compute = [computation](const TensorView& tensor) { return (*computation)(tensor); };
  return std::make_shared<const WeightProvider>(weights->path(), std::move(contents));
}

}  // namespace vesper
