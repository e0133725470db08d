// The GGUF container: typed metadata and tensors by name, in one file or in several that were
// split. Knows nothing of any model. Read by gguf_reader (for the engine) and by `inspect`.
//
// What the rest depends on (the header, the metadata, the directory of tensors) must be sound, or
// reading throws. What is wrong with single tensors is noted in `problems`, so that `inspect` can
// describe a damaged file; the engine takes none that has any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper {

// By the numbers in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
const char* gguf_type_name(GgufType type);  // "u8", "string"

// A value of the metadata: a view into the file, checked when the file was read.
struct GgufValue {
  GgufType type = GgufType::kU8;
  std::span<const uint8_t> bytes;         // a scalar's; a string's text; an array's elements
  GgufType element_type = GgufType::kU8;  // of an array
  uint64_t n_elements = 0;                // of an array

  // The value, if it is of such a kind: an integer type for the first two (and in range).
  std::optional<uint64_t> as_unsigned() const;
  std::optional<int64_t> as_signed() const;
  std::optional<double> as_number() const;  // any integer or float
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;  // raw bytes; UTF-8 is not checked
};

// Goes through the elements of an array value; gives none for any other value.
class GgufElements {
 public:
  explicit GgufElements(const GgufValue& array);
  // Whether there was one more.
  bool next(GgufValue& element);

 private:
  GgufType type_;
  std::span<const uint8_t> rest_;
  uint64_t n_left_;
};

struct GgufEntry {
  std::string key;
  GgufValue value;
};

// A type of ggml's tensors, whether or not the engine has kernels for it.
struct GgmlType {
  uint32_t number;
  const char* name;      // lower case: "iq4_xs"
  uint32_t block;        // elements a block
  uint32_t block_bytes;  // bytes a block
};
// Null for a number that ggml has not given, or has withdrawn.
const GgmlType* find_ggml_type(uint32_t number);

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first; n elements in all do not overflow 64 bits
  uint64_t n_elements = 0;
  uint32_t type = 0;              // ggml's number
  std::string format;             // its name, or "type 57"
  size_t file = 0;                // in Gguf::files
  uint64_t offset = 0;            // from the start of that file
  uint64_t bytes = 0;             // 0 if the type is not known
  std::span<const uint8_t> data;  // empty if the type is not known, or it lies outside the file
};

class Gguf {
 public:
  Gguf() = default;
  Gguf(Gguf&&) = default;  // no copies: the index points into the metadata
  Gguf& operator=(Gguf&&) = default;

  uint32_t version = 0;     // 2 or 3
  uint64_t alignment = 32;  // of tensors, bytes
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<GgufEntry> metadata;    // of the first file, in its order
  std::vector<GgufTensor> tensors;    // in the order of the directories
  std::vector<std::string> problems;  // each with file, place and tensor; at most 100

  // The value of that key, or null.
  const GgufValue* find(std::string_view key) const;
  // The same, if it has one of the kinds above.
  std::optional<uint64_t> find_unsigned(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;

 private:
  friend Gguf read_gguf_files(const ModelFiles& files, std::shared_ptr<const MappedFile> file);
  std::unordered_map<std::string_view, size_t> index_;  // into metadata
};

// Whether the bytes begin as a GGUF file of any version does.
bool is_gguf(const MappedFile& file);

// Reads `file` and, if it says that it is one of several, the others, which stand beside it in
// `files` under the names PREFIX-00001-of-0000N.gguf. Throws Error(kModel).
Gguf read_gguf_files(const ModelFiles& files, std::shared_ptr<const MappedFile> file);

}  // namespace vesper
