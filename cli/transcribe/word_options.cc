#include "cli/transcribe/word_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {
namespace {

// Whether what goes to standard output is to be in colors.
bool wants_colors(const std::string& when) {
  if (when != "auto") return when == "always";
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: set and not empty
  return isatty(STDOUT_FILENO) && (!no_color || *no_color == '\0');
}

}  // namespace

WordOptions::WordOptions(CommandLine& line) {
  line.add_flag("--word-timestamps", word_timestamps_);
  line.add_flag("--highlight-words", subtitles_.highlight_words);
  line.add_flag("--split-on-word", split_on_word_);
  const auto count = [&](const std::string& name, std::optional<uint32_t>& value) {
    line.add_value(name, [&value, name](const std::string& text) {
      value = static_cast<uint32_t>(parse_integer(name, text, 1, 1000));
    });
  };
  count("--max-line-width", subtitles_.max_line_width);
  count("--max-line-count", subtitles_.max_line_count);
  count("--max-words-per-line", subtitles_.max_words_per_line);
  count("--max-segment-length", max_segment_length_);
  line.add_value("--hallucination-silence-threshold", [this](const std::string& text) {
    hallucination_silence_threshold_s_.reset();
    if (text == "none" || text == "None") return;
    hallucination_silence_threshold_s_ = parse_number("--hallucination-silence-threshold", text, 0,
                                                      3600, "seconds from 0 to 3600, or none");
  });
  line.add_value("--prepend-punctuations",
                 [this](const std::string& text) { punctuation_.prepended = text; });
  line.add_value("--append-punctuations",
                 [this](const std::string& text) { punctuation_.appended = text; });
  line.add_value("--color", [this](const std::string& text) {
    color_ = parse_choice("--color", text, {"auto", "always", "never"});
  });
}

void WordOptions::finish(const std::vector<TranscriptFormat>& formats, bool to_stdout,
                         DecodingSettings& decoding, WriterOptions& writers) const {
  const auto writes = [&](TranscriptFormat format) {
    return std::find(formats.begin(), formats.end(), format) != formats.end();
  };
  if (subtitles_.max_line_count && !subtitles_.max_line_width) {
    throw Error(ErrorKind::kUsage, "--max-line-count: expected together with --max-line-width");
  }
  if (split_on_word_ && !max_segment_length_) {
    throw Error(ErrorKind::kUsage, "--split-on-word: expected together with --max-segment-length");
  }
  if (subtitles_.of_words() && !writes(TranscriptFormat::kSrt) && !writes(TranscriptFormat::kVtt)) {
    const char* name = subtitles_.highlight_words  ? "--highlight-words"
                       : subtitles_.max_line_width ? "--max-line-width"
                                                   : "--max-words-per-line";
    throw Error(ErrorKind::kUsage,
                std::string(name) + ": expected srt or vtt among the formats (--format)");
  }
  writers.subtitles = subtitles_;
  writers.colors = to_stdout && writes(TranscriptFormat::kTxt) && wants_colors(color_);
  decoding.split_on_word = split_on_word_;
  decoding.max_segment_length = max_segment_length_;
  decoding.hallucination_silence_threshold_s = hallucination_silence_threshold_s_;
  decoding.punctuation = punctuation_;
  decoding.word_timestamps = word_timestamps_ || subtitles_.of_words() || max_segment_length_ ||
                             hallucination_silence_threshold_s_ || writers.colors;
}

}  // namespace vesper
