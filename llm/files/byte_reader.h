// A bounded little-endian cursor over the bytes of a model file. Every read is checked against the
// end of the file. An error names the file, the offset and what was expected.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "error/error.h"
#include "llm/files/mapped_file.h"

namespace vesper {

static_assert(std::endian::native == std::endian::little, "model files are read in place");

// Throws Error(kModel) "FILE, offset N: MESSAGE".
[[noreturn]] inline void fail_at(const std::string& file, uint64_t offset,
                                 const std::string& message) {
  throw Error(ErrorKind::kModel, file + ", offset " + std::to_string(offset) + ": " + message);
}

// Whether a name from a file can be printed: printable ASCII, not empty.
inline bool is_printable(std::string_view name) {
  for (const char c : name) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return !name.empty();
}

class ByteReader {
 public:
  explicit ByteReader(const MappedFile& file) : name_(file.name()), bytes_(file.bytes()) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  // The next `n` bytes; `what` names them in errors.
  std::span<const uint8_t> take(uint64_t n, std::string_view what) {
    if (n > remaining()) {
      fail_at(name_, offset_,
              "expected " + std::to_string(n) + " bytes of " + std::string(what) + ", found " +
                  std::to_string(remaining()) + " until the end of the file");
    }
    const auto taken = bytes_.subspan(offset_, n);
    offset_ += n;
    return taken;
  }

  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string read_string(uint64_t n, std::string_view what) {
    const auto text = take(n, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // A name: printable ASCII.
  std::string read_name(uint64_t n, std::string_view what) {
    std::string name = read_string(n, what);
    if (!is_printable(name)) fail("expected " + std::string(what) + " of printable ASCII");
    return name;
  }

  // Throws an error at the current offset.
  [[noreturn]] void fail(const std::string& message) const { fail_at(name_, offset_, message); }

 private:
  const std::string& name_;
  std::span<const uint8_t> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace vesper
