// The metadata of a GGUF model: keys that begin with the architecture.
#pragma once

#include <cstdint>
#include <string>

#include "llm/files/gguf_file.h"

namespace vesper {

class GgufMetadata {
 public:
  // `name` is the file in messages; `prefix` is such as "llama.".
  GgufMetadata(std::string name, const Gguf& gguf, std::string prefix);

  // A count; 0 if absent. Throws Error(kModel) if it is no count, or differs between layers.
  uint32_t count(const char* key) const;
  // 0 if absent. Throws Error(kModel) if it is no number, or negative.
  float number(const char* key) const;
  // Empty if absent or not a string.
  std::string text(const char* key) const;

 private:
  [[noreturn]] void fail(const char* key, const char* what) const;

  std::string name_;
  const Gguf& gguf_;
  std::string prefix_;
};

}  // namespace vesper
