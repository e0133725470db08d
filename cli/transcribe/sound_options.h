// The options that say what sound comes in: raw samples, and what becomes of the channels.
#pragma once

#include <string>

#include "session/channels.h"

namespace vesper {

class CommandLine;

class SoundOptions {
 public:
  // Adds them to `line`, which does not outlive this.
  explicit SoundOptions(CommandLine& line);
  SoundOptions(const SoundOptions&) = delete;
  SoundOptions& operator=(const SoundOptions&) = delete;

  // Once all are read: how to read every recording. Throws Error(kUsage).
  void finish(ReaderOptions& reader, Channels& channels) const;

 private:
  ReaderOptions reader_;
  bool is_split_ = false, is_diarized_ = false;
  RawPcm raw_;
  bool is_raw_ = false;
  std::string raw_detail_;  // an option that is of no use without --pcm
};

}  // namespace vesper
