#include "cli/transcribe/caption_printer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/terminal/program.h"
#include "cli/terminal/terminal_text.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(std::span<const CaptionWord> words) {
  std::string text;
  for (const CaptionWord& word : words) text += word.text;
  return text;
}

class TextPrinter final : public CaptionPrinter {
 public:
  TextPrinter(TextSink put, std::function<int()> terminal_columns, bool colour)
      : put_(std::move(put)), columns_(std::move(terminal_columns)), colour_(colour) {}

  void final(std::span<const CaptionWord> words, double) override {
    if (words.empty()) return;
    const int columns = columns_();
    std::string text = without_partial();
    for (const CaptionWord& word : words) {
      std::string shown = printable(word.text);
      const bool is_full = columns > 0 && used_ + text_width(shown) >= columns;
      if (used_ > 0 && (word.opens_segment || is_full)) {
        text += "\n";
        used_ = 0;
      }
      if (used_ == 0) shown.erase(0, shown.find_first_not_of(' '));
      text += shown;
      used_ += text_width(shown);
    }
    put_(text);
  }

  // As many as the line has room for; the cursor stays at the end of the final words.
  void partial(std::span<const CaptionWord> words, double) override {
    const int columns = columns_();
    if (columns == 0) return;
    std::string text = without_partial();
    std::string shown;
    int left = columns - 1 - used_;
    for (const CaptionWord& word : words) {
      std::string next = printable(word.text);
      if (used_ == 0 && shown.empty()) next.erase(0, next.find_first_not_of(' '));
      left -= text_width(next);
      if (left < 0) break;
      shown += next;
    }
    if (!shown.empty()) {
      text += "\0337" + (colour_ ? "\033[2m" + shown + "\033[0m" : shown) + "\0338";
      has_partial_ = true;
    }
    if (!text.empty()) put_(text);
  }

  void segment(const Segment&) override {}

  void end(const Transcript&) override {
    std::string text = without_partial();
    if (used_ > 0) text += "\n";
    if (!text.empty()) put_(text);
  }

 private:
  // To the end of the screen, because a narrower terminal has wrapped the line.
  std::string without_partial() { return std::exchange(has_partial_, false) ? "\033[J" : ""; }

  TextSink put_;
  std::function<int()> columns_;  // of the terminal, 0 if there is none
  bool colour_;
  int used_ = 0;  // of the current line
  bool has_partial_ = false;
};

class JsonlPrinter final : public CaptionPrinter {
 public:
  JsonlPrinter(const RecordingInfo& recording, TextSink put)
      : put_(std::move(put)),
        segments_(make_writer(TranscriptFormat::kJsonl, [this](std::string_view line) {
          Json object{{"event", "segment"}};
          object.update(Json::parse(line));
          put_(object.dump() + "\n");
        })) {
    segments_->begin(recording);
  }

  void final(std::span<const CaptionWord> words, double received_s) override {
    while (!words.empty()) {
      const auto next = std::find_if(words.begin() + 1, words.end(),
                                     [](const CaptionWord& word) { return word.opens_segment; });
      const auto n = static_cast<size_t>(next - words.begin());
      final_of_segment(words.first(n), received_s);
      words = words.subspan(n);
    }
  }

  void partial(std::span<const CaptionWord> words, double received_s) override {
    Json object{{"event", "partial"}};
    add_span(words, object);
    object["received"] = rounded(received_s);
    put_(object.dump() + "\n");
  }

  void segment(const Segment& segment) override { segments_->segment(segment); }

  void end(const Transcript& transcript) override {
    put_(Json{{"event", "end"},
              {"duration", rounded(transcript.duration_s)},
              {"language", valid_utf8(transcript.language)}}
             .dump() +
         "\n");
  }

 private:
  static double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

  static void add_span(std::span<const CaptionWord> words, Json& object) {
    object["start"] = words.empty() ? Json(nullptr) : Json(rounded(words.front().start_s));
    object["end"] = words.empty() ? Json(nullptr) : Json(rounded(words.back().end_s));
    object["text"] = valid_utf8(text_of(words));
  }

  void final_of_segment(std::span<const CaptionWord> words, double received_s) {
    Json object{{"event", "final"}};
    add_span(words, object);
    object["opens_segment"] = words.front().opens_segment;
    Json list = Json::array();
    for (const CaptionWord& word : words) {
      list.push_back(Json{{"word", valid_utf8(word.text)},
                          {"start", rounded(word.start_s)},
                          {"end", rounded(word.end_s)}});
    }
    object["words"] = std::move(list);
    object["received"] = rounded(received_s);
    put_(object.dump() + "\n");
  }

  TextSink put_;
  std::unique_ptr<TranscriptWriter> segments_;
};

}  // namespace

std::unique_ptr<CaptionPrinter> make_caption_printer(TranscriptFormat format,
                                                     const RecordingInfo& recording, TextSink put,
                                                     std::function<int()> terminal_columns,
                                                     bool colour) {
  if (format == TranscriptFormat::kTxt) {
    return std::make_unique<TextPrinter>(std::move(put), std::move(terminal_columns), colour);
  }
  if (format == TranscriptFormat::kJsonl) {
    return std::make_unique<JsonlPrinter>(recording, std::move(put));
  }
  return nullptr;
}

}  // namespace vesper
