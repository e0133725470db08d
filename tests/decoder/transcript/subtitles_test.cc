// The layouts are those of openai-whisper's writers; the expected cues were worked out by its
// rules.
#include "decoder/transcript/subtitles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "decoder/transcript/writers.h"

namespace vesper::subtitles_test {
namespace {

Word word(double start_s, double end_s, std::string text, double probability = 1) {
  return {start_s, end_s, std::move(text), probability, 1};
}

Segment spoken(std::vector<Word> words) {
  Segment segment;
  segment.start_s = words.front().start_s;
  segment.end_s = words.back().end_s;
  for (const Word& w : words) segment.text += w.text;
  segment.words = std::move(words);
  return segment;
}

const Segment kHello = spoken({word(1.0, 1.5, " Hello"), word(1.5, 1.8, " big"),
                               word(2.0, 2.4, " wide"), word(2.4, 3.0, " world.")});
const Segment kBye = spoken({word(3.5, 4.0, " Good"), word(4.0, 4.5, " bye.")});
const Segment kLate = spoken({word(9.0, 9.5, " Again")});

std::string written(TranscriptFormat format, const std::vector<Segment>& segments,
                    const WriterOptions& options) {
  std::string out;
  const auto writer = make_writer(
      format, [&](std::string_view text) { out += text; }, options);
  writer->begin({});
  for (const Segment& segment : segments) writer->segment(segment);
  writer->end({});
  return out;
}

std::string srt(const std::vector<Segment>& segments, const SubtitleLayout& layout) {
  return written(TranscriptFormat::kSrt, segments, {.subtitles = layout});
}

TEST(Subtitles, OneWordPerLineGivesACueForEachWord) {
  EXPECT_EQ(srt({kBye}, {.max_words_per_line = 1}),
            "1\n00:00:03,500 --> 00:00:04,000\nGood\n\n"
            "2\n00:00:04,000 --> 00:00:04,500\nbye.\n\n");
}

TEST(Subtitles, CuesHaveALimitOfWordsAndEndWithTheSegment) {
  EXPECT_EQ(srt({kHello, kBye}, {.max_words_per_line = 3}),
            "1\n00:00:01,000 --> 00:00:02,400\nHello big wide\n\n"
            "2\n00:00:02,400 --> 00:00:03,000\nworld.\n\n"
            "3\n00:00:03,500 --> 00:00:04,500\nGood bye.\n\n");
}

TEST(Subtitles, LinesHaveALimitOfWidthAndEndWithTheSegment) {
  EXPECT_EQ(srt({kHello, kBye}, {.max_line_width = 10}),
            "1\n00:00:01,000 --> 00:00:03,000\nHello big\nwide\nworld.\n\n"
            "2\n00:00:03,500 --> 00:00:04,500\nGood bye.\n\n");
}

TEST(Subtitles, CuesContinueIntoTheNextSegmentWithWidthAndCount) {
  EXPECT_EQ(srt({kHello, kBye, kLate}, {.max_line_width = 11, .max_line_count = 2}),
            "1\n00:00:01,000 --> 00:00:03,000\nHello big\nwide world.\n\n"
            "2\n00:00:03,500 --> 00:00:04,500\nGood bye.\n\n"
            "3\n00:00:09,000 --> 00:00:09,500\nAgain\n\n");
  EXPECT_EQ(srt({kHello, kBye}, {.max_line_width = 40, .max_line_count = 1}),
            "1\n00:00:01,000 --> 00:00:04,500\nHello big wide world. Good bye.\n\n");
  EXPECT_EQ(srt({kHello, kBye}, {.max_line_width = 10, .max_line_count = 1}),
            "1\n00:00:01,000 --> 00:00:01,800\nHello big\n\n"
            "2\n00:00:02,000 --> 00:00:02,400\nwide\n\n"
            "3\n00:00:02,400 --> 00:00:03,000\nworld.\n\n"
            "4\n00:00:03,500 --> 00:00:04,500\nGood bye.\n\n");
}

TEST(Subtitles, OnlyTheCurrentWordIsUnderlined) {
  const Segment segment = spoken({word(1, 1.5, " One"), word(2, 2.5, " <two>")});
  EXPECT_EQ(srt({segment}, {.highlight_words = true}),
            "1\n00:00:01,000 --> 00:00:01,500\n<u>One</u> <two>\n\n"
            "2\n00:00:01,500 --> 00:00:02,000\nOne <two>\n\n"
            "3\n00:00:02,000 --> 00:00:02,500\nOne <u><two></u>\n\n");
  EXPECT_EQ(written(TranscriptFormat::kVtt, {segment},
                    {.subtitles = {.max_line_width = 5, .highlight_words = true}}),
            "WEBVTT\n\n00:01.000 --> 00:01.500\n<u>One</u>\n&lt;two>\n\n"
            "00:01.500 --> 00:02.000\nOne\n&lt;two>\n\n"
            "00:02.000 --> 00:02.500\nOne\n<u>&lt;two></u>\n\n");
}

TEST(Subtitles, WordsWithoutDurationShareTheNextOne) {
  EXPECT_EQ(srt({spoken({word(1, 1, " a"), word(1, 1, " b"), word(1, 1.3, " c")})},
                {.max_words_per_line = 1}),
            "1\n00:00:01,000 --> 00:00:01,100\na\n\n"
            "2\n00:00:01,100 --> 00:00:01,200\nb\n\n"
            "3\n00:00:01,200 --> 00:00:01,300\nc\n\n");
  // Or what lies before it, or at the end a moment.
  EXPECT_EQ(srt({spoken({word(1, 1, " a"), word(1.04, 2, " b"), word(2, 2, " c")})},
                {.max_words_per_line = 1}),
            "1\n00:00:01,000 --> 00:00:01,040\na\n\n"
            "2\n00:00:01,040 --> 00:00:02,000\nb\n\n"
            "3\n00:00:02,000 --> 00:00:02,100\nc\n\n");
}

TEST(Subtitles, CompoundsAreNotSplit) {
  const Segment segment = spoken({word(0, 1, " c"), word(1, 2, "'est"), word(2, 3, " cold"),
                                  word(3, 4, "-hearted."), word(4, 5, " -"), word(5, 6, " ok")});
  EXPECT_EQ(srt({segment}, {.max_words_per_line = 1}),
            "1\n00:00:00,000 --> 00:00:02,000\nc'est\n\n"
            "2\n00:00:02,000 --> 00:00:04,000\ncold-hearted.\n\n"
            "3\n00:00:04,000 --> 00:00:05,000\n-\n\n"
            "4\n00:00:05,000 --> 00:00:06,000\nok\n\n");
  EXPECT_EQ(srt({spoken({word(0, 1, "砸"), word(1, 2, "自己")})}, {.max_words_per_line = 1}),
            "1\n00:00:00,000 --> 00:00:01,000\n砸\n\n"
            "2\n00:00:01,000 --> 00:00:02,000\n自己\n\n");
}

TEST(Subtitles, CuesDoNotOverlap) {
  EXPECT_EQ(
      srt({spoken({word(1, 2, " a")}), spoken({word(1.5, 3, " b")})}, {.max_words_per_line = 1}),
      "1\n00:00:01,000 --> 00:00:02,000\na\n\n"
      "2\n00:00:02,000 --> 00:00:03,000\nb\n\n");
}

TEST(Subtitles, SegmentsWithoutWordTimesAreSplitByText) {
  Segment segment;
  segment.start_s = 1;
  segment.end_s = 2;
  segment.text = " abcd efgh ijkl";
  EXPECT_EQ(srt({segment}, {.max_line_width = 9}),
            "1\n00:00:01,000 --> 00:00:02,000\nabcd efgh\nijkl\n\n");
}

TEST(Subtitles, RandomWordsGiveValidCues) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const std::vector<std::string> texts = {" a",   " wörd", "。", " ", "\n",
                                          " -->", " \xE7", "&<", ""};
  for (int round = 0; round < 300; ++round) {
    std::vector<Segment> segments;
    double at_s = 0;
    for (int s = below(4); s >= 0; --s) {
      std::vector<Word> words;
      for (int w = below(9); w >= 0; --w) {
        at_s += 0.02 * (below(10) - 2);
        const double start_s = std::max(0.0, at_s);
        at_s = start_s + 0.02 * below(4);
        words.push_back(word(start_s, at_s, texts[random() % texts.size()]));
      }
      segments.push_back(spoken(std::move(words)));
    }
    SubtitleLayout layout;
    if (below(2)) layout.max_line_width = 1 + below(12);
    if (layout.max_line_width && below(2)) layout.max_line_count = 1 + below(3);
    if (below(2)) layout.max_words_per_line = 1 + below(3);
    layout.highlight_words = below(2);
    int64_t last_ms = 0;
    CueMaker maker(layout, [&](const Cue& cue) {
      EXPECT_GE(cue.start_ms, last_ms);
      EXPECT_GT(cue.end_ms, cue.start_ms);
      last_ms = cue.end_ms;
      std::string text;
      for (const std::string& w : cue.words) text += w;
      EXPECT_FALSE(text.empty());
      EXPECT_EQ(text.find("\n\n"), std::string::npos);
      EXPECT_NE(text.front(), '\n');
    });
    for (const Segment& segment : segments) maker.push(segment);
    maker.finish();
  }
}

TEST(Lyrics, WordsHaveTimestampsIfKnown) {
  EXPECT_EQ(written(TranscriptFormat::kLrc, {kBye}, {}),
            "[00:03.50] <00:03.50> Good <00:04.00> bye.\n");
  EXPECT_EQ(
      written(TranscriptFormat::kLrc, {spoken({word(61, 62, "砸"), word(62, 63, "自己")})}, {}),
      "[01:01.00]<01:01.00>砸<01:02.00>自己\n");
}

TEST(Text, WordsAreColoredByProbabilityIfRequested) {
  const Segment segment = spoken({word(0, 1, " sure", 1.0), word(1, 2, " unsure", 0.1)});
  EXPECT_EQ(written(TranscriptFormat::kTxt, {segment}, {.colors = true}),
            "\x1b[38;5;118msure\x1b[0m \x1b[38;5;196munsure\x1b[0m\n");
  EXPECT_EQ(written(TranscriptFormat::kTxt, {segment}, {}), "sure unsure\n");
}

}  // namespace
}  // namespace vesper::subtitles_test
