#include "decoder/transcript/writers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper::writers_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Segment said(double start_s, double end_s, std::string text) {
  Segment segment;
  segment.start_s = start_s;
  segment.end_s = end_s;
  segment.text = std::move(text);
  segment.language = "en";
  return segment;
}

// What a writer makes of these segments, and that it kept its promise of whole lines.
std::string written(TranscriptFormat format, std::vector<Segment> segments) {
  std::string out;
  const auto writer = make_writer(format, [&](std::string_view text) {
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.back(), '\n');
    out += text;
  });
  Transcript transcript;
  transcript.language = "en";
  transcript.language_probability = 0.5;
  transcript.duration_s = 11;
  for (size_t i = 0; i < segments.size(); ++i) segments[i].id = static_cast<int>(i);
  transcript.segments = segments;
  writer->begin({"talk.wav", "tiny.en"});
  for (const Segment& segment : segments) writer->segment(segment);
  writer->end(transcript);
  return out;
}

const std::vector<Segment> kTalk = {said(0, 2.5, " Hello there."),
                                    said(2.5, 3725.06, " A \"b\", c.")};

TEST(Writers, TxtIsATrimmedLinePerSegment) {
  EXPECT_EQ(written(TranscriptFormat::kTxt, kTalk), "Hello there.\nA \"b\", c.\n");
}

TEST(Writers, SrtCountsFromOneAndHasCommasInItsTimes) {
  EXPECT_EQ(written(TranscriptFormat::kSrt, kTalk),
            "1\n00:00:00,000 --> 00:00:02,500\nHello there.\n\n"
            "2\n00:00:02,500 --> 01:02:05,060\nA \"b\", c.\n\n");
}

TEST(Writers, VttShowsHoursOnlyIfNeeded) {
  EXPECT_EQ(written(TranscriptFormat::kVtt, kTalk),
            "WEBVTT\n\n00:00.000 --> 00:02.500\nHello there.\n\n"
            "00:02.500 --> 01:02:05.060\nA \"b\", c.\n\n");
}

TEST(Writers, TsvHasWholeMilliseconds) {
  EXPECT_EQ(written(TranscriptFormat::kTsv, kTalk),
            "start\tend\ttext\n0\t2500\tHello there.\n2500\t3725060\tA \"b\", c.\n");
}

TEST(Writers, CsvQuotesTheTextAndDoublesItsQuotes) {
  EXPECT_EQ(written(TranscriptFormat::kCsv, kTalk),
            "start,end,text\n0,2500,\"Hello there.\"\n2500,3725060,\"A \"\"b\"\", c.\"\n");
}

TEST(Writers, LrcLetsMinutesGrowPastTheHour) {
  EXPECT_EQ(written(TranscriptFormat::kLrc, {kTalk[0], said(3725.06, 3726, " b")}),
            "[00:00.00]Hello there.\n[62:05.06]b\n");
}

TEST(Writers, JsonHasTheKeysOfTheReference) {
  Segment segment = said(0, 2.5, " Hello");
  segment.seek = 3000;
  segment.tokens = {50363, 18435, 50488};
  segment.temperature = 0.2;
  segment.avg_logprob = -0.25;
  segment.compression_ratio = 1.5;
  segment.no_speech_prob = 0.125;
  segment.words = {{0.1, 0.5, " Hello", 0.75, 1, ""}};
  const json document =
      json::parse(written(TranscriptFormat::kJson, {segment, said(3, 4, " you")}));
  EXPECT_EQ(document["text"], " Hello you");
  EXPECT_EQ(document["language"], "en");
  EXPECT_EQ(document["language_probability"], 0.5);
  EXPECT_EQ(document["duration"], 11);
  EXPECT_EQ(document["file"], "talk.wav");
  EXPECT_EQ(document["model"], "tiny.en");
  ASSERT_EQ(document["segments"].size(), 2u);
  EXPECT_EQ(document["segments"][0],
            json::parse(R"({"id": 0, "seek": 3000, "start": 0.0, "end": 2.5, "text": " Hello",
                            "tokens": [50363, 18435, 50488], "temperature": 0.2,
                            "avg_logprob": -0.25, "compression_ratio": 1.5,
                            "no_speech_prob": 0.125, "language": "en",
                            "words": [{"word": " Hello", "start": 0.1, "end": 0.5,
                                       "probability": 0.75}]})"));
  EXPECT_EQ(document["segments"][1]["id"], 1);
  EXPECT_FALSE(document["segments"][1].contains("words"));
}

TEST(Writers, JsonListsDroppedText) {
  std::string out;
  const auto writer =
      make_writer(TranscriptFormat::kJson, [&](std::string_view text) { out += text; });
  Transcript transcript;
  transcript.dropped = {{1.5, 31.5, "no speech", "again again"}, {40, 39, "no speech", "you"}};
  writer->begin({"talk.wav", "tiny.en"});
  writer->end(transcript);
  const json document = json::parse(out);
  EXPECT_EQ(document["dropped"], json::parse(R"([
      {"start": 1.5, "end": 31.5, "reason": "no speech", "text": "again again"},
      {"start": 40.0, "end": 40.0, "reason": "no speech", "text": "you"}])"));
  EXPECT_EQ(document["language"], nullptr);
  EXPECT_EQ(json::parse(written(TranscriptFormat::kJson, kTalk))["dropped"], json::array());
}

TEST(Writers, JsonlIsOneObjectPerSegment) {
  const std::string text = written(TranscriptFormat::kJsonl, kTalk);
  const size_t newline = text.find('\n');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  const json first = json::parse(text.substr(0, newline));
  EXPECT_EQ(first["file"], "talk.wav");
  EXPECT_EQ(first["text"], " Hello there.");
  EXPECT_EQ(json::parse(text.substr(newline + 1))["start"], 2.5);
}

TEST(Writers, NameChannelOrSpeaker) {
  Segment left = said(0, 1, " Hello");
  left.channel = 1;
  left.speaker = "left";
  Segment third = said(1, 2, " there");
  third.channel = 3;
  Segment unsure = said(2, 3, " you");
  unsure.speaker = "?";
  unsure.words = {{2, 3, " you", 0.5, 1, "1"}};
  EXPECT_EQ(written(TranscriptFormat::kTxt, {left, third, unsure}),
            "[left] Hello\n[channel 3] there\n(speaker ?) you\n");
  EXPECT_THAT(written(TranscriptFormat::kSrt, {left}), HasSubstr("\n[left] Hello\n"));
  EXPECT_THAT(written(TranscriptFormat::kVtt, {unsure}), HasSubstr("\n(speaker ?) you\n"));
  EXPECT_THAT(written(TranscriptFormat::kTsv, {third}), HasSubstr("1000\t2000\t[channel 3] there"));
  EXPECT_THAT(written(TranscriptFormat::kCsv, {left}), HasSubstr("\"[left] Hello\""));
  EXPECT_THAT(written(TranscriptFormat::kLrc, {left}), HasSubstr("][left] Hello"));
  const json object = json::parse(written(TranscriptFormat::kJson, {left, third, unsure}));
  EXPECT_EQ(object["segments"][0]["channel"], 1);
  EXPECT_EQ(object["segments"][0]["speaker"], "left");
  EXPECT_EQ(object["segments"][0]["text"], " Hello");
  EXPECT_EQ(object["segments"][1]["channel"], 3);
  EXPECT_FALSE(object["segments"][1].contains("speaker"));
  EXPECT_FALSE(object["segments"][2].contains("channel"));
  EXPECT_EQ(object["segments"][2]["speaker"], "?");
  EXPECT_EQ(object["segments"][2]["words"][0]["speaker"], "1");
}

TEST(Writers, WriteOnlyHeadersWithoutSegments) {
  EXPECT_EQ(written(TranscriptFormat::kTxt, {}), "");
  EXPECT_EQ(written(TranscriptFormat::kSrt, {}), "");
  EXPECT_EQ(written(TranscriptFormat::kVtt, {}), "WEBVTT\n\n");
  EXPECT_EQ(written(TranscriptFormat::kJsonl, {}), "");
  const json document = json::parse(written(TranscriptFormat::kJson, {}));
  EXPECT_EQ(document["segments"], json::array());
  EXPECT_EQ(document["text"], "");
}

TEST(Writers, WriteEachSegmentImmediately) {
  for (TranscriptFormat format : parse_formats("all")) {
    std::string out;
    const auto writer = make_writer(format, [&](std::string_view text) { out += text; });
    writer->begin({"talk.wav", "tiny.en"});
    EXPECT_THAT(out, Not(HasSubstr("there")));
    writer->segment(kTalk[0]);
    EXPECT_THAT(out, HasSubstr("there")) << format_name(format);
  }
}

// A round trip through milliseconds: 59.9996 s is a minute, not 59.1000 or 60 seconds.
TEST(Writers, RoundTimesBeforeSplittingThem) {
  EXPECT_EQ(written(TranscriptFormat::kSrt, {said(59.9996, 3599.9996, "x")}),
            "1\n00:01:00,000 --> 01:00:00,000\nx\n\n");
  EXPECT_EQ(written(TranscriptFormat::kVtt, {said(59.9994, 3599.9996, "x")}),
            "WEBVTT\n\n00:59.999 --> 01:00:00.000\nx\n\n");
  EXPECT_EQ(written(TranscriptFormat::kLrc, {said(59.996, 61, "x")}), "[01:00.00]x\n");
  EXPECT_EQ(written(TranscriptFormat::kSrt, {said(359999.999, 360000, "x")}),
            "1\n99:59:59,999 --> 100:00:00,000\nx\n\n");
}

TEST(Writers, WriteValidIncreasingTimes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(written(TranscriptFormat::kTsv, {said(-1, -2, "a"), said(5, 4, "b"),
                                             said(nan, nan, "c"), said(0, infinity, "d")}),
            "start\tend\ttext\n0\t0\ta\n5000\t5000\tb\n0\t0\tc\n0\t1000000000\td\n");
  Segment segment = said(nan, infinity, "x");
  segment.avg_logprob = -infinity;
  segment.compression_ratio = nan;
  const json document = json::parse(written(TranscriptFormat::kJson, {segment}));
  EXPECT_TRUE(document["segments"][0]["avg_logprob"].is_null());
  EXPECT_TRUE(document["segments"][0]["compression_ratio"].is_null());
  segment = said(3, 2, " x");
  segment.words = {{3, 2.5, " x", 1, 1, ""}};
  const json backwards = json::parse(written(TranscriptFormat::kJson, {segment}));
  EXPECT_EQ(backwards["segments"][0]["end"], 3);
  EXPECT_EQ(backwards["segments"][0]["words"][0]["end"], 3);
}

TEST(Writers, SkipSegmentsWithoutTextExceptInJson) {
  const std::vector<Segment> segments = {said(0, 1, ""), said(1, 2, " \n "), said(2, 3, " a")};
  EXPECT_EQ(written(TranscriptFormat::kSrt, segments), "1\n00:00:02,000 --> 00:00:03,000\na\n\n");
  EXPECT_EQ(written(TranscriptFormat::kTxt, segments), "a\n");
  EXPECT_EQ(json::parse(written(TranscriptFormat::kJson, segments))["segments"].size(), 3u);
}

TEST(Writers, EscapeMarkup) {
  const Segment hostile =
      said(0, 1, " a\n\n2\n00:00:09,000 --> 00:00:10,000\r\nb\tc ---> <i>&\x01 ");
  EXPECT_EQ(written(TranscriptFormat::kSrt, {hostile}),
            "1\n00:00:00,000 --> 00:00:01,000\na  2 00:00:09,000 -> 00:00:10,000  b c -> <i>&\n\n");
  EXPECT_THAT(written(TranscriptFormat::kVtt, {hostile}), HasSubstr("b c -> &lt;i>&amp;\n\n"));
  EXPECT_EQ(written(TranscriptFormat::kTxt, {hostile}),
            "a  2 00:00:09,000 --> 00:00:10,000  b c ---> <i>&\n");
  EXPECT_EQ(written(TranscriptFormat::kTsv, {said(0, 1,
                                                  "a\tb\xE2\x80\xA8"
                                                  "c")}),
            "start\tend\ttext\n0\t1000\ta b c\n");
  EXPECT_EQ(json::parse(written(TranscriptFormat::kJson, {hostile}))["text"], hostile.text);
}

// The expected strings are what Python 3.11 gives for bytes.decode("utf-8", "replace").
TEST(ValidUtf8, ReplacesEachMaximalInvalidPart) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8("plain"), "plain");
  EXPECT_EQ(valid_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(valid_utf8("a\xE2\x82"), "a" + bad);
  EXPECT_EQ(valid_utf8("\xE2\x82"
                       "a"),
            bad + "a");
  EXPECT_EQ(valid_utf8("\x80\xBF"), bad + bad);
  EXPECT_EQ(valid_utf8("\xC0\xAF"), bad + bad);
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), bad + bad + bad);
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98"), bad);
  EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(valid_utf8("\xF5\xFF"), bad + bad);
  EXPECT_EQ(valid_utf8("\xE2\xC3\xA9"), bad + "\xC3\xA9");
}

// nlohmann::json throws on invalid UTF-8 in both directions: an independent judge.
TEST(Writers, GiveValidUtf8ForAnyBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Segment> segments;
    for (int s = 0; s < 3; ++s) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += static_cast<char>(random() % 256);
      segments.push_back(said(s, s + 1, text));
      segments.back().language = text.substr(0, 3);
    }
    for (TranscriptFormat format : parse_formats("all")) {
      const std::string out = written(format, segments);
      ASSERT_NO_THROW(json(out).dump()) << format_name(format);
      if (format == TranscriptFormat::kJson) {
        ASSERT_TRUE(json::accept(out));
      }
    }
  }
}

// Three bytes of one character, the first at the end of a segment: the whole text has it intact.
TEST(Writers, JoinCharactersSplitBetweenSegments) {
  const auto segments = {said(0, 1, "\xE2"), said(1, 2, "\x82\xAC")};
  EXPECT_EQ(json::parse(written(TranscriptFormat::kJson, segments))["text"], "\xE2\x82\xAC");
}

TEST(ParseFormats, ReadsListsAndAll) {
  EXPECT_THAT(parse_formats("srt,txt,srt"),
              testing::ElementsAre(TranscriptFormat::kSrt, TranscriptFormat::kTxt));
  EXPECT_EQ(parse_formats("all").size(), 8u);
  EXPECT_EQ(parse_formats("json,all").front(), TranscriptFormat::kJson);
}

TEST(ParseFormats, RefusesUnknownFormats) {
  for (const char* list : {"", "srt,", ",srt", "SRT", "docx", "srt vtt"}) {
    try {
      parse_formats(list);
      ADD_FAILURE() << "took \"" << list << "\"";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("txt, srt"));
    }
  }
}

}  // namespace
}  // namespace vesper::writers_test
