// The metadata of a GGUF file's model: the keys that begin with its architecture.
#pragma once

#include <cstdint>
#include <string>

#include "llm/files/gguf_file.h"

namespace vesper {

class GgufMetadata {
 public:
  // `name` stands for the file in messages; `prefix` as in "llama.".
  GgufMetadata(std::string name, const Gguf& gguf, std::string prefix);

  // A count; 0 if it is absent. Throws Error(kModel) if it is none, or differs from layer to layer.
  uint32_t count(const char* key) const;
  // 0 if it is absent. Throws Error(kModel) if it is no number, or below 0.
  float number(const char* key) const;
  // Empty if it is absent or no text.
  std::string text(const char* key) const;

 private:
  [[noreturn]] void fail(const char* key, const char* what) const;

  std::string name_;
  const Gguf& gguf_;
  std::string prefix_;
};

}  // namespace vesper
