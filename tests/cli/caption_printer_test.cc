// Live captions as text, JSON and subtitles.
#include "cli/transcribe/caption_printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace vesper::caption_printer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CaptionWord word(const char* text, bool opens_segment = false) {
  return {text, 1, 0.25, 0.5, opens_segment};
}

struct Printed {
  std::vector<std::string> puts;
  int columns = 0;
  std::unique_ptr<CaptionPrinter> printer;
};

std::unique_ptr<Printed> printing(TranscriptFormat format, int columns = 0, bool colour = false) {
  auto printed = std::make_unique<Printed>();
  printed->columns = columns;
  printed->printer = make_caption_printer(
      format, {"it", "base"},
      [puts = &printed->puts](std::string_view text) { puts->emplace_back(text); },
      [&columns = printed->columns] { return columns; }, colour);
  return printed;
}

TEST(TextCaptions, AreOnlyFinalWordsWithoutATerminal) {
  const auto printed = printing(TranscriptFormat::kTxt);
  printed->printer->partial(std::vector{word(" And", true)}, 1);
  printed->printer->final(std::vector{word(" And", true), word(" so")}, 2);
  printed->printer->final(std::vector{word(" my."), word(" Ask", true), word(" not\n\x1b[2J")}, 3);
  printed->printer->end({});
  EXPECT_THAT(printed->puts, ElementsAre("And so", " my.\nAsk not??[2J", "\n"));
}

TEST(TextCaptions, ShowGuessesAfterTheCursor) {
  const auto printed = printing(TranscriptFormat::kTxt, 20, true);
  printed->printer->partial(std::vector{word(" And", true), word(" so")}, 1);
  printed->printer->final(std::vector{word(" And", true)}, 2);
  printed->printer->partial(std::vector{word(" sew"), word(" my"), word(" fellows"), word(" x")},
                            2);
  printed->printer->partial({}, 3);
  EXPECT_THAT(printed->puts, ElementsAre("\0337\033[2mAnd so\033[0m\0338", "\033[JAnd",
                                         "\0337\033[2m sew my fellows\033[0m\0338", "\033[J"))
      << "as many whole words as the line has room for";
  printed->printer->final(std::vector{word(" sew"), word(" your"), word(" fellows")}, 4);
  EXPECT_EQ(printed->puts.back(), " sew your\nfellows");
}

TEST(TextCaptions, FitAResizedTerminal) {
  const auto printed = printing(TranscriptFormat::kTxt, 20);
  printed->printer->final(std::vector{word(" one"), word(" two"), word(" three")}, 1);
  printed->columns = 8;  // the terminal became narrower
  printed->printer->partial(std::vector{word(" four")}, 2);
  printed->printer->final(std::vector{word(" four"), word(" five")}, 2);
  EXPECT_THAT(printed->puts, ElementsAre("one two three", "\nfour\nfive"));
}

TEST(TextCaptions, CountWideCharactersTwice) {
  const auto printed = printing(TranscriptFormat::kTxt, 10);
  const std::vector<CaptionWord> words{word("扎"), word("自"), word("己"), word("的"), word("脚")};
  printed->printer->partial(words, 1);
  printed->printer->final(words, 2);
  EXPECT_THAT(printed->puts, ElementsAre("\0337扎自己的\0338", "\033[J扎自己的\n脚"));
  // A combining mark has no width.
  printed->printer->partial(std::vector{word(" e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301")}, 3);
  EXPECT_THAT(printed->puts.back(), HasSubstr(" e\u0301"));
}

TEST(TextCaptions, EscapeControlCharacters) {
  const auto printed = printing(TranscriptFormat::kTxt, 20);
  printed->printer->final(std::vector{word(" a\x1b[2J\u009b2Jb")}, 1);
  EXPECT_EQ(printed->puts.back(), "a?[2J?2Jb");
}

TEST(JsonCaptions, AreEventsWithTimes) {
  const auto printed = printing(TranscriptFormat::kJsonl);
  printed->printer->partial(std::vector{word(" And")}, 1.5);
  printed->printer->final(std::vector{word(" And", true), word(" so"), word(" Ask", true)}, 2);
  Segment segment;
  segment.text = " And so";
  printed->printer->segment(segment);
  Transcript transcript;
  transcript.duration_s = 3;
  transcript.language = "en";
  printed->printer->end(transcript);
  std::vector<nlohmann::json> events;
  for (const std::string& line : printed->puts) events.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0], nlohmann::json::parse(R"({"event":"partial","start":0.25,"end":0.5,
                                                 "text":" And","received":1.5})"));
  EXPECT_EQ(events[1]["event"], "final");
  EXPECT_EQ(events[1]["text"], " And so");
  EXPECT_EQ(events[1]["opens_segment"], true);
  EXPECT_EQ(events[1]["words"][1],
            nlohmann::json::parse(R"({"word":" so","start":0.25,"end":0.5})"));
  EXPECT_EQ(events[2]["text"], " Ask") << "an event is of one segment";
  EXPECT_EQ(events[3]["event"], "segment");
  EXPECT_EQ(events[3]["text"], " And so");
  EXPECT_EQ(events[3]["file"], "it");
  EXPECT_EQ(events[4], nlohmann::json::parse(R"({"event":"end","duration":3.0,"language":"en"})"));
}

TEST(Captions, AreTextOrJsonLines) {
  EXPECT_EQ(printing(TranscriptFormat::kSrt)->printer, nullptr);
}

}  // namespace
}  // namespace vesper::caption_printer_test
