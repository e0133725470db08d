// A SpeechSession with a real model and a real recording.
#include "session/speech_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "error/error.h"
#include "session/model_store.h"

namespace vesper::speech_session_test {
namespace {

constexpr char kRecording[] =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0930.wav";

class SpeechSessions : public testing::Test {
 protected:
  void SetUp() override {
    try {
      session_ = std::make_unique<SpeechSession>(ModelStore({.offline = true}).find("tiny.en"),
                                                 SpeechSessionOptions{.device = "cpu"});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::string usage_error(const SpeechOptions& options) {
    try {
      session_->transcribe({.path = kRecording}, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  }

  std::unique_ptr<SpeechSession> session_;
};

TEST(SpeechOptions, HaveTheDefaultsOfOpenaiWhisper) {
  const SpeechOptions options;
  EXPECT_EQ(options.decoding.beam_size, 5u);
  EXPECT_EQ(options.decoding.best_of, 5u);
  EXPECT_EQ(options.decoding.temperatures.size(), 6u);
  EXPECT_FALSE(options.vad);
  EXPECT_EQ(SpeechSessionOptions().max_candidates, most_candidates(options.decoding));
}

TEST_F(SpeechSessions, HearTheSameInPiecesOfSamplesAsInTheFile) {
  const Transcript file = session_->transcribe({.path = kRecording});
  const std::vector<float> samples = read_samples(kRecording);
  for (const size_t piece : {size_t{777}, samples.size()}) {
    SpeechStream stream = session_->open_stream({});
    for (size_t at = 0; at < samples.size(); at += piece) {
      stream.push(std::span(samples).subspan(at, std::min(piece, samples.size() - at)));
    }
    const Transcript pieces = stream.finish();
    ASSERT_EQ(pieces.segments.size(), file.segments.size());
    for (size_t i = 0; i < file.segments.size(); ++i) {
      EXPECT_EQ(pieces.segments[i].text, file.segments[i].text);
      EXPECT_EQ(pieces.segments[i].tokens, file.segments[i].tokens);
      EXPECT_EQ(pieces.segments[i].end_s, file.segments[i].end_s);
      EXPECT_EQ(pieces.segments[i].avg_logprob, file.segments[i].avg_logprob);
    }
  }
}

TEST_F(SpeechSessions, CaptionTheSameInPiecesOfAnySize) {
  std::vector<float> samples = read_samples(kRecording);
  samples.insert(samples.end(), samples.begin(), samples.end());
  SpeechOptions options;
  options.decoding.beam_size = 1;
  std::vector<std::string> captions;
  std::vector<std::vector<int32_t>> tokens;
  for (const size_t piece : {size_t{777}, size_t{20000}, samples.size()}) {
    SpeechEvents events;
    std::string& said = captions.emplace_back();
    events.on_final = [&](std::span<const CaptionWord> words, double received_s) {
      for (const CaptionWord& word : words) said += word.text;
      said += "@" + std::to_string(received_s);
    };
    SpeechStream stream = session_->open_stream({}, options, events, 1.0);
    for (size_t at = 0; at < samples.size(); at += piece) {
      stream.push(std::span(samples).subspan(at, std::min(piece, samples.size() - at)));
    }
    std::vector<int32_t>& heard = tokens.emplace_back();
    for (const Segment& segment : stream.finish().segments) {
      heard.insert(heard.end(), segment.tokens.begin(), segment.tokens.end());
    }
    EXPECT_FALSE(heard.empty());
    EXPECT_EQ(captions.back(), captions.front()) << piece;
    EXPECT_EQ(tokens.back(), tokens.front()) << piece;
  }
}

TEST_F(SpeechSessions, StopWhenTheyAreCancelledAndGoOnAfterwards) {
  SpeechEvents events;
  events.is_cancelled = [] { return true; };
  try {
    session_->transcribe({.path = kRecording}, {}, events);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStopped);
    EXPECT_EQ(exit_status(error.kind()), 7);
  }
  EXPECT_EQ(session_->transcribe({.path = kRecording}).segments.size(), 1u);
}

TEST_F(SpeechSessions, NameTheSettingInErrors) {
  SpeechOptions options;
  options.decoding.beam_size = 8;
  EXPECT_THAT(usage_error(options), testing::StartsWith("beam size: expected at most 5"));
  options = {};
  options.vad.emplace();
  EXPECT_EQ(usage_error(options), "vad: expected a VAD model, found none");
  options = {};
  options.decoding.temperatures = {};
  EXPECT_THAT(usage_error(options), testing::StartsWith("temperature: expected"));
}

}  // namespace
}  // namespace vesper::speech_session_test
