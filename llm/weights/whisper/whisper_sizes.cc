#include "llm/weights/whisper/whisper_sizes.h"

#include <algorithm>
#include <string>

#include "error/error.h"
#include "llm/weights/model_check.h"
#include "llm/weights/model_families.h"

namespace vesper {
namespace {

uint64_t dimension(const std::string& where, const ModelContents& contents, const std::string& name,
                   size_t rank, size_t axis) {
  const TensorView& found = require_tensor(where, contents, name);
  if (found.shape.size() != rank) {
    throw Error(ErrorKind::kModel, where + ": expected tensor " + found.file_name + " to have " +
                                       std::to_string(rank) + " dimensions, found shape " +
                                       shape_text(found.shape));
  }
  return found.shape[axis];
}

uint64_t count_layers(const ModelContents& contents, const std::string& stack) {
  uint64_t n = 0;
  const auto is_there = [&](uint64_t layer) {
    const std::string name = stack + ".layers." + std::to_string(layer) + ".attn.q.weight";
    return std::any_of(contents.tensors.begin(), contents.tensors.end(),
                       [&](const TensorView& tensor) { return tensor.name == name; });
  };
  while (n <= kMostLayers && is_there(n)) ++n;
  return n;
}

}  // namespace

void complete_whisper_sizes(const std::string& where, ModelContents& contents) {
  ModelConfig& model = *contents.config;
  const auto settle = [&](const std::string& fact, uint32_t& value, uint64_t from_tensors,
                          uint64_t limit) {
    if (from_tensors == 0 || from_tensors > limit) {
      throw Error(ErrorKind::kModel, where + ": expected " + fact + " between 1 and " +
                                         std::to_string(limit) + ", found " +
                                         std::to_string(from_tensors) + " by the tensors' shapes");
    }
    if (value == 0) value = static_cast<uint32_t>(from_tensors);
    if (value != from_tensors) {
      throw Error(ErrorKind::kModel, where + ": expected " + fact + " " + std::to_string(value) +
                                         " as the file states, found " +
                                         std::to_string(from_tensors) + " by the tensors' shapes");
    }
  };
  const auto size = [&](const std::string& name, size_t rank, size_t axis) {
    return dimension(where, contents, name, rank, axis);
  };
  settle("n_mels", model.n_mels, size("encoder.conv1.weight", 3, 1), kMostMels);
  settle("n_vocab", model.n_vocab, size("decoder.embed.weight", 2, 0), kMostVocabulary);
  for (StackConfig& stack : model.stacks) {
    const std::string name(stack.name);
    settle("d_model", stack.d_model, size("encoder.conv1.weight", 3, 0), kMostWidth);
    settle("n_positions of the " + name, stack.n_positions, size(name + ".position.weight", 2, 0),
           kMostPositions);
    settle("n_" + name + "_layers", stack.n_layers, count_layers(contents, name), kMostLayers);
    settle("d_ffn", stack.d_ffn, size(name + ".layers.0.ffn.up.weight", 2, 0), kMostWidth);
    complete_sizes(whisper_family(), stack);
    stack.layers.assign(stack.n_layers, {});
  }
}

}  // namespace vesper
