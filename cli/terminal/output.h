// Where results go: standard output, or files that appear under their final name only when they
// are complete.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "cli/terminal/signals.h"

namespace vesper {

// The absolute path with links resolved as far as it exists; the path as it is where that fails.
std::filesystem::path resolved(const std::filesystem::path& path);

// Writes all of the text to standard output at once, so that a pipe sees it. Throws
// OutputPipeClosed (cli/terminal/program.h) if nobody reads it any more, Error(kOutput) otherwise.
void write_to_stdout(std::string_view text);

// A file that replaces what is at `path` when it is committed, and leaves no trace otherwise. It
// grows under a temporary name in the same folder, locked, so that what a killed run has left there
// can be told from what another one is writing. Where `path` is a symbolic link, the file that it
// points to is replaced. A device or a pipe is none of this: it is written to as it comes, and
// stays what it is.
class AtomicFile {
 public:
  // Throws Error(kOutput) if no file can be made there.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throw Error(kOutput).
  void write(std::string_view text);
  void commit();  // once; makes sure that the bytes are on the disk before the name is

 private:
  std::filesystem::path path_;       // the final one, links resolved
  std::filesystem::path temporary_;  // empty once committed, and for what is no regular file
  std::unique_ptr<UnfinishedFile> unfinished_;
  int descriptor_ = -1;
};

// The beginning of a NumPy file (format 1.0) of f32 [n_rows, n_columns] in C order.
std::string npy_header(uint64_t n_rows, uint64_t n_columns);

// Removes the temporary files that killed runs have left in these folders. Those of a run that is
// still at work stay.
void remove_abandoned_files(const std::set<std::filesystem::path>& folders);

// Makes the folder and those above it where they are missing. Throws Error(kOutput).
void make_folder(const std::filesystem::path& folder);

}  // namespace vesper
