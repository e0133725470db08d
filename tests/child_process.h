// Runs a program like a user, and returns its output and exit status.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace vesper {

void write_file(const std::filesystem::path& path, const std::string& text);
std::string read_file(const std::filesystem::path& path);

std::vector<std::string> lines_of(const std::string& text);

// The names in a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

struct ChildOptions {
  std::filesystem::path folder;                    // working directory
  std::map<std::string, std::string> environment;  // added to the inherited one; "" unsets
  std::string standard_input;
  std::string stdout_path;  // instead of capturing; "(closed)": no standard output
  bool terminal = false;    // stderr is a terminal of 80 columns
};

struct ChildResult {
  int status = -1;  // the exit status, or 128 + the signal
  std::string out, err;
};

class Child {
 public:
  Child(const std::vector<std::string>& arguments, const ChildOptions& options);
  ~Child();  // kills it if it is still running
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal_number) const;
  ChildResult wait();

 private:
  TemporaryFolder captured_;
  pid_t pid_ = -1;
  int terminal_ = -1;  // our end
};

ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options);

}  // namespace vesper
