// Conversion of models: what a converted file contains. Whisper becomes a ggml file
// (whisper_plan.h), other models become GGUF.
//
// In: an open model and a mixture of weight formats. Out: a plan, which has the head of the file
// and says where each tensor's values come from. Called by session/conversion, which writes the
// file. Sizes come only from checked readers.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "llm/conversion/gguf_tensors.h"
#include "llm/conversion/mixture.h"
#include "llm/dtype/tensor_view.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A tensor of the converted file.
struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  DType dtype = DType::kF32;
  DType wanted = DType::kF32;  // differs from dtype if the rows do not fit its blocks
  // The parts hold the tensor's rows one after another; a row is the innermost dimension, and of a
  // vector each element is a row.
  std::vector<TensorView> parts;
  RotaryOrder order = {};
  float offset = 0;         // added to every value
  std::string before = {};  // bytes of the file before the values

  uint64_t n_columns() const { return shape.size() < 2 ? 1 : shape.back(); }
  uint64_t n_rows() const;
  uint64_t bytes() const;  // of the values
  // Whether the file's bytes are those of the parts.
  bool is_copy() const;
  // Rows [first, first + n) as f32 [n, n_columns].
  void read_rows(uint64_t first, uint64_t n, float* out) const;
};

struct ConversionPlan {
  std::string head;  // bytes before the first tensor
  uint64_t alignment = 1;
  std::vector<PlannedTensor> tensors;  // in file order, each padded with zeros to the alignment
  std::vector<std::string> left_out;   // names of tensors that the format has no name for
  // What the file states of a model that was not in GGUF; differs from the model's in the context
  // length, if GGUF's family lacks its sliding windows.
  std::optional<ModelConfig> stated;
  bool has_tokenizer = false;               // made from the files beside the weights
  std::deque<std::vector<float>> computed;  // values of tensors that the model's files lack
  uint64_t bytes() const;                   // of the file
  uint64_t padding(const PlannedTensor& tensor) const;  // zeros behind its values
};

// For models other than Whisper. `pooling_type`: of a text encoder that is not in GGUF, llama.cpp's
// number; 0: none. Throws Error(kModel) if the model cannot be stated in GGUF, saying why.
ConversionPlan plan_gguf(const WeightProvider& weights, const Mixture& mixture,
                         uint32_t pooling_type = 0);

}  // namespace vesper
