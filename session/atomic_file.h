// Files that get their final name when they are complete, and the list of unfinished ones, which a
// program's signal handlers remove.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace vesper {

// The absolute path with links resolved as far as it exists; the unchanged path on failure.
std::filesystem::path resolved(const std::filesystem::path& path);

// Writes all bytes; returns 0, or the error number.
int write_all(int descriptor, std::string_view text);

// Lists a file for removal on a signal, until destroyed. The list has 256 entries; further files
// are not listed. Lock-free, because a signal handler reads the list.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  char* path_;   // owned
  size_t slot_;  // in the list
};

// Unlinks every listed file. Async-signal-safe.
void remove_unfinished_files();

// A file that replaces `path` when it is committed, and is removed otherwise. It has a temporary
// name in the same folder and is locked, so that files of killed runs can be told from those in
// use. If `path` is a symbolic link, its target is replaced. Devices and pipes are written
// directly.
class AtomicFile {
 public:
  // Throws Error(kOutput) if the file cannot be created.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throw Error(kOutput).
  void write(std::string_view text);
  void commit();  // once; syncs the file before renaming it
  // Where the bytes are until then; empty for devices and pipes.
  const std::filesystem::path& unfinished_path() const { return temporary_; }

 private:
  std::filesystem::path path_;       // links resolved
  std::filesystem::path temporary_;  // empty once committed, and for devices and pipes
  std::unique_ptr<UnfinishedFile> unfinished_;
  int descriptor_ = -1;
};

// Removes temporary files of killed runs in these folders, but not those of running programs.
void remove_abandoned_files(const std::set<std::filesystem::path>& folders);

}  // namespace vesper
