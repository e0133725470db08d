// What a script of tests/reference/ wrote of a model: token ids, and a row of numbers for each.
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

// From `reference.safetensors` in that folder: i32 `ids`, and the one other tensor.
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
