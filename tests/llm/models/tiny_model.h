// The tiny language models of tests/llm/models/language_models.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "llm/weights/weight_provider.h"

namespace vesper {

inline std::unique_ptr<WeightProvider> tiny_model(std::string_view family) {
  return open_weights(std::filesystem::path(VESPER_TEST_DATA) / "language_models" / family);
}

}  // namespace vesper
