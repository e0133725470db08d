// A SpeechSession with a tiny Whisper of random weights: where the sound comes from, what becomes
// of its channels, and which settings are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "error/error.h"
#include "session/speech/speech_session.h"
#include "tests/audio/made_recordings.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::tiny_speech_session_test {
namespace {

using testing::StartsWith;

class TinySpeechSession : public testing::Test {
 protected:
  TinySpeechSession() {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), folder_.path());
    options_.decoding.language = "en";
    options_.decoding.max_new_tokens = 12;
    options_.decoding.temperatures = {0};
    options_.decoding.beam_size = 1;
    options_.decoding.no_speech_threshold.reset();
    options_.decoding.logprob_threshold.reset();
    options_.decoding.compression_ratio_threshold.reset();
    options_.decoding.policy = WindowPolicy::reference();
  }

  SpeechSession session() const {
    return SpeechSession(folder_.path(), {.device = "cpu", .threads = 1, .max_candidates = 1});
  }

  // Two seconds of two channels, each with a noise of its own.
  std::string stereo() const {
    const std::vector<float> left = noise(0.3f, 32000, 1), right = noise(0.1f, 32000, 2);
    std::vector<float> interleaved;
    for (size_t i = 0; i < left.size(); ++i) {
      interleaved.push_back(left[i]);
      interleaved.push_back(right[i]);
    }
    const std::string path = folder_.file("stereo.wav");
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 2, 16000, interleaved);
    return path;
  }

  static std::vector<int32_t> tokens_of(const Transcript& transcript, int channel = 0) {
    std::vector<int32_t> tokens;
    for (const Segment& segment : transcript.segments) {
      if (channel != 0 && segment.channel != channel) continue;
      tokens.insert(tokens.end(), segment.tokens.begin(), segment.tokens.end());
    }
    return tokens;
  }

  TemporaryFolder folder_;
  SpeechOptions options_;
};

// The message of what `body` throws, which is an Error of this kind.
std::string error_of(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_F(TinySpeechSession, GivesTheSameForEachKindOfInput) {
  SpeechSession session = this->session();
  const std::string path = stereo();
  const std::vector<int32_t> expected = tokens_of(session.transcribe({.path = path}, options_));
  ASSERT_FALSE(expected.empty());
  const std::string bytes = bytes_of(path);
  PipeOf pipe(bytes, 1000);
  EXPECT_EQ(tokens_of(session.transcribe({.descriptor = pipe.fd()}, options_)), expected);

  PipeOf input(bytes, 1000);
  const int saved = dup(STDIN_FILENO);
  ASSERT_GE(dup2(input.fd(), STDIN_FILENO), 0);
  EXPECT_EQ(tokens_of(session.transcribe({.path = "-"}, options_)), expected);
  dup2(saved, STDIN_FILENO);
  close(saved);
}

TEST_F(TinySpeechSession, TranscribesEachChannelAsAlone) {
  SpeechSession session = this->session();
  const std::string path = stereo();
  options_.channels = Channels::kSplit;
  const Transcript split = session.transcribe({.path = path}, options_);
  options_.channels = Channels::kMix;
  for (const int channel : {0, 1}) {
    AudioInput input{.path = path};
    input.reader.channel = channel;
    const std::vector<int32_t> alone = tokens_of(session.transcribe(input, options_));
    EXPECT_FALSE(alone.empty());
    EXPECT_EQ(tokens_of(split, channel + 1), alone) << channel;
  }
}

TEST_F(TinySpeechSession, LabelsSpeakersByTheLouderChannel) {
  SpeechSession session = this->session();
  const std::string path = stereo();
  const std::vector<int32_t> mixed = tokens_of(session.transcribe({.path = path}, options_));
  options_.channels = Channels::kDiarize;
  const Transcript labelled = session.transcribe({.path = path}, options_);
  EXPECT_EQ(tokens_of(labelled), mixed);
  for (const Segment& segment : labelled.segments) {
    EXPECT_EQ(segment.speaker, segment.start_s < segment.end_s ? "0" : "?");
  }
}

TEST_F(TinySpeechSession, ContinuesWhenOneRecordingIsCancelledOrFails) {
  SpeechSession session = this->session();
  const std::string path = stereo();
  const std::vector<int32_t> expected = tokens_of(session.transcribe({.path = path}, options_));
  std::string log;
  size_t i = 0;
  const auto next = [&]() -> std::optional<SpeechJob> {
    if (i == 4) return std::nullopt;
    const std::string name = std::to_string(i);
    log += name + " asked\n";
    SpeechJob job{.input = {.path = i == 2 ? "missing.wav" : path}};
    if (i == 1) job.events.is_cancelled = [] { return true; };
    ++i;
    job.on_done = [&, name](const Transcript& transcript) {
      EXPECT_EQ(tokens_of(transcript), expected);
      log += name + " done\n";
    };
    job.on_failure = [&, name](const std::exception& error) {
      const auto& ours = dynamic_cast<const Error&>(error);
      log += name + (ours.kind() == ErrorKind::kStopped ? " stopped\n" : " failed\n");
    };
    return job;
  };
  session.transcribe_many(next, options_);
  // Recording 1 is asked for, and read, while 0 is decoded.
  EXPECT_EQ(log, "0 asked\n1 asked\n0 done\n1 stopped\n2 asked\n2 failed\n3 asked\n3 done\n");
}

TEST_F(TinySpeechSession, TellsTheDetectedLanguageOnceBeforeTheFirstSegment) {
  SpeechSession session = this->session();
  const std::string path = folder_.file("five_windows.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 16000, noise(0.3f, 80000, 1));
  options_.decoding.language = "auto";
  options_.decoding.without_timestamps = true;  // each window is a segment
  std::vector<std::string> told;
  SpeechEvents events;
  events.on_language = [&](const std::string& language, double probability) {
    told.push_back(language + " " + std::to_string(probability));
  };
  events.on_segment = [&](const Segment& segment) {
    told.push_back("segment " + std::to_string(segment.id));
  };
  const auto expect_told = [&](const Transcript& transcript) {
    ASSERT_GT(transcript.segments.size(), 1u);
    std::vector<std::string> expected = {transcript.language + " " +
                                         std::to_string(transcript.language_probability)};
    for (size_t i = 0; i < transcript.segments.size(); ++i) {
      expected.push_back("segment " + std::to_string(i));
    }
    EXPECT_EQ(told, expected);
    EXPECT_LT(transcript.language_probability, 1);
    told.clear();
  };
  expect_told(session.transcribe({.path = path}, options_, events));
  bool is_given = false;
  session.transcribe_many(
      [&]() -> std::optional<SpeechJob> {
        if (std::exchange(is_given, true)) return std::nullopt;
        return SpeechJob{.input = {.path = path}, .events = events, .on_done = expect_told};
      },
      options_);
  EXPECT_TRUE(told.empty());
  const std::vector<float> samples = noise(0.3f, 80000, 1);
  for (const std::optional<double> step_s : {std::optional<double>(), std::optional(0.5)}) {
    SpeechStream stream =
        session.open_stream({.sample_rate_hz = 16000, .channels = 1}, options_, events, step_s);
    stream.push(samples);
    expect_told(stream.finish());
  }
}

TEST_F(TinySpeechSession, RefusesStreamsWithoutAFormat) {
  SpeechSession session = this->session();
  const auto open = [&](PcmFormat format, std::optional<double> step_s = {}) {
    return error_of(ErrorKind::kUsage, [&] { session.open_stream(format, options_, {}, step_s); });
  };
  EXPECT_THAT(open({.sample_rate_hz = 999}), StartsWith("sample rate hz: expected"));
  EXPECT_THAT(open({.channels = 0}), StartsWith("channels: expected"));
  EXPECT_EQ(open({}, 0.1), "stream step: expected 0.2 to 20, found 0.1");
  SpeechStream stream = session.open_stream({.channels = 2}, options_);
  const std::vector<float> odd(3);
  EXPECT_THAT(error_of(ErrorKind::kInput, [&] { stream.push(odd); }), StartsWith("samples:"));
}

TEST_F(TinySpeechSession, RefusesSessionSettingsOutOfBounds) {
  const auto open = [&](const SpeechSessionOptions& options) {
    return error_of(ErrorKind::kUsage, [&] { SpeechSession(folder_.path(), options); });
  };
  EXPECT_EQ(open({.threads = 1025}), "threads: expected 1 to 1024, found 1025");
  EXPECT_EQ(open({.batch_size = 0}), "batch size: expected 1 to 64, found 0");
  EXPECT_EQ(open({.max_candidates = 65}), "max candidates: expected 1 to 64, found 65");
  EXPECT_THAT(open({.device = "abacus"}), StartsWith("device: expected"));
}

TEST(CheckOptions, NamesSettingBoundsAndValue) {
  const auto error = [](const std::function<void(SpeechOptions&)>& change,
                        SpeechTask task = SpeechTask::kTranscribe) {
    SpeechOptions options;
    change(options);
    return error_of(ErrorKind::kUsage, [&] { check_options(options, task); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error([](auto& o) { o.decoding.beam_size = 17; }),
            "beam size: expected 1 to 16, found 17");
  EXPECT_EQ(error([](auto& o) { o.decoding.best_of = 0; }), "best of: expected 1 to 64, found 0");
  EXPECT_EQ(error([&](auto& o) {
              o.decoding.temperatures = {0, nan};
            }),
            "temperature: expected 0 to 100, found nan");
  EXPECT_EQ(error([](auto& o) { o.decoding.length_penalty = 1.5; }),
            "length penalty: expected 0 to 1, found 1.5");
  EXPECT_EQ(error([](auto& o) { o.decoding.patience = 0.1, o.decoding.beam_size = 2; }),
            "patience: expected more: with 2 beams no text would ever end the search");
  EXPECT_EQ(error([](auto& o) {
              o.decoding.clip_timestamps = {1, 3, 2};
            }),
            "clip timestamps: expected rising seconds");
  EXPECT_EQ(error([](auto& o) { o.decoding.max_initial_timestamp_s = 31; }),
            "max initial timestamp: expected 0 to 30, found 31");
  EXPECT_EQ(error([](auto& o) { o.decoding.max_segment_length = 20; }),
            "max segment length: expected word timestamps");
  EXPECT_EQ(error([](auto& o) { o.vad.emplace().max_speech_duration_s = 0.5; }),
            "vad max speech s: expected 1 or more, found 0.5");
  EXPECT_EQ(error([](auto& o) { o.decoding.language = "fr", o.decoding.multilingual = true; }),
            "multilingual: expected no language, found fr");
  EXPECT_EQ(error([](auto& o) { o.vad.emplace(); }, SpeechTask::kLiveCaptions),
            "vad: expected not to be set in live captions");
  EXPECT_EQ(error([](auto& o) { o.decoding.word_timestamps = true; }, SpeechTask::kLiveCaptions),
            "word timestamps: expected not to be set in live captions");
  EXPECT_EQ(error([](auto& o) { o.decoding.language = "fr"; }, SpeechTask::kDetectLanguage),
            "language: expected not to be set where it is to be detected");
  EXPECT_EQ(error([](auto& o) { o.channels = Channels::kDiarize; }, SpeechTask::kDetectLanguage),
            "diarize: expected not to be set where the language is to be detected");
}

}  // namespace
}  // namespace vesper::tiny_speech_session_test
