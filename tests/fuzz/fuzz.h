// Fuzz targets: programs of libFuzzer, one for each reader, parser or protocol.
//
// A target is a file with the two functions below, which fuzz.cc calls. A finding is anything but a
// normal return or an Error of one line: another exception, a report of a sanitizer, a hang, or an
// allocation that the size of the input does not explain (scripts/fuzz.sh sets the limits).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper::fuzz {

using Bytes = std::span<const uint8_t>;
using Files = std::vector<std::shared_ptr<const MappedFile>>;

// Valid inputs, from which the fuzzer makes others.
std::vector<std::string> seeds();

// Reads an input, and uses the result as a program would. May throw Error.
void use(Bytes input);

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The content of a file of the source tree, or of a model that a test has written.
std::string content_of(const std::filesystem::path& path);

// The files of a folder and its subfolders, named relative to it.
Files files_of(const std::filesystem::path& folder);

// Throws std::logic_error with `what`, which is a finding, unless `holds`.
void require(bool holds, const std::string& what);

// Models of several files. An input replaces one file of one of them: its first byte says which.
class SoundFolders {
 public:
  // Only files whose names end with one of `suffixes` are replaced.
  SoundFolders(std::vector<Files> folders, std::vector<std::string> suffixes = {""});

  std::vector<std::string> seeds() const;
  ModelFiles with(Bytes input) const;

 private:
  struct Place {
    size_t folder, file;
  };
  std::vector<Files> folders_;
  std::vector<Place> places_;
};

}  // namespace vesper::fuzz
