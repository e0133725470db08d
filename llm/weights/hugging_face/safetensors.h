// The safetensors container: named tensors in one file, or in several with an index. Knows no
// models; names are the file's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/files/mapped_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct Safetensors {
  std::vector<std::shared_ptr<const MappedFile>> files;
  // In data order of the files; `name` and `file_name` are both the file's name.
  std::vector<TensorView> tensors;
  std::vector<UnreadableTensor> unreadable;  // in formats without a row in the table
};

// Whether the bytes begin like a safetensors file.
bool is_safetensors(const MappedFile& file);

// Adds the tensors of one file. Throws Error(kModel) unless each tensor is inside the file, has the
// size of its shape and format, and overlaps no other.
void read_safetensors(std::shared_ptr<const MappedFile> file, Safetensors& into);

// All tensors of a folder: of every file in `model.safetensors.index.json`, otherwise of
// `model.safetensors`, otherwise of the only `*.safetensors`. Throws Error(kModel).
Safetensors read_safetensors(const ModelFiles& files);

}  // namespace vesper
