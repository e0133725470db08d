#include "llm/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "error/error.h"
#include "llm/files/folder_names.h"

namespace vesper {
namespace {

[[noreturn]] void fail_to(const std::string& name, const char* action, int error_number) {
  throw Error(ErrorKind::kModel,
              "cannot " + std::string(action) + " " + name + ": " + std::strerror(error_number));
}

// Closes the descriptor; the mapping stays valid.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: a named pipe is an error instead of a wait for its writer.
  const Descriptor file{open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_to(name_, "open", errno);
  struct stat status {};
  if (fstat(file.fd, &status) != 0) fail_to(name_, "examine", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kModel, "expected a regular file: " + name_);
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ == 0) return;
  void* mapping = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapping == MAP_FAILED) fail_to(name_, "map", errno);
  data_ = static_cast<const uint8_t*>(mapping);
  mapped_ = true;
}

MappedFile::MappedFile(std::string name, std::vector<uint8_t> bytes)
    : name_(std::move(name)),
      memory_(std::move(bytes)),
      data_(memory_.data()),
      size_(memory_.size()) {}

MappedFile::~MappedFile() {
  if (mapped_) munmap(const_cast<uint8_t*>(data_), size_);
}

std::vector<std::string_view> MappedFile::lines() const {
  std::vector<std::string_view> lines;
  for (std::string_view rest = text(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

void MappedFile::release(const void* data, uint64_t n_bytes) const {
  if (!mapped_ || n_bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const auto file_begin = reinterpret_cast<uintptr_t>(data_);
  if (begin < file_begin || begin - file_begin > size_ || n_bytes > size_ - (begin - file_begin)) {
    return;
  }
  // Only whole huge pages: if the file cache uses them, reading one byte brings a whole huge page
  // back.
  constexpr uintptr_t kHugePage = 2 << 20;
  const uintptr_t first = std::max(file_begin, begin / kHugePage * kHugePage);
  const uintptr_t last =
      std::min(file_begin + size_, (begin + n_bytes + kHugePage - 1) / kHugePage * kHugePage);
  // If the system declines, the memory stays in use.
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

bool ModelFiles::has(const std::string& name) const {
  if (in_memory_) {
    return std::any_of(memory_.begin(), memory_.end(),
                       [&](const auto& file) { return file->name() == name; });
  }
  std::error_code error;
  return std::filesystem::exists(folder_ / name, error);
}

std::shared_ptr<const MappedFile> ModelFiles::open(const std::string& name) const {
  if (!in_memory_) return std::make_shared<const MappedFile>(folder_ / name);
  for (const auto& file : memory_) {
    if (file->name() == name) return file;
  }
  throw Error(ErrorKind::kModel, "expected a file " + name + " in " + folder_.string());
}

std::vector<std::string> ModelFiles::names_ending_with(const std::string& suffix) const {
  std::vector<std::string> names;
  if (in_memory_) {
    for (const auto& file : memory_) {
      if (file->name().ends_with(suffix)) names.push_back(file->name());
    }
  } else {
    std::error_code error;
    names = names_in_folder(folder_, error);
    std::erase_if(names, [&](const std::string& name) { return !name.ends_with(suffix); });
    if (error) {
      throw Error(ErrorKind::kModel, "cannot list " + folder_.string() + ": " + error.message());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

ModelFiles model_folder(const std::filesystem::path& path) {
  std::error_code error;
  return ModelFiles(std::filesystem::is_directory(path, error) ? path : path.parent_path());
}

}  // namespace vesper
