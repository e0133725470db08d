// The bytes of one model file, mapped read-only. Weights are read in place, and their pages are
// released after packing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class MappedFile {
 public:
  // Maps the whole file. Throws Error(kModel) if it is absent, unreadable, not a regular file, or
  // cannot be mapped. An empty file has empty bytes().
  explicit MappedFile(const std::filesystem::path& path);
  // Bytes in memory; `name` is the path in messages.
  MappedFile(std::string name, std::vector<uint8_t> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Its lines without their ends (\n or \r\n). The end of the last one may be missing.
  std::vector<std::string_view> lines() const;
  // The path as given, for messages.
  const std::string& name() const { return name_; }

  // Lets the system reclaim the pages of these bytes. They stay readable (from the file again).
  // Bytes outside this file are ignored.
  void release(const void* data, uint64_t n_bytes) const;

 private:
  std::string name_;
  std::vector<uint8_t> memory_;  // owns the bytes of a file that is not mapped
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  bool mapped_ = false;
};

// The files of a model, in a folder on disk or in memory, found by name.
class ModelFiles {
 public:
  explicit ModelFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Files in memory; `folder` is their path in messages.
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

// The folder at `path`, or the folder of the file at `path`.
ModelFiles model_folder(const std::filesystem::path& path);

}  // namespace vesper
