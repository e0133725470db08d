// Writes valid and invalid GGUF files for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper {

class GgufBytes {
 public:
  explicit GgufBytes(uint32_t version = 3) : version_(version) {}

  template <typename T>
  static void put(std::vector<uint8_t>& to, T value) {
    const size_t at = to.size();
    to.resize(at + sizeof value);
    std::memcpy(to.data() + at, &value, sizeof value);
  }
  static void put_string(std::vector<uint8_t>& to, std::string_view text) {
    put<uint64_t>(to, text.size());
    to.insert(to.end(), text.begin(), text.end());
  }

  // A value of the type with this number.
  template <typename T>
  GgufBytes& scalar(std::string_view key, uint32_t type, T value) {
    start(key, type);
    put(metadata_, value);
    return *this;
  }
  GgufBytes& string(std::string_view key, std::string_view text) {
    start(key, 8);
    put_string(metadata_, text);
    return *this;
  }
  GgufBytes& strings(std::string_view key, const std::vector<std::string>& texts) {
    start(key, 9);
    put<uint32_t>(metadata_, 8);
    put<uint64_t>(metadata_, texts.size());
    for (const std::string& text : texts) put_string(metadata_, text);
    return *this;
  }
  template <typename T>
  GgufBytes& array(std::string_view key, uint32_t element_type, const std::vector<T>& values) {
    start(key, 9);
    put<uint32_t>(metadata_, element_type);
    put<uint64_t>(metadata_, values.size());
    for (const T value : values) put(metadata_, value);
    return *this;
  }
  // Any bytes after key and type.
  GgufBytes& raw(std::string_view key, uint32_t type, const std::vector<uint8_t>& bytes) {
    start(key, type);
    metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  // A tensor; dimensions innermost first, as in the file. Its aligned data follows the previous
  // data.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                    const std::vector<uint8_t>& data) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    entry(name, dimensions, type, data_.size());
    data_.insert(data_.end(), data.begin(), data.end());
    return *this;
  }
  // Only the directory entry of a tensor.
  GgufBytes& entry(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                   uint64_t offset) {
    put_string(directory_, name);
    put<uint32_t>(directory_, static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t size : dimensions) put(directory_, size);
    put(directory_, type);
    put(directory_, offset);
    ++n_tensors_;
    return *this;
  }
  GgufBytes& alignment(uint32_t bytes) {
    alignment_ = bytes;
    return scalar<uint32_t>("general.alignment", 4, bytes);
  }

  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> all;
    put<uint32_t>(all, 0x46554747);
    put(all, version_);
    put(all, n_tensors_);
    put(all, n_entries_);
    all.insert(all.end(), metadata_.begin(), metadata_.end());
    all.insert(all.end(), directory_.begin(), directory_.end());
    all.resize((all.size() + alignment_ - 1) / alignment_ * alignment_);
    all.insert(all.end(), data_.begin(), data_.end());
    return all;
  }
  std::shared_ptr<const MappedFile> file(const std::string& name = "model.gguf") const {
    return std::make_shared<const MappedFile>(name, bytes());
  }

 private:
  void start(std::string_view key, uint32_t type) {
    put_string(metadata_, key);
    put(metadata_, type);
    ++n_entries_;
  }

  uint32_t version_;
  uint64_t alignment_ = 32;
  uint64_t n_tensors_ = 0, n_entries_ = 0;
  std::vector<uint8_t> metadata_, directory_, data_;
};

}  // namespace vesper
