#include "llm/files/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/byte_reader.h"

namespace vesper {
namespace {

constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMaxGgufRank = 8;
constexpr uint32_t kMaxArrayDepth = 4;      // nesting
constexpr uint64_t kMaxEntries = 1u << 16;  // real files have fewer than 100
constexpr uint64_t kMaxTensors = 1u << 20;  // real files have fewer than 10,000
constexpr uint64_t kMaxName = 1u << 16;     // bytes of a key or a tensor's name
constexpr uint64_t kMaxAlignment = 1u << 20;
constexpr size_t kMaxProblems = 100;
constexpr const char* kAlignmentKey = "general.alignment";

uint64_t bytes_of_scalar(GgufType type) {
  constexpr std::array<uint8_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes.at(static_cast<size_t>(type));
}

class FileReader {
 public:
  FileReader(std::shared_ptr<const MappedFile> file, Gguf& into)
      : file_(std::move(file)), reader_(*file_), into_(into) {}

  void read() {
    const uint64_t first_tensor = into_.tensors.size();
    read_header();
    into_.metadata.clear();
    for (uint64_t i = 0; i < n_entries_; ++i) read_entry();
    into_.alignment = alignment_;
    for (uint64_t i = 0; i < n_tensors_; ++i) read_tensor();
    place_tensors(first_tensor);
    into_.files.push_back(file_);
  }

 private:
  void read_header() {
    reader_.read<uint32_t>("GGUF's magic number");
    into_.version = reader_.read<uint32_t>("the version");
    if (into_.version == 0x02000000 || into_.version == 0x03000000) {
      reader_.fail("expected a little-endian GGUF file, found a big-endian one");
    }
    if (into_.version != 2 && into_.version != 3) {
      reader_.fail("expected GGUF version 2 or 3, found version " + std::to_string(into_.version));
    }
    n_tensors_ = read_count("the number of tensors", kMaxTensors);
    n_entries_ = read_count("the number of metadata entries", kMaxEntries);
  }

  uint64_t read_count(const char* what, uint64_t max) {
    const auto count = reader_.read<uint64_t>(what);
    if (count > max) {
      reader_.fail(std::string("expected ") + what + " to be at most " + std::to_string(max) +
                   ", found " + std::to_string(count));
    }
    return count;
  }

  std::string read_name(const char* what) {
    return reader_.read_name(read_count(what, kMaxName), what);
  }

  GgufType read_type() {
    const auto type = reader_.read<uint32_t>("a value's type");
    if (type > static_cast<uint32_t>(GgufType::kF64)) {
      reader_.fail("expected a type of value from 0 to 12, found " + std::to_string(type));
    }
    return static_cast<GgufType>(type);
  }

  void read_entry() {
    GgufEntry entry;
    entry.key = read_name("a key of the metadata");
    entry.value = read_value(read_type(), 0);
    if (entry.key == kAlignmentKey) {
      const auto value = entry.value.as_unsigned();
      if (!value || !std::has_single_bit(*value) || *value > kMaxAlignment) {
        reader_.fail(std::string("expected ") + kAlignmentKey + " to be a power of two");
      }
      alignment_ = *value;
    }
    into_.metadata.push_back(std::move(entry));
  }

  GgufValue read_value(GgufType type, uint32_t depth) {
    GgufValue value;
    value.type = type;
    if (type == GgufType::kString) {
      value.bytes = reader_.take(reader_.read<uint64_t>("a string's length"), "a string");
    } else if (type == GgufType::kArray) {
      if (depth == kMaxArrayDepth) reader_.fail("expected arrays nested at most 4 deep");
      value.element_type = read_type();
      value.n_elements = reader_.read<uint64_t>("an array's length");
      value.bytes = take_elements(value, depth);
    } else {
      value.bytes = reader_.take(bytes_of_scalar(type), "a value");
    }
    return value;
  }

  std::span<const uint8_t> take_elements(const GgufValue& array, uint32_t depth) {
    const uint64_t start = reader_.offset();
    if (const uint64_t each = bytes_of_scalar(array.element_type); each != 0) {
      uint64_t bytes = 0;
      if (__builtin_mul_overflow(array.n_elements, each, &bytes)) {
        reader_.fail("an array's elements overflow 64 bits");
      }
      return reader_.take(bytes, "an array");
    }
    // Each element takes at least the bytes of its length, so the end of the file bounds the loop.
    for (uint64_t i = 0; i < array.n_elements; ++i) read_value(array.element_type, depth + 1);
    return file_->bytes().subspan(start, reader_.offset() - start);
  }

  void read_tensor() {
    const uint64_t start = reader_.offset();
    GgufTensor tensor;
    tensor.name = read_name("a tensor's name");
    const auto rank = reader_.read<uint32_t>("a tensor's number of dimensions");
    if (rank > kMaxGgufRank) {
      fail_at(file_->name(), start,
              "tensor " + tensor.name + ": expected at most " + std::to_string(kMaxGgufRank) +
                  " dimensions, found " + std::to_string(rank));
    }
    tensor.n_elements = 1;
    for (uint32_t axis = 0; axis < rank; ++axis) {
      tensor.shape.push_back(reader_.read<uint64_t>("a tensor's dimensions"));
      if (__builtin_mul_overflow(tensor.n_elements, tensor.shape.back(), &tensor.n_elements)) {
        fail_at(file_->name(), start,
                "tensor " + tensor.name + ": its dimensions overflow 64 bits");
      }
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());  // the innermost is first in the file
    tensor.type = reader_.read<uint32_t>("a tensor's type");
    tensor.offset = reader_.read<uint64_t>("a tensor's offset");
    tensor.file = into_.files.size();
    into_.tensors.push_back(std::move(tensor));
  }

  void note(const GgufTensor& tensor, const std::string& message) {
    if (into_.problems.size() == kMaxProblems) return;
    into_.problems.push_back(file_->name() + ", offset " + std::to_string(tensor.offset) +
                             ": tensor " + tensor.name + ": " + message);
  }

  // Finds the bytes of each tensor after the directory.
  void place_tensors(uint64_t first) {
    const uint64_t mask = into_.alignment - 1;
    const uint64_t size = file_->bytes().size();
    const uint64_t data_start = (reader_.offset() + mask) & ~mask;  // no overflow: below 2^64
    std::vector<const GgufTensor*> placed;
    for (uint64_t i = first; i < into_.tensors.size(); ++i) {
      GgufTensor& tensor = into_.tensors[i];
      const GgmlType* type = find_ggml_type(tensor.type);
      tensor.format = type ? type->name : "type " + std::to_string(tensor.type);
      const uint64_t relative = tensor.offset;
      if (__builtin_add_overflow(data_start, relative, &tensor.offset)) {
        tensor.offset = relative;
        note(tensor, "its offset overflows 64 bits");
        continue;
      }
      if ((relative & mask) != 0) {
        note(tensor, "expected an offset that is a multiple of " + std::to_string(into_.alignment) +
                         ", found " + std::to_string(relative));
      }
      if (type == nullptr) {
        if (tensor.offset > size) note(tensor, "it begins after the end of the file");
        continue;
      }
      const uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
      if (row % type->block != 0) {
        note(tensor, "expected rows of a multiple of " + std::to_string(type->block) +
                         " elements for format " + tensor.format + ", found " +
                         std::to_string(row));
        continue;
      }
      if (__builtin_mul_overflow(tensor.n_elements / type->block, uint64_t{type->block_bytes},
                                 &tensor.bytes)) {
        tensor.bytes = 0;
        note(tensor, "its bytes overflow 64 bits");
        continue;
      }
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) {
        note(tensor, "expected " + std::to_string(tensor.bytes) + " bytes, found " +
                         std::to_string(tensor.offset > size ? 0 : size - tensor.offset) +
                         " until the end of the file");
        continue;
      }
      tensor.data = file_->bytes().subspan(tensor.offset, tensor.bytes);
      placed.push_back(&tensor);
    }
    find_overlaps(std::move(placed));
  }

  void find_overlaps(std::vector<const GgufTensor*> placed) {
    std::erase_if(placed, [](const GgufTensor* tensor) { return tensor->bytes == 0; });
    std::sort(placed.begin(), placed.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
    const GgufTensor* furthest = nullptr;  // the tensor with the greatest end so far
    for (const GgufTensor* tensor : placed) {
      if (furthest != nullptr && tensor->offset < furthest->offset + furthest->bytes) {
        note(*tensor, "it overlaps tensor " + furthest->name);
      }
      if (furthest == nullptr ||
          tensor->offset + tensor->bytes > furthest->offset + furthest->bytes) {
        furthest = tensor;
      }
    }
  }

  std::shared_ptr<const MappedFile> file_;
  ByteReader reader_;
  Gguf& into_;
  uint64_t n_tensors_ = 0, n_entries_ = 0;
  uint64_t alignment_ = 32;  // default if the file has no alignment
};

const GgufValue* find_entry(const std::vector<GgufEntry>& metadata, std::string_view key) {
  for (const GgufEntry& entry : metadata) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

uint64_t split_fact(const Gguf& gguf, std::string_view key, uint64_t absent) {
  const GgufValue* value = find_entry(gguf.metadata, key);
  if (value == nullptr) return absent;
  const auto number = value->as_unsigned();
  if (!number) {
    throw Error(ErrorKind::kModel,
                gguf.files.back()->name() + ": expected " + std::string(key) + " to be a count");
  }
  return *number;
}

// PREFIX of "PREFIX-00002-of-00005.gguf".
std::string split_prefix(const std::string& name, uint64_t n_files) {
  const std::string end = formatted("-of-%05u.gguf", static_cast<unsigned>(n_files));
  constexpr size_t kNumber = 6;  // "-00002"
  if (!name.ends_with(end) || name.size() < end.size() + kNumber) {
    throw Error(ErrorKind::kModel, name + ": is one of " + std::to_string(n_files) +
                                       " files, expected a name like NAME-00001" +
                                       std::string(end));
  }
  return name.substr(0, name.size() - end.size() - kNumber);
}

std::string split_name(const std::string& prefix, uint64_t number, uint64_t n_files) {
  return prefix + formatted("-%05u-of-%05u.gguf", static_cast<unsigned>(number + 1),
                            static_cast<unsigned>(n_files));
}

}  // namespace

bool is_gguf(const MappedFile& file) {
  uint32_t magic = 0;
  if (file.bytes().size() < sizeof magic) return false;
  std::memcpy(&magic, file.bytes().data(), sizeof magic);
  return magic == kGgufMagic;
}

Gguf read_gguf_files(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  constexpr uint64_t kMaxFiles = 99'999;  // five digits
  Gguf gguf;
  FileReader(file, gguf).read();
  const uint64_t n_files = split_fact(gguf, "split.count", 1);
  const uint64_t n_tensors = split_fact(gguf, "split.tensors.count", gguf.tensors.size());
  if (n_files > kMaxFiles) {
    throw Error(ErrorKind::kModel, file->name() + ": expected split.count to be at most " +
                                       std::to_string(kMaxFiles) + ", found " +
                                       std::to_string(n_files));
  }
  if (n_files > 1) {
    const std::string prefix =
        split_prefix(std::filesystem::path(file->name()).filename().string(), n_files);
    gguf = {};
    std::vector<GgufEntry> metadata;
    for (uint64_t number = 0; number < n_files; ++number) {
      FileReader(files.open(split_name(prefix, number, n_files)), gguf).read();
      if (split_fact(gguf, "split.no", n_files) != number ||
          split_fact(gguf, "split.count", 0) != n_files) {
        throw Error(ErrorKind::kModel, gguf.files.back()->name() + ": expected split.no to be " +
                                           std::to_string(number) + " and split.count to be " +
                                           std::to_string(n_files));
      }
      if (number == 0) metadata = std::move(gguf.metadata);
    }
    gguf.metadata = std::move(metadata);
    if (gguf.tensors.size() != n_tensors) {
      throw Error(ErrorKind::kModel, file->name() + ": expected " + std::to_string(n_tensors) +
                                         " tensors in all files, as split.tensors.count says, "
                                         "found " +
                                         std::to_string(gguf.tensors.size()));
    }
  }
  for (size_t i = 0; i < gguf.metadata.size(); ++i) {
    const std::string& key = gguf.metadata[i].key;
    if (!gguf.index_.emplace(key, i).second && gguf.problems.size() < kMaxProblems) {
      gguf.problems.push_back(file->name() + ": expected one value of key " + key + ", found two");
    }
  }
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : gguf.tensors) {
    if (!names.insert(tensor.name).second && gguf.problems.size() < kMaxProblems) {
      gguf.problems.push_back(file->name() + ": expected one tensor " + tensor.name +
                              ", found two");
    }
  }
  return gguf;
}

}  // namespace vesper
