// The bytes of one file of a model, mapped read-only. Everything a reader needs to bound itself is
// `bytes()`; weights are used in place, and their pages are handed back once they are packed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vesper {

class MappedFile {
 public:
  // Maps the whole regular file. Throws Error(kModel) naming it if it is absent, unreadable, no
  // regular file or cannot be mapped. An empty file has empty bytes().
  explicit MappedFile(const std::filesystem::path& path);
  // Bytes that are in memory already: `name` stands for the path in messages.
  MappedFile(std::string name, std::vector<uint8_t> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  // The path as given, for messages.
  const std::string& name() const { return name_; }

  // Lets the system take back the memory of the pages on which these bytes lie. They stay readable
  // (read from the file again). What lies outside this file is left alone.
  void release(const void* data, uint64_t n_bytes) const;

 private:
  std::string name_;
  std::vector<uint8_t> memory_;  // owns the bytes where no file is mapped
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  bool mapped_ = false;
};

// Where a model's files are: a folder on disk, or a set in memory. A file is looked up by its name
// within the folder.
class ModelFiles {
 public:
  explicit ModelFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Files in memory; `folder` stands for their place in messages.
  ModelFiles(std::filesystem::path folder, std::vector<std::shared_ptr<const MappedFile>> files)
      : folder_(std::move(folder)), memory_(std::move(files)), in_memory_(true) {}

  const std::filesystem::path& folder() const { return folder_; }
  bool has(const std::string& name) const;
  // Throws Error(kModel) if it is absent or cannot be read.
  std::shared_ptr<const MappedFile> open(const std::string& name) const;
  // Names of the files that end with `suffix`, sorted.
  std::vector<std::string> names_ending_with(const std::string& suffix) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<const MappedFile>> memory_;  // names relative to the folder
  bool in_memory_ = false;
};

// The folder at `path`, or the one that the file at `path` is in.
ModelFiles model_folder(const std::filesystem::path& path);

}  // namespace vesper
