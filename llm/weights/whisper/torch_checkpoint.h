// Checkpoints of PyTorch (torch.save): a zip file with a pickle and one file per storage.
//
// A pickle is a program that may call any function of Python. This reader runs only what describes
// tensors: numbers, texts, lists, dictionaries, and four known names. Anything else is an error
// that names it. Time and memory are proportional to the pickle, which is at most 2 MiB.
#pragma once

#include <map>
#include <string>

#include "llm/dtype/tensor_view.h"
#include "llm/files/mapped_file.h"

namespace vesper {

struct TorchCheckpoint {
  std::map<std::string, int64_t> numbers;  // by path: "dims.n_mels"
  std::vector<TensorView> tensors;         // named by path: "model_state_dict.decoder.ln.weight"
};

// Members of dictionaries two deep are read, others ignored. Tensors are f32, f16 or bf16 and
// contiguous, views of the mapped file. Throws Error(kModel).
TorchCheckpoint read_torch_checkpoint(const MappedFile& file);

}  // namespace vesper
