#include "llm/conversion/changed_weights.h"

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llm/dtype/quantize.h"
#include "llm/weights/tensor_names.h"

namespace vesper {
namespace {

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

}  // namespace

void check_weight_options(const WeightOptions& options) {
  if (!options.type.empty()) find_mixture(options.type, "weights");
}

std::shared_ptr<const WeightProvider> change_weights(std::shared_ptr<const WeightProvider> weights,
                                                     const WeightOptions& options,
                                                     uint32_t n_threads) {
  check_weight_options(options);
  if (options.type.empty()) return weights;
  const auto formats = converted_formats(*weights, find_mixture(options.type, "weights"));
  ModelContents contents = weights->contents();
  std::unordered_map<std::string, TensorView> sources;  // by canonical name
  for (size_t i = 0; i < formats.size(); ++i) {
    if (!formats[i]) continue;
    TensorView& tensor = contents.tensors[i];
    sources.emplace(tensor.name, tensor);
    tensor.dtype = *formats[i];
    tensor.data = nullptr;
    tensor.bytes = dtype_bytes(tensor.dtype, tensor.n_elements());
    tensor.scale.clear();
    tensor.groups = {};
  }
  contents.changes = "weights in " + options.type;
  contents.compute = [sources = std::move(sources), files = contents.files, n_threads,
                      path = weights->path().string()](const TensorView& tensor) {
    const TensorView& source = sources.at(tensor.name);
    const uint64_t n_columns = tensor.shape.back();
    const uint64_t n_rows = tensor.n_elements() / n_columns;
    std::vector<uint8_t> blocks(tensor.bytes);
    quantize_rows(
        path + ": tensor " + tensor.file_name, tensor.dtype, 0, n_rows, n_columns,
        [&](uint64_t first, uint64_t n, float* out) {
          read_f32(source, first * n_columns, n * n_columns, out);
        },
        n_threads, blocks.data());
    for (const auto& file : files) file->release(source.data, source.bytes);
    return blocks;
  };
  return std::make_shared<const WeightProvider>(weights->path(), std::move(contents));
}

const ModelFamily* gguf_family(const WeightProvider& weights) {
  const ModelConfig* model = weights.stated_config();
  const bool is_alibi = model != nullptr && !model->stacks.empty() &&
                        model->stacks.back().positions == PositionKind::kAlibi;
  const ModelFamily* family = find_hugging_face_family(weights.family(), is_alibi ? "alibi" : "");
  return family == nullptr ? nullptr : find_gguf_family(family->gguf);
}

bool is_integer(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI16; }

}  // namespace vesper
