// What a signal does to a program: Ctrl-C that a program notes instead of ending by it, and files
// that are removed before a signal ends the program.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace vesper {

// While it lives, Ctrl-C is noted: it ends an input that has no other end, or an answer. One at a
// time.
class InterruptNoted {
 public:
  enum class Which {
    kFirst,  // the second one does what it did before; left alone where the caller ignores them
    kEvery,  // for a program with a person at the terminal
  };
  explicit InterruptNoted(Which which);
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  static bool has_come();
  static void forget();  // what has come
};

// Names a file that must not outlive the program unless it is finished, until destroyed. The list
// holds 256; further files are simply not on it. Lock-free, as a signal handler reads the list.
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
