// The GGUF container: typed metadata and named tensors, in one file or in several split files.
// Knows no models. Called by gguf_reader (for the engine) and by `inspect`.
//
// Reading throws if the header, the metadata or the tensor directory is damaged. Damage of single
// tensors is listed in `problems`, so that `inspect` can describe a damaged file. The engine
// rejects files with problems.
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

// Numbers as in the file.
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

// A metadata value: a view of the file, checked when the file was read.
struct GgufValue {
  GgufType type = GgufType::kU8;
  std::span<const uint8_t> bytes;         // of a scalar, a string or an array's elements
  GgufType element_type = GgufType::kU8;  // of an array
  uint64_t n_elements = 0;                // of an array

  // The value if it has such a type: any integer type for the first two (and in range).
  std::optional<uint64_t> as_unsigned() const;
  std::optional<int64_t> as_signed() const;
  std::optional<double> as_number() const;  // any integer or float
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;  // raw bytes; UTF-8 is not checked
};

// Iterates over the elements of an array value; other values have none.
class GgufElements {
 public:
  explicit GgufElements(const GgufValue& array);
  // False after the last element.
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

// A tensor type of ggml, whether or not the engine has kernels for it.
struct GgmlType {
  uint32_t number;
  const char* name;      // lower case: "iq4_xs"
  uint32_t block;        // elements per block
  uint32_t block_bytes;  // bytes per block
};
// Null for a number that ggml does not use, or has withdrawn.
const GgmlType* find_ggml_type(uint32_t number);

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first; the product does not overflow 64 bits
  uint64_t n_elements = 0;
  uint32_t type = 0;              // ggml's number
  std::string format;             // its name, or "type 57"
  size_t file = 0;                // in Gguf::files
  uint64_t offset = 0;            // from the start of that file
  uint64_t bytes = 0;             // 0 if the type is not known
  std::span<const uint8_t> data;  // empty if the type is unknown or the tensor is outside the file
};

class Gguf {
 public:
  Gguf() = default;
  Gguf(Gguf&&) = default;  // not copied: the index points into the metadata
  Gguf& operator=(Gguf&&) = default;

  uint32_t version = 0;     // 2 or 3
  uint64_t alignment = 32;  // of tensors, bytes
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<GgufEntry> metadata;    // of the first file, in file order
  std::vector<GgufTensor> tensors;    // in the order of the directories
  std::vector<std::string> problems;  // each with file, offset and tensor; at most 100

  // The value of `key`, or null.
  const GgufValue* find(std::string_view key) const;
  // The same, if it has the type.
  std::optional<uint64_t> find_unsigned(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;

 private:
  friend Gguf read_gguf_files(const ModelFiles& files, std::shared_ptr<const MappedFile> file);
  std::unordered_map<std::string_view, size_t> index_;  // into metadata
};

// Whether the bytes begin like a GGUF file of any version.
bool is_gguf(const MappedFile& file);

// Reads `file` and, if it is one of several split files, the others in `files`, named
// PREFIX-00001-of-0000N.gguf. Throws Error(kModel).
Gguf read_gguf_files(const ModelFiles& files, std::shared_ptr<const MappedFile> file);

}  // namespace vesper
