// Signals: Ctrl-C that a program handles, and files that are removed before a signal ends the
// program.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace vesper {

// While it exists, Ctrl-C sets a flag: it ends input that has no other end, or an answer. One
// object at a time.
class InterruptNoted {
 public:
  enum class Which {
    kFirst,  // the second one has the previous effect; ignored if the caller ignores them
    kEvery,  // for interactive programs
  };
  explicit InterruptNoted(Which which);
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  static bool has_come();
  static void forget();  // resets the flag
};

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

}  // namespace vesper
