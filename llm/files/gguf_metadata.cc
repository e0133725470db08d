#include "llm/files/gguf_metadata.h"

#include <optional>
#include <utility>

#include "error/error.h"

namespace vesper {

GgufMetadata::GgufMetadata(std::string name, const Gguf& gguf, std::string prefix)
    : name_(std::move(name)), gguf_(gguf), prefix_(std::move(prefix)) {}

uint32_t GgufMetadata::count(const char* key) const {
  const GgufValue* value = gguf_.find(prefix_ + key);
  if (value == nullptr) return 0;
  std::optional<uint64_t> count = value->as_unsigned();
  GgufElements elements(*value);
  GgufValue element;
  for (bool first = true; elements.next(element); first = false) {
    const std::optional<uint64_t> next = element.as_unsigned();
    if (!first && next != count) fail(key, "the same count for each layer");
    count = next;
  }
  if (!count || *count > UINT32_MAX) fail(key, "a count");
  return static_cast<uint32_t>(*count);
}

float GgufMetadata::number(const char* key) const {
  const GgufValue* value = gguf_.find(prefix_ + key);
  if (value == nullptr) return 0;
  const std::optional<double> number = value->as_number();
  if (!number || !(*number >= 0) || *number > 1e9) fail(key, "a number of at least 0");
  return static_cast<float>(*number);
}

std::string GgufMetadata::text(const char* key) const {
  return std::string(gguf_.find_string(prefix_ + key).value_or(""));
}

void GgufMetadata::fail(const char* key, const char* what) const {
  throw Error(ErrorKind::kModel, name_ + ": expected " + prefix_ + key + " to be " + what);
}

}  // namespace vesper
