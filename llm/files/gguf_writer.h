// Writes the head of a GGUF file (version 3): metadata and the directory of tensors. The caller
// writes the tensors' bytes after it, each at a multiple of kGgufAlignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llm/files/gguf_file.h"

namespace vesper {

inline constexpr uint64_t kGgufAlignment = 32;

class GgufWriter {
 public:
  // One call per key; the file has them in the order of the calls.
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, int32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<float>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);
  void add_bytes(std::string_view key, std::string_view values);  // an array of u8
  void add(const GgufEntry& entry);                               // of another file

  // Adds a tensor behind the previous ones. `shape` is outermost first; `ggml_type` its number.
  void add_tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t ggml_type,
                  uint64_t n_bytes);

  // The bytes before the first tensor, padded to the alignment.
  std::string head() const;
  // Zeros between a tensor of `n_bytes` and the next one.
  static uint64_t padding(uint64_t n_bytes) {
    return (kGgufAlignment - n_bytes % kGgufAlignment) % kGgufAlignment;
  }

 private:
  template <typename T>
  void add_scalar(std::string_view key, GgufType type, T value);
  template <typename T>
  void add_array(std::string_view key, GgufType type, const std::vector<T>& values);
  void start(std::string_view key, GgufType type);

  uint64_t n_entries_ = 0, n_tensors_ = 0, data_bytes_ = 0;
  std::string metadata_, directory_;
};

}  // namespace vesper
