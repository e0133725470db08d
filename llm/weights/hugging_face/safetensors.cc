#include "llm/weights/hugging_face/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/files/json_file.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // bytes, the limit of the format
constexpr size_t kMaxSafetensorsRank = 8;
constexpr const char* kIndexName = "model.safetensors.index.json";

// A tensor as in the header; its bytes are not checked yet.
struct Entry {
  std::string name;
  std::string format;
  std::vector<uint64_t> shape;
  uint64_t begin, end;  // bytes from the end of the header
};

class FileReader {
 public:
  FileReader(std::shared_ptr<const MappedFile> file, Safetensors& into)
      : file_(std::move(file)), into_(into) {}

  void read() {
    ByteReader reader(*file_);
    const auto header_size = reader.read<uint64_t>("the header's length");
    if (header_size > kMaxHeader) {
      reader.fail("expected a header of at most 100000000 bytes, found " +
                  std::to_string(header_size));
    }
    const auto text = reader.take(header_size, "the header");
    const json header = parse_json(file_->name() + " (header)", text);
    if (!header.is_object()) reader.fail("expected a header that is a JSON object");
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      if (!is_printable(name)) reader.fail("expected tensor names of printable ASCII");
      entries.push_back(entry_of(name, value));
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    const auto data = reader.take(reader.remaining(), "tensors");
    uint64_t taken = 0;
    for (Entry& entry : entries) {
      if (entry.begin < taken) fail(entry.name, "it overlaps another tensor");
      taken = entry.end;
      if (entry.end > data.size()) {
        fail(entry.name, "expected its bytes up to " + std::to_string(entry.end) +
                             " after the header, found " + std::to_string(data.size()) +
                             " until the end of the file");
      }
      add(std::move(entry), data);
    }
    into_.files.push_back(file_);
  }

 private:
  [[noreturn]] void fail(const std::string& tensor, const std::string& message) const {
    throw Error(ErrorKind::kModel, file_->name() + ": tensor " + tensor + ": " + message);
  }

  Entry entry_of(const std::string& name, const json& value) const {
    const json* format = find_member(value, "dtype");
    const json* shape = find_member(value, "shape");
    const json* offsets = find_member(value, "data_offsets");
    const auto is_size = [](const json& number) { return number.is_number_unsigned(); };
    if (format == nullptr || !format->is_string() ||
        !is_printable(format->get_ref<const std::string&>())) {
      fail(name, "expected a dtype");
    }
    if (shape == nullptr || !shape->is_array() || shape->size() > kMaxSafetensorsRank ||
        !std::all_of(shape->begin(), shape->end(), is_size)) {
      fail(name, "expected a shape of at most 8 sizes");
    }
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
        !std::all_of(offsets->begin(), offsets->end(), is_size) ||
        (*offsets)[0].get<uint64_t>() > (*offsets)[1].get<uint64_t>()) {
      fail(name, "expected data_offsets of a begin and an end");
    }
    return {name, format->get<std::string>(), shape->get<std::vector<uint64_t>>(),
            (*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()};
  }

  void add(Entry entry, std::span<const uint8_t> data) {
    std::string lower = entry.format;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    });
    const DTypeDescriptor* format = find_dtype(lower);
    if (format == nullptr || format->block > 1) {
      const auto bytes = data.subspan(entry.begin, entry.end - entry.begin);
      into_.unreadable.push_back({std::move(entry.name), std::move(entry.format),
                                  std::move(entry.shape), bytes.data(), bytes.size()});
      return;
    }
    uint64_t n = 1;
    for (const uint64_t size : entry.shape) {
      if (__builtin_mul_overflow(n, size, &n)) fail(entry.name, "its shape overflows 64 bits");
    }
    const uint64_t bytes = dtype_bytes(format->dtype, n);
    if (entry.end - entry.begin != bytes) {
      fail(entry.name, "expected " + std::to_string(bytes) +
                           " bytes by its shape and dtype, found " +
                           std::to_string(entry.end - entry.begin) + " by its data_offsets");
    }
    TensorView tensor;
    tensor.name = entry.name;
    tensor.file_name = std::move(entry.name);
    tensor.dtype = format->dtype;
    tensor.shape = std::move(entry.shape);
    tensor.data = data.subspan(entry.begin, bytes).data();
    tensor.bytes = bytes;
    into_.tensors.push_back(std::move(tensor));
  }

  std::shared_ptr<const MappedFile> file_;
  Safetensors& into_;
};

// The files that an index names, each with the tensors that it says are there.
std::map<std::string, std::vector<std::string>> read_index(const MappedFile& file) {
  const json index = parse_json(file);
  const json* file_of_tensor = find_member(index, "weight_map");
  if (file_of_tensor == nullptr || !file_of_tensor->is_object() || file_of_tensor->empty()) {
    throw Error(ErrorKind::kModel, file.name() + ": expected an object weight_map");
  }
  std::map<std::string, std::vector<std::string>> tensors_of_file;
  for (const auto& [tensor, name] : file_of_tensor->items()) {
    // A bare name: an index must not refer to files outside its folder.
    if (!is_printable(tensor) || !name.is_string() ||
        !is_printable(name.get_ref<const std::string&>()) ||
        !name.get_ref<const std::string&>().ends_with(".safetensors") ||
        name.get_ref<const std::string&>().find('/') != std::string::npos) {
      throw Error(ErrorKind::kModel, file.name() + ": expected the name of a safetensors file in " +
                                         "this folder for each tensor");
    }
    tensors_of_file[name.get<std::string>()].push_back(tensor);
  }
  return tensors_of_file;
}

}  // namespace

bool is_safetensors(const MappedFile& file) {
  // u64 header length, then the header's JSON.
  const auto bytes = file.bytes();
  uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size + 2) return false;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  return header_size >= 2 && header_size <= kMaxHeader && bytes[sizeof header_size] == '{';
}

void read_safetensors(std::shared_ptr<const MappedFile> file, Safetensors& into) {
  FileReader(std::move(file), into).read();
}

Safetensors read_safetensors(const ModelFiles& files) {
  Safetensors all;
  if (files.has(kIndexName)) {
    for (const auto& [file_name, tensors] : read_index(*files.open(kIndexName))) {
      const size_t n_before = all.tensors.size();
      const size_t n_unreadable_before = all.unreadable.size();
      read_safetensors(files.open(file_name), all);
      std::set<std::string_view> found;
      for (size_t i = n_before; i < all.tensors.size(); ++i) found.insert(all.tensors[i].name);
      for (size_t i = n_unreadable_before; i < all.unreadable.size(); ++i) {
        found.insert(all.unreadable[i].name);
      }
      for (const std::string& name : tensors) {
        if (found.count(name) == 0) {
          throw Error(ErrorKind::kModel, all.files.back()->name() + ": expected tensor " + name +
                                             " as the index says, found none of that name");
        }
      }
    }
    return all;
  }
  std::string name = "model.safetensors";
  if (!files.has(name)) {
    const auto names = files.names_ending_with(".safetensors");
    if (names.size() != 1) {
      throw Error(ErrorKind::kModel, files.folder().string() +
                                         ": expected model.safetensors, or an index, or one "
                                         "safetensors file, found " +
                                         std::to_string(names.size()) + " and no index");
    }
    name = names.front();
  }
  read_safetensors(files.open(name), all);
  return all;
}

}  // namespace vesper
