// The safetensors container: tensors by name in one file, or in several with an index. Knows
// nothing of any model: names are as the file spells them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/files/mapped_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct Safetensors {
  std::vector<std::shared_ptr<const MappedFile>> files;
  // In the order of the data in the files; `name` and `file_name` are both the file's spelling.
  std::vector<TensorView> tensors;
  std::vector<UnreadableTensor> unreadable;  // in formats that have no row in the table
};

// Whether the bytes begin as a safetensors file does.
bool is_safetensors(const MappedFile& file);

// Adds the tensors of one file. Throws Error(kModel) unless every tensor's bytes lie in the file,
// are as many as its shape and format demand, and are no other tensor's.
void read_safetensors(std::shared_ptr<const MappedFile> file, Safetensors& into);

// All tensors of a folder: those of every file that `model.safetensors.index.json` names, else of
// `model.safetensors`, else of the only `*.safetensors` there. Throws Error(kModel).
Safetensors read_safetensors(const ModelFiles& files);

}  // namespace vesper
