// Transcripts as text: txt, srt, vtt, tsv, csv, lrc, json, jsonl.
//
// In: segments, one by one while transcription continues. Out: complete lines of text for a
// function of the caller (a file, stdout). Called by the programs in cli/. Formats follow
// openai-whisper's writers where it has one:
//
//   txt    one segment per line, trimmed
//   srt    numbered from 1, HH:MM:SS,mmm
//   vtt    WebVTT, [HH:]MM:SS.mmm
//   tsv    header, then start and end in integer milliseconds and the text
//   csv    the same with commas, the text quoted (RFC 4180)
//   lrc    lyrics, [mm:ss.xx]text; with word times <mm:ss.xx> before each word
//   json   one object: text, segments, language, as in openai-whisper, and file, model, duration,
//   language_probability (null without speech), the language of each segment, and `dropped`: start,
//   end, reason, text of rejected text
//   jsonl  one object per line for each segment, with the file's name
//
// If segments have a channel or a speaker, the text of the first six begins with it: "[left]",
// "[channel 3]", "(speaker 0)". JSON has `channel` and `speaker`.
//
// The output is always valid UTF-8 and never parsed as markup: an invalid sequence becomes U+FFFD,
// line breaks and other control characters become a space (escaped in JSON), `-->` becomes `->` in
// subtitles.
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

// The name of a format and the extension of its files: "txt", "srt", ...
std::string_view format_name(TranscriptFormat format);

// Parses a list such as "srt,vtt" or "all"; repeated formats count once. Throws Error(kUsage)
// naming what is not a format.
std::vector<TranscriptFormat> parse_formats(std::string_view list);

// Facts of a recording before transcription.
struct RecordingInfo {
  std::string file;   // name given by the user; "stdin" for standard input
  std::string model;  // name or path of the model
};

// Receives complete lines. May throw, which ends the writing.
using TextSink = std::function<void(std::string_view text)>;

// Call begin() once, segment() for each, end() once with the transcript. Each calls the sink at
// most once.
class TranscriptWriter {
 public:
  virtual ~TranscriptWriter() = default;
  virtual void begin(const RecordingInfo& recording) = 0;
  virtual void segment(const Segment& segment) = 0;
  virtual void end(const Transcript& transcript) = 0;
};

struct WriterOptions {
  SubtitleLayout subtitles = {};  // srt, vtt
  bool colors = false;            // txt: words in ANSI colors by their probability
};

std::unique_ptr<TranscriptWriter> make_writer(TranscriptFormat format, TextSink sink,
                                              const WriterOptions& options = {});

}  // namespace vesper
