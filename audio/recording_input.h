// A recording that can be read more than once from its beginning, wherever it comes from.
#pragma once

#include <optional>
#include <string>

#include "audio/reader.h"
#include "audio/unique_fd.h"

namespace vesper {

class RecordingInput {
 public:
  // `path`: a file, a named pipe, or "-" for standard input. What cannot be read twice is first
  // copied to a temporary file that has no name. Throws Error(kInput) where that fails.
  RecordingInput(const std::string& path, const ReaderOptions& options);

  // A reader at the recording's beginning: of the mean of all channels, or of one, counted from 0.
  // One at a time. Throws what AudioReader throws.
  AudioReader open(std::optional<int> channel = std::nullopt) const;

 private:
  std::string path_;
  ReaderOptions options_;
  UniqueFd copy_;  // instead of the path
};

}  // namespace vesper
