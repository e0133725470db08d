#include "llm/weights/weight_provider.h"

#include "error/error.h"
#include "llm/weights/model_check.h"

namespace vesper {

WeightProvider::WeightProvider(std::filesystem::path path, ModelContents contents)
    : path_(std::move(path)), contents_(std::move(contents)) {
  index_.reserve(contents_.tensors.size());
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    const TensorView& tensor = contents_.tensors[i];
    if (!index_.emplace(tensor.name, i).second) {
      throw Error(ErrorKind::kModel, path_.string() + ": expected one tensor " + tensor.name +
                                         ", found two (the second is spelt " + tensor.file_name +
                                         ")");
    }
  }
}

const TensorView* WeightProvider::find(std::string_view canonical_name) const {
  const auto found = index_.find(canonical_name);
  return found == index_.end() ? nullptr : &contents_.tensors[found->second];
}

const TensorView& WeightProvider::require(std::string_view canonical_name) const {
  const TensorView* tensor = find(canonical_name);
  return tensor != nullptr ? *tensor
                           : require_tensor(path_.string(), contents_, std::string(canonical_name));
}

const ModelConfig& WeightProvider::config(ModelType type) const {
  if (type != this->type() || type == ModelType::kNone) {
    constexpr const char* kExpected[] = {"a model that the engine runs", "a Whisper model",
                                         "a model that encodes text",
                                         "a language model of a known family"};
    throw Error(ErrorKind::kModel, path_.string() + ": expected " +
                                       kExpected[static_cast<size_t>(type)] + ", found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  const ModelConfig& config = *contents_.config;
  if (!config.problem.empty()) throw Error(ErrorKind::kModel, config.problem);
  return config;
}

LoadedTensor WeightProvider::load(const TensorView& tensor) const {
  LoadedTensor loaded{tensor};
  if (tensor.data == nullptr && tensor.bytes > 0) {
    loaded.computed = contents_.compute(tensor);
    loaded.view.data = loaded.computed.data();
  }
  return loaded;
}

std::vector<float> WeightProvider::read(const TensorView& tensor) const {
  return read_f32(load(tensor).view);
}

void WeightProvider::release(const TensorView& tensor) const {
  for (const auto& file : contents_.files) file->release(tensor.data, tensor.bytes);
}

}  // namespace vesper
