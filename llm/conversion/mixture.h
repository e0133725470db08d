// Mixtures of weight formats: the format of each tensor in a converted model.
//
// A mixture is named by the format of most of its matrices. Norms, biases and other vectors stay in
// f32. The output matrix, and the matrices whose errors matter most, have more bits. The choices
// are those of llama.cpp's mixtures of medium size (Q4_K_M), without its exceptions for single
// architectures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/dtype/dtype.h"

namespace vesper {

struct Mixture {
  DType most;          // of most matrices; names the mixture
  uint32_t file_type;  // llama.cpp's number of it, for general.file_type
  DType output;        // of the output matrix, or of the embedding that serves as one
  DType sensitive;     // of attention values and of the second feed-forward matrix
  bool in_all_layers;  // sensitive matrices have their format in every layer, or in about half
};

// The mixture with this name, "q4_k". Throws Error(kUsage) about `setting`, listing the names.
const Mixture& find_mixture(std::string_view name, const char* setting = "type");
std::vector<std::string_view> mixture_names();

// Facts of a model that decide formats.
struct MixtureModel {
  uint32_t n_layers = 0;
  bool has_output = false;  // an output matrix of its own
  // Takes one more GGUF name of the model's tensors into account.
  void add(std::string_view tensor_name);
};

// The format of a tensor with a GGUF name and a shape, outermost first, if its rows fit.
DType wanted_format(const Mixture& mixture, const MixtureModel& model, const std::string& name,
                    const std::vector<uint64_t>& shape);
// The same, or for rows that are no multiple of its block a format with more bits and a smaller
// block.
DType fitting_format(DType wanted, uint64_t row_elements);

// The format of a tensor of Whisper with a canonical name, if its rows fit.
DType wanted_whisper_format(const Mixture& mixture, std::string_view name,
                            const std::vector<uint64_t>& shape);

}  // namespace vesper
