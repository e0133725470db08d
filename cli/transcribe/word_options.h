// The options about the times of words, and about what subtitles make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoder/decoding_settings.h"
#include "decoder/transcript/writers.h"

namespace vesper {

class CommandLine;

class WordOptions {
 public:
  // Adds them to `line`, which does not outlive this.
  explicit WordOptions(CommandLine& line);
  WordOptions(const WordOptions&) = delete;
  WordOptions& operator=(const WordOptions&) = delete;

  // Once all are read: settles what is to be found out and written; what needs the times of words
  // turns them on. Throws Error(kUsage) for options that are of no use without each other, or for
  // the formats that are to be written.
  void finish(const std::vector<TranscriptFormat>& formats, bool to_stdout,
              DecodingSettings& decoding, WriterOptions& writers) const;

 private:
  bool word_timestamps_ = false, split_on_word_ = false;
  SubtitleLayout subtitles_;
  std::optional<uint32_t> max_segment_length_;
  std::optional<double> hallucination_silence_threshold_s_;
  Punctuation punctuation_;
  std::string color_ = "never";
};

}  // namespace vesper
