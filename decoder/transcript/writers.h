// Transcripts as text: txt, srt, vtt, tsv, csv, lrc, json, jsonl.
//
// In come segments, one by one while the rest is still being transcribed; out goes text through a
// function of the caller's (a file, stdout), complete lines at a time. Called by the programs in
// cli/. Formats follow openai-whisper's writers where it has one:
//
//   txt    a segment a line, trimmed
//   srt    numbered from 1, HH:MM:SS,mmm
//   vtt    WebVTT, [HH:]MM:SS.mmm
//   tsv    header, then start and end in whole milliseconds and the text
//   csv    the same with commas, the text quoted (RFC 4180)
//   lrc    lyrics, [mm:ss.xx]text; with word times <mm:ss.xx> stands before each word
//   json   one object: text, segments, language; beside openai-whisper's keys: file, model,
//          duration, language_probability (null where nothing was heard), each segment's
//          language, and as `dropped` what was left out: start, end, reason, text
//   jsonl  an object a line for each segment, with the file's name in it
//
// Where segments have a channel or a speaker, the text of the first six begins with it: "[left]",
// "[channel 3]", "(speaker 0)"; JSON has `channel` and `speaker`.
//
// Whatever bytes a segment holds, the output is valid UTF-8 and cannot be taken for markup: an
// invalid sequence becomes U+FFFD, line breaks and other control characters become a space (except
// in JSON, which escapes them), `-->` becomes `->` in subtitles.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/transcript/subtitles.h"
#include "decoder/transcript/transcript.h"

namespace vesper {

enum class TranscriptFormat { kTxt, kSrt, kVtt, kTsv, kCsv, kLrc, kJson, kJsonl };

// The name of a format, which is also the extension of its files: "txt", "srt", ...
std::string_view format_name(TranscriptFormat format);

// Reads a list such as "srt,vtt" or "all"; a format named twice is taken once. Throws
// Error(kUsage) naming what is not a format.
std::vector<TranscriptFormat> parse_formats(std::string_view list);

// What is known of a recording before it is transcribed.
struct RecordingInfo {
  std::string file;   // as the user named it; "stdin" for standard input
  std::string model;  // name or path of the model
};

// Takes text that ends at a line's end. May throw, which ends the writing.
using TextSink = std::function<void(std::string_view text)>;

// Call begin() once, segment() for each, end() once with everything; each passes its text to the
// sink in at most one call.
class TranscriptWriter {
 public:
  virtual ~TranscriptWriter() = default;
  virtual void begin(const RecordingInfo& recording) = 0;
  virtual void segment(const Segment& segment) = 0;
  virtual void end(const Transcript& transcript) = 0;
};

struct WriterOptions {
  SubtitleLayout subtitles = {};  // srt, vtt
  bool colors = false;  // txt: words in colors that tell how probable they are (ANSI codes)
};

std::unique_ptr<TranscriptWriter> make_writer(TranscriptFormat format, TextSink sink,
                                              const WriterOptions& options = {});

}  // namespace vesper
