// LoRA adapters: low-rank changes of a model's matrices, in the files of Hugging Face's PEFT
// (adapter_config.json and adapter_model.safetensors) or of llama.cpp (GGUF).
//
// In: a file or folder, and the open model that it is for. Out: the change of each tensor, by
// canonical name. Called by changed_weights, which adds them while the model is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llm/conversion/gguf_tensors.h"
#include "llm/dtype/tensor_view.h"
#include "llm/files/mapped_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A matrix [rows, columns] that is scale * left * right: [rows, rank] and [rank, columns].
class LowRankChange {
 public:
  // The factors as f32, for any number of calls of add().
  struct Factors {
    std::vector<float> left, right;  // [n_rows of the file's factor, rank], [rank, columns]
  };
  Factors read() const;
  // Adds rows [first, first + n) to `rows` [n, columns].
  void add(const Factors& factors, uint64_t first, uint64_t n, float* rows) const;

  TensorView left, right;
  bool is_left_transposed = false;   // the file has it as [rank, rows]
  bool is_right_transposed = false;  // the file has it as [columns, rank]
  uint64_t rank = 0, columns = 0;
  uint64_t first_row = 0;  // of `left`, if it is a factor of fused matrices
  RotaryOrder order = {};
  float scale = 1;
};

struct Adapter {
  std::vector<std::shared_ptr<const MappedFile>> files;  // of the factors
  std::unordered_map<std::string, LowRankChange> changes;
};

// `path`: a folder of PEFT, its safetensors file, or a GGUF file. Throws Error(kModel) naming file,
// tensor and shapes: for settings and tensors that are no plain LoRA (DoRA, trained biases, whole
// tensors), for tensors that the model lacks, and for other shapes.
Adapter read_adapter(const std::filesystem::path& path, const WeightProvider& model);
// The same for files that may be in memory.
Adapter read_peft_adapter(const ModelFiles& files, const WeightProvider& model);
Adapter read_gguf_adapter(std::shared_ptr<const MappedFile> file, const WeightProvider& model);

}  // namespace vesper
