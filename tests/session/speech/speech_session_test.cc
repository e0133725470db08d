// A SpeechSession with a real model and a real recording.
#include "session/speech/speech_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "error/error.h"
#include "tests/fetched_model.h"

namespace vesper::speech_session_test {
namespace {

constexpr char kRecording[] =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0930.wav";

class SpeechSessions : public testing::Test {
 protected:
  void SetUp() override {
    session_ = std::make_unique<SpeechSession>(fetched_model("tiny.en"),
                                               SpeechSessionOptions{.device = "cpu"});
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

TEST_F(SpeechSessions, TranscribePushedSamplesAsTheFile) {
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

TEST_F(SpeechSessions, CaptionTheSameForAnyBlockSize) {
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

TEST_F(SpeechSessions, CanBeCancelledAndUsedAgain) {
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
  EXPECT_EQ(usage_error(options), "vad: expected a VAD model to be loaded, found none");
  options = {};
  options.decoding.temperatures = {};
  EXPECT_THAT(usage_error(options), testing::StartsWith("temperature: expected"));
}

TEST_F(SpeechSessions, CaptionAStreamWordByWord) {
  const std::vector<float> samples = read_samples(kRecording);
  std::string final_text, last_partial, segments;
  double last_received_s = 0, last_end_s = 0;
  SpeechEvents events;
  events.on_final = [&](std::span<const CaptionWord> words, double received_s) {
    for (const CaptionWord& word : words) {
      final_text += word.text;
      EXPECT_LE(word.start_s, word.end_s);
      EXPECT_GE(word.end_s, last_end_s);
      last_end_s = word.end_s;
    }
    EXPECT_GE(received_s, last_received_s);
    last_received_s = received_s;
  };
  events.on_partial = [&](std::span<const CaptionWord> words, double) {
    for (const CaptionWord& word : words) last_partial += word.text;
  };
  events.on_segment = [&](const Segment& segment) { segments += segment.text; };
  SpeechStream stream = session_->open_stream({}, {}, events, 0.5);
  stream.push(samples);
  EXPECT_FALSE(last_partial.empty()) << "words before the stream has ended";
  const Transcript transcript = stream.finish();
  EXPECT_EQ(final_text, " He might even have been made amiable himself.");
  EXPECT_EQ(segments, final_text);
  ASSERT_EQ(transcript.segments.size(), 1u);
  EXPECT_EQ(transcript.segments[0].text, final_text);
  EXPECT_NEAR(transcript.duration_s, static_cast<double>(samples.size()) / 16000, 0.01);
}

// Two sentences in a minute of silence: from 10 s and from 40 s on.
class SpeechInSilence : public SpeechSessions {
 protected:
  void SetUp() override {
    session_ = std::make_unique<SpeechSession>(
        fetched_model("tiny.en"),
        SpeechSessionOptions{
            .device = "cpu", .batch_size = 4, .vad_model = fetched_model("silero-vad")});
    const std::vector<float> sentence = read_samples(kRecording);
    samples_.resize(size_t{60} * 16000);
    for (const size_t second : {10, 40}) {
      std::copy(sentence.begin(), sentence.end(), samples_.begin() + second * 16000);
    }
    options_.vad.emplace();
  }

  AudioInput input() const { return {.samples = PcmSamples{samples_}}; }

  static void expect_both_sentences(const Transcript& transcript) {
    ASSERT_EQ(transcript.segments.size(), 2u);
    EXPECT_NEAR(transcript.segments[0].start_s, 10, 0.6);
    EXPECT_NEAR(transcript.segments[1].start_s, 40, 0.6);
    for (const Segment& segment : transcript.segments) {
      EXPECT_EQ(segment.text, " He might even have been made amiable himself.");
      EXPECT_NEAR(segment.end_s - segment.start_s, 2.6, 1.0);
    }
    EXPECT_DOUBLE_EQ(transcript.duration_s, 60);
  }

  std::vector<float> samples_;
  SpeechOptions options_;
};

TEST_F(SpeechInSilence, HasTimesOfTheRecordingInBatches) {
  std::vector<double> progress;
  SpeechEvents events;
  events.on_progress = [&](double done_s, double total_s) {
    EXPECT_DOUBLE_EQ(total_s, 60);
    progress.push_back(done_s);
  };
  expect_both_sentences(session_->transcribe(input(), options_, events));
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  options_.decoding.word_timestamps = true;
  const Transcript transcript = session_->transcribe(input(), options_);
  expect_both_sentences(transcript);
  for (const Segment& segment : transcript.segments) {
    ASSERT_EQ(segment.words.size(), 8u);
    EXPECT_EQ(segment.words.front().start_s, segment.start_s);
    EXPECT_EQ(segment.words.back().end_s, segment.end_s);
  }
}

TEST_F(SpeechInSilence, LosesOnlyTheCancelledRecordingOfABatch) {
  std::string log;
  int i = 0;
  const auto next = [&]() -> std::optional<SpeechJob> {
    if (i == 3) return std::nullopt;
    const std::string name = std::to_string(i);
    SpeechJob job{.input = input()};
    // Cancelled after its first segment, while it is decoded with others.
    auto has_segment = std::make_shared<bool>(false);
    job.events.on_segment = [has_segment](const Segment&) { *has_segment = true; };
    if (i == 1) job.events.is_cancelled = [has_segment] { return *has_segment; };
    ++i;
    job.on_start = [&, name] { log += name + " starts\n"; };
    job.on_done = [&, name](const Transcript& transcript) {
      expect_both_sentences(transcript);
      log += name + " done\n";
    };
    job.on_failure = [&, name](const std::exception& error) {
      EXPECT_EQ(dynamic_cast<const Error&>(error).kind(), ErrorKind::kStopped);
      log += name + " stopped\n";
    };
    return job;
  };
  session_->transcribe_many(next, options_);
  EXPECT_EQ(log, "0 starts\n0 done\n1 starts\n1 stopped\n2 starts\n2 done\n");
}

}  // namespace
}  // namespace vesper::speech_session_test
