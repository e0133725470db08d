// Output of a script of tests/reference/: token ids, and a row of values for each.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "llm/weights/hugging_face/safetensors.h"

namespace vesper {

struct ReferenceRows {
  std::vector<int32_t> ids;
  std::vector<float> values;  // [ids.size(), width]
};

// From `reference.safetensors` in the folder: i32 `ids`, and one other tensor.
inline ReferenceRows read_reference_rows(const std::filesystem::path& folder) {
  Safetensors tensors;
  read_safetensors(std::make_shared<MappedFile>(folder / "reference.safetensors"), tensors);
  ReferenceRows reference;
  for (const TensorView& tensor : tensors.tensors) {
    if (tensor.name == "ids") {
      reference.ids.resize(tensor.n_elements());
      std::memcpy(reference.ids.data(), tensor.data, tensor.bytes);
    } else {
      reference.values = read_f32(tensor);
    }
  }
  return reference;
}

}  // namespace vesper
