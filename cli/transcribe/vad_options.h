// The options of voice activity: --vad and its details.
#pragma once

#include <optional>
#include <string>

#include "vad/speech_segments.h"

namespace vesper {

class CommandLine;

class VadOptions {
 public:
  // Adds them to `line`, which does not outlive this.
  explicit VadOptions(CommandLine& line);
  VadOptions(const VadOptions&) = delete;
  VadOptions& operator=(const VadOptions&) = delete;

  // Once all are read: what counts as speech, if only that is to be transcribed. Throws
  // Error(kUsage) for a detail without --vad.
  std::optional<SpeechSettings> finish() const;

 private:
  bool wanted_ = false;
  std::string detail_;  // an option that is of no use without --vad
  SpeechSettings settings_;
};

}  // namespace vesper
