#include "llm/files/gguf_writer.h"

#include <cstring>

namespace vesper {
namespace {

template <typename T>
void append(std::string& to, T value) {
  const size_t at = to.size();
  to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to.append(text);
}

void append_bytes(std::string& to, std::span<const uint8_t> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

void GgufWriter::start(std::string_view key, GgufType type) {
  append_text(metadata_, key);
  append(metadata_, static_cast<uint32_t>(type));
  ++n_entries_;
}

template <typename T>
void GgufWriter::add_scalar(std::string_view key, GgufType type, T value) {
  start(key, type);
  append(metadata_, value);
}

template <typename T>
void GgufWriter::add_array(std::string_view key, GgufType type, const std::vector<T>& values) {
  start(key, GgufType::kArray);
  append(metadata_, static_cast<uint32_t>(type));
  append<uint64_t>(metadata_, values.size());
  for (const T value : values) append(metadata_, value);
}

void GgufWriter::add(std::string_view key, uint32_t value) {
  add_scalar(key, GgufType::kU32, value);
}
void GgufWriter::add(std::string_view key, int32_t value) {
  add_scalar(key, GgufType::kI32, value);
}
void GgufWriter::add(std::string_view key, float value) { add_scalar(key, GgufType::kF32, value); }
void GgufWriter::add(std::string_view key, bool value) {
  add_scalar(key, GgufType::kBool, static_cast<uint8_t>(value ? 1 : 0));
}
void GgufWriter::add(std::string_view key, std::string_view value) {
  start(key, GgufType::kString);
  append_text(metadata_, value);
}
void GgufWriter::add(std::string_view key, const std::vector<float>& values) {
  add_array(key, GgufType::kF32, values);
}
void GgufWriter::add(std::string_view key, const std::vector<int32_t>& values) {
  add_array(key, GgufType::kI32, values);
}

void GgufWriter::add(std::string_view key, const std::vector<std::string>& values) {
  start(key, GgufType::kArray);
  append(metadata_, static_cast<uint32_t>(GgufType::kString));
  append<uint64_t>(metadata_, values.size());
  for (const std::string& value : values) append_text(metadata_, value);
}

void GgufWriter::add_bytes(std::string_view key, std::string_view values) {
  start(key, GgufType::kArray);
  append(metadata_, static_cast<uint32_t>(GgufType::kU8));
  append<uint64_t>(metadata_, values.size());
  metadata_.append(values);
}

void GgufWriter::add(const GgufEntry& entry) {
  const GgufValue& value = entry.value;
  start(entry.key, value.type);
  if (value.type == GgufType::kArray) {
    append(metadata_, static_cast<uint32_t>(value.element_type));
    append<uint64_t>(metadata_, value.n_elements);
  } else if (value.type == GgufType::kString) {
    append<uint64_t>(metadata_, value.bytes.size());
  }
  append_bytes(metadata_, value.bytes);
}

void GgufWriter::add_tensor(std::string_view name, const std::vector<uint64_t>& shape,
                            uint32_t ggml_type, uint64_t n_bytes) {
  append_text(directory_, name);
  append(directory_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i > 0; --i) append(directory_, shape[i - 1]);  // innermost first
  append(directory_, ggml_type);
  append(directory_, data_bytes_);
  data_bytes_ += n_bytes + padding(n_bytes);
  ++n_tensors_;
}

std::string GgufWriter::head() const {
  std::string head = "GGUF";
  append<uint32_t>(head, 3);
  append(head, n_tensors_);
  append(head, n_entries_);
  head += metadata_;
  head += directory_;
  head.append(padding(head.size()), '\0');
  return head;
}

}  // namespace vesper
