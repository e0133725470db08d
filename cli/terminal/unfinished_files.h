// The files that must not outlive the program unless they are finished. A signal handler removes
// them, so registering is lock-free and removing calls nothing that a handler may not call.
#pragma once

#include <cstddef>
#include <string>

namespace vesper {

// Names a file on a list until destroyed. The list holds 256; further files are simply not on it.
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

// Unlinks every file on the list. Async-signal-safe.
void remove_unfinished_files();

}  // namespace vesper
