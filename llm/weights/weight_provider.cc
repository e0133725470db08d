#include "llm/weights/weight_provider.h"

#include "error/error.h"
#include "llm/weights/ctranslate2_reader.h"

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
  if (tensor == nullptr) {
    for (const UnreadableTensor& other : contents_.unreadable) {
      if (other.name == canonical_name) {
        throw Error(ErrorKind::kModel, path_.string() + ": tensor " + other.name +
                                           " is in format " + other.format +
                                           ", which has no reader");
      }
    }
    throw Error(ErrorKind::kModel, path_.string() + ": expected a tensor " +
                                       std::string(canonical_name) + ", found none of that name");
  }
  return *tensor;
}

const WhisperHyperparameters& WeightProvider::whisper() const {
  if (!contents_.whisper) {
    throw Error(ErrorKind::kModel, path_.string() + ": expected a Whisper model, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.whisper;
}

const TextEncoderHyperparameters& WeightProvider::text_encoder() const {
  if (!contents_.text_encoder) {
    throw Error(ErrorKind::kModel, path_.string() + ": expected a model that encodes text, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.text_encoder;
}

const LanguageModelFacts& WeightProvider::language_model() const {
  if (!contents_.language_model) {
    throw Error(ErrorKind::kModel, path_.string() +
                                       ": expected a language model of a known family, found " +
                                       (contents_.family.empty() ? "a model of unstated family"
                                                                 : "family " + contents_.family));
  }
  return *contents_.language_model;
}

void WeightProvider::release(const TensorView& tensor) const {
  for (const auto& file : contents_.files) file->release(tensor.data, tensor.bytes);
}

}  // namespace vesper
