// Output of results: standard output, or files that get their final name when they are complete.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "cli/terminal/signals.h"

namespace vesper {

// The absolute path with links resolved as far as it exists; the unchanged path on failure.
std::filesystem::path resolved(const std::filesystem::path& path);

// Writes and flushes the text to standard output. Throws OutputPipeClosed (cli/terminal/program.h)
// if the pipe is closed, otherwise Error(kOutput).
void write_to_stdout(std::string_view text);

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

 private:
  std::filesystem::path path_;       // links resolved
  std::filesystem::path temporary_;  // empty once committed, and for devices and pipes
  std::unique_ptr<UnfinishedFile> unfinished_;
  int descriptor_ = -1;
};

// The header of a NumPy file (format 1.0) of f32 [n_rows, n_columns] in C order.
std::string npy_header(uint64_t n_rows, uint64_t n_columns);

// Removes temporary files of killed runs in these folders, but not those of running programs.
void remove_abandoned_files(const std::set<std::filesystem::path>& folders);

// Creates the folder and its parents if missing. Throws Error(kOutput).
void make_folder(const std::filesystem::path& folder);

}  // namespace vesper
