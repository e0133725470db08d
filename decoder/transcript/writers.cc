#include "decoder/transcript/writers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "decoder/transcript/text_lines.h"
#include "error/error.h"
#include "error/number_text.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<TranscriptFormat, std::string_view>, 8> kFormats = {{
    {TranscriptFormat::kTxt, "txt"},
    {TranscriptFormat::kSrt, "srt"},
    {TranscriptFormat::kVtt, "vtt"},
    {TranscriptFormat::kTsv, "tsv"},
    {TranscriptFormat::kCsv, "csv"},
    {TranscriptFormat::kLrc, "lrc"},
    {TranscriptFormat::kJson, "json"},
    {TranscriptFormat::kJsonl, "jsonl"},
}};

// HH:MM:SS.mmm with this decimal mark; without "HH:" in the first hour, unless always_hours.
std::string clock_time(int64_t ms, char decimal_mark, bool always_hours) {
  const int64_t hours = ms / 3'600'000;
  const int minutes = static_cast<int>(ms / 60'000 % 60);
  const int seconds = static_cast<int>(ms / 1000 % 60);
  const int millis = static_cast<int>(ms % 1000);
  const std::string rest = formatted("%02d:%02d%c%03d", minutes, seconds, decimal_mark, millis);
  if (!always_hours && hours == 0) return rest;
  return formatted("%02lld:", static_cast<long long>(hours)) + rest;
}

// `-->` separates times in subtitles. A run of dashes before '>' shrinks to one, because replacing
// parts of "--->" would make a new arrow.
std::string without_arrows(std::string text) {
  for (size_t at = text.find("-->"); at != std::string::npos; at = text.find("-->", at)) {
    text.erase(at, 1);
    if (at > 0) --at;
  }
  return text;
}

// JSON has no infinities and no NaN: null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Times have milliseconds; more digits are rounding errors.
Json seconds_rounded(double seconds) {
  return Json(static_cast<double>(in_units(seconds, 1000)) / 1000);
}

Json segment_object(const Segment& segment) {
  Json object;
  object["id"] = segment.id;
  object["seek"] = segment.seek;
  object["start"] = seconds_rounded(segment.start_s);
  object["end"] = seconds_rounded(std::max(segment.start_s, segment.end_s));
  object["text"] = valid_utf8(segment.text);
  object["tokens"] = segment.tokens;
  object["temperature"] = number(segment.temperature);
  object["avg_logprob"] = number(segment.avg_logprob);
  object["compression_ratio"] = number(segment.compression_ratio);
  object["no_speech_prob"] = number(segment.no_speech_prob);
  object["language"] = valid_utf8(segment.language);
  if (segment.channel > 0) object["channel"] = segment.channel;
  if (!segment.speaker.empty()) object["speaker"] = valid_utf8(segment.speaker);
  if (!segment.words.empty()) {
    Json words = Json::array();
    for (const Word& word : segment.words) {
      words.push_back(Json{{"word", valid_utf8(word.text)},
                           {"start", seconds_rounded(word.start_s)},
                           {"end", seconds_rounded(std::max(word.start_s, word.end_s))},
                           {"probability", number(word.probability)}});
      if (!word.speaker.empty()) words.back()["speaker"] = valid_utf8(word.speaker);
    }
    object["words"] = std::move(words);
  }
  return object;
}

// Formats with independent segments: a header, and text for each segment.
class LineWriter : public TranscriptWriter {
 public:
  explicit LineWriter(TextSink sink) : sink_(std::move(sink)) {}

  void begin(const RecordingInfo& recording) override { put(header(recording)); }

  // A segment without text has no line; in subtitles it would be an invalid cue.
  void segment(const Segment& segment) override {
    const std::string text = one_line(segment.text);
    if (text.empty()) return;
    put(line(segment, speaker_label(segment) + text));
  }

  void end(const Transcript&) override {}

 protected:
  virtual std::string header(const RecordingInfo&) { return ""; }
  virtual std::string line(const Segment& segment, const std::string& text) = 0;

 private:
  void put(const std::string& text) {
    if (!text.empty()) sink_(text);
  }
  TextSink sink_;
};

class TxtWriter : public LineWriter {
 public:
  TxtWriter(bool colors, TextSink sink) : LineWriter(std::move(sink)), colors_(colors) {}

 private:
  std::string line(const Segment& segment, const std::string& text) override {
    if (!colors_ || segment.words.empty()) return text + "\n";
    const std::string label = speaker_label(segment);
    std::string colored = label;
    for (const Word& word : segment.words) {
      const std::string said = plain_text(word.text);
      // Leading spaces are not colored.
      const size_t begin = std::min(said.find_first_not_of(' '), said.size());
      if (colored.size() > label.size()) colored += said.substr(0, begin);
      if (begin == said.size()) continue;
      colored += color_of(word.probability) + said.substr(begin) + "\x1b[0m";
    }
    return colored + "\n";
  }

  // From red to green, in the 256 colors of terminals.
  static std::string color_of(double probability) {
    constexpr std::array<int, 8> kColors = {196, 202, 208, 214, 220, 190, 154, 118};
    // Most words are near 1; the cube spreads them.
    const double p = std::clamp(probability, 0.0, 1.0);
    const auto color = static_cast<size_t>(p * p * p * kColors.size());
    return "\x1b[38;5;" + std::to_string(kColors[std::min(color, kColors.size() - 1)]) + "m";
  }

  bool colors_;
};

// Subtitles: a segment has several cues, or shares one with the previous segments.
class CueWriter : public TranscriptWriter {
 public:
  CueWriter(const SubtitleLayout& layout, TextSink sink)
      : sink_(std::move(sink)), cues_(layout, [this](const Cue& cue) { text_ += lines(cue); }) {}

  void begin(const RecordingInfo&) override {
    text_ = header();
    put();
  }
  void segment(const Segment& segment) override {
    cues_.push(segment);
    put();
  }
  void end(const Transcript&) override {
    cues_.finish();
    put();
  }

 protected:
  virtual std::string header() { return ""; }
  virtual std::string lines(const Cue& cue) = 0;

  // The escaped words of a cue, the highlighted one underlined.
  template <class Escape>
  static std::string text_of(const Cue& cue, const Escape& escape) {
    std::string text;
    for (size_t i = 0; i < cue.words.size(); ++i) {
      const std::string word = escape(cue.words[i]);
      if (i != cue.highlighted) {
        text += word;
        continue;
      }
      const size_t begin = std::min(word.find_first_not_of(" \n"), word.size());
      text += word.substr(0, begin) + "<u>" + word.substr(begin) + "</u>";
    }
    return without_arrows(text);
  }

 private:
  void put() {
    if (!text_.empty()) sink_(text_);
    text_.clear();
  }

  TextSink sink_;
  std::string text_;  // not yet written
  CueMaker cues_;
};

class SrtWriter : public CueWriter {
  using CueWriter::CueWriter;
  std::string lines(const Cue& cue) override {
    return std::to_string(++index_) + "\n" + clock_time(cue.start_ms, ',', true) + " --> " +
           clock_time(cue.end_ms, ',', true) + "\n" +
           text_of(cue, [](const std::string& word) { return word; }) + "\n\n";
  }
  int64_t index_ = 0;  // of the last cue
};

class VttWriter : public CueWriter {
  using CueWriter::CueWriter;
  std::string header() override { return "WEBVTT\n\n"; }
  std::string lines(const Cue& cue) override {
    // "&" and "<" begin an escape and a tag in cue text (WebVTT, section 4.2.2).
    const auto escape = [](const std::string& word) {
      return replace_all(replace_all(word, "&", "&amp;"), "<", "&lt;");
    };
    return clock_time(cue.start_ms, '.', false) + " --> " + clock_time(cue.end_ms, '.', false) +
           "\n" + text_of(cue, escape) + "\n\n";
  }
};

class TsvWriter : public LineWriter {
  using LineWriter::LineWriter;
  std::string header(const RecordingInfo&) override { return "start\tend\ttext\n"; }
  std::string line(const Segment& segment, const std::string& text) override {
    const TimeSpan span = milliseconds(segment.start_s, segment.end_s);
    return std::to_string(span.start) + "\t" + std::to_string(span.end) + "\t" + text + "\n";
  }
};

class CsvWriter : public LineWriter {
  using LineWriter::LineWriter;
  std::string header(const RecordingInfo&) override { return "start,end,text\n"; }
  std::string line(const Segment& segment, const std::string& text) override {
    const TimeSpan span = milliseconds(segment.start_s, segment.end_s);
    return std::to_string(span.start) + "," + std::to_string(span.end) + ",\"" +
           replace_all(text, "\"", "\"\"") + "\"\n";
  }
};

class LrcWriter : public LineWriter {
  using LineWriter::LineWriter;
  std::string line(const Segment& segment, const std::string& text) override {
    const std::string start = time_of(segment.start_s);
    if (segment.words.empty()) return "[" + start + "]" + text + "\n";
    std::string stamped;
    for (const Word& word : segment.words) {
      const std::string said = one_line(word.text);
      if (said.empty()) continue;
      // The space of the word is before and after the time stamp.
      const char* space = plain_text(word.text).starts_with(' ') ? " " : "";
      stamped += space + ("<" + time_of(word.start_s) + ">") + space + said;
    }
    return "[" + start + "]" + speaker_label(segment) + stamped + "\n";
  }
  // mm:ss.xx; minutes exceed 59, because the format has no hours.
  static std::string time_of(double seconds) {
    const int64_t centis = in_units(seconds, 100);
    return formatted("%02lld:%02d.%02d", static_cast<long long>(centis / 6000),
                     static_cast<int>(centis / 100 % 60), static_cast<int>(centis % 100));
  }
};

class JsonWriter : public TranscriptWriter {
 public:
  explicit JsonWriter(TextSink sink) : sink_(std::move(sink)) {}

  void begin(const RecordingInfo& recording) override {
    sink_("{\"file\": " + Json(valid_utf8(recording.file)).dump() +
          ",\n \"model\": " + Json(valid_utf8(recording.model)).dump() + ",\n \"segments\": [\n");
  }

  // The comma is before a segment, because only end() knows the last one.
  void segment(const Segment& segment) override {
    const char* separator = std::exchange(first_, false) ? "  " : "  ,";
    sink_(separator + segment_object(segment).dump() + "\n");
  }

  void end(const Transcript& transcript) override {
    std::string text;
    for (const Segment& segment : transcript.segments) text += segment.text;
    Json dropped = Json::array();
    for (const DroppedSpan& span : transcript.dropped) {
      dropped.push_back(Json{{"start", seconds_rounded(span.start_s)},
                             {"end", seconds_rounded(std::max(span.start_s, span.end_s))},
                             {"reason", span.reason},
                             {"text", valid_utf8(span.text)}});
    }
    const Json language =
        transcript.language.empty() ? Json(nullptr) : Json(valid_utf8(transcript.language));
    sink_(" ],\n \"text\": " + Json(valid_utf8(text)).dump() +
          ",\n \"dropped\": " + dropped.dump() + ",\n \"language\": " + language.dump() +
          ",\n \"language_probability\": " + number(transcript.language_probability).dump() +
          ",\n \"duration\": " + seconds_rounded(transcript.duration_s).dump() + "}\n");
  }

 private:
  TextSink sink_;
  bool first_ = true;
};

class JsonlWriter : public TranscriptWriter {
 public:
  explicit JsonlWriter(TextSink sink) : sink_(std::move(sink)) {}

  void begin(const RecordingInfo& recording) override { file_ = valid_utf8(recording.file); }

  void segment(const Segment& segment) override {
    Json object{{"file", file_}};
    object.update(segment_object(segment));
    sink_(object.dump() + "\n");
  }

  void end(const Transcript&) override {}

 private:
  TextSink sink_;
  std::string file_;
};

std::string known_formats() {
  std::string names;
  for (const auto& [format, name] : kFormats) names += std::string(name) + ", ";
  return names + "all";
}

}  // namespace

std::string_view format_name(TranscriptFormat format) {
  for (const auto& [candidate, name] : kFormats) {
    if (candidate == format) return name;
  }
  throw Error(ErrorKind::kInternal, "a transcript format without a name");
}

std::vector<TranscriptFormat> parse_formats(std::string_view list) {
  std::vector<TranscriptFormat> formats;
  const auto add = [&](TranscriptFormat format) {
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
      formats.push_back(format);
    }
  };
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    const auto row = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const auto& known) { return known.second == name; });
    if (name == "all") {
      for (const auto& known : kFormats) add(known.first);
    } else if (row != kFormats.end()) {
      add(row->first);
    } else {
      throw Error(ErrorKind::kUsage, "format",
                  "expected a list of " + known_formats() + ", found \"" + valid_utf8(name) + "\"");
    }
    if (comma == std::string_view::npos) return formats;
    list.remove_prefix(comma + 1);
  }
}

std::unique_ptr<TranscriptWriter> make_writer(TranscriptFormat format, TextSink sink,
                                              const WriterOptions& options) {
  switch (format) {
    case TranscriptFormat::kTxt:
      return std::make_unique<TxtWriter>(options.colors, std::move(sink));
    case TranscriptFormat::kSrt:
      return std::make_unique<SrtWriter>(options.subtitles, std::move(sink));
    case TranscriptFormat::kVtt:
      return std::make_unique<VttWriter>(options.subtitles, std::move(sink));
    case TranscriptFormat::kTsv:
      return std::make_unique<TsvWriter>(std::move(sink));
    case TranscriptFormat::kCsv:
      return std::make_unique<CsvWriter>(std::move(sink));
    case TranscriptFormat::kLrc:
      return std::make_unique<LrcWriter>(std::move(sink));
    case TranscriptFormat::kJson:
      return std::make_unique<JsonWriter>(std::move(sink));
    case TranscriptFormat::kJsonl:
      return std::make_unique<JsonlWriter>(std::move(sink));
  }
  throw Error(ErrorKind::kInternal, "a transcript format without a writer");
}

}  // namespace vesper
