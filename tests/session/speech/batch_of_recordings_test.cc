// Several recordings in batches, by a SpeechSession with a tiny Whisper of random weights. On a GPU
// another thread extracts the speech of the next recording while one is decoded.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "error/error.h"
#include "session/speech/speech_session.h"
#include "tests/audio/made_recordings.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/vad/silero_file.h"

namespace vesper::batch_of_recordings_test {
namespace {

class BatchOfRecordings : public testing::TestWithParam<std::string> {
 protected:
  BatchOfRecordings() {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 250;  // a window is 5 s; a speech segment is at most 1 s
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), folder_.path());
    write_silero_of_speech(folder_.file("silero.safetensors"));
    options_.vad = SpeechSettings();
    options_.decoding.language = "en";
    options_.decoding.max_new_tokens = 6;
    options_.decoding.without_timestamps = true;  // a window is a segment
    options_.decoding.temperatures = {0};
    options_.decoding.beam_size = 1;
    options_.decoding.no_speech_threshold.reset();
    options_.decoding.logprob_threshold.reset();
    options_.decoding.compression_ratio_threshold.reset();
    session_ = std::make_unique<SpeechSession>(
        folder_.path(), SpeechSessionOptions{.device = GetParam(),
                                             .threads = 1,
                                             .max_candidates = 1,
                                             .batch_size = 2,
                                             .vad_model = folder_.file("silero.safetensors")});
  }

  // Noise of 1 + `seed` seconds.
  std::string recording(uint32_t seed) {
    const std::string path = folder_.file(std::to_string(seed) + ".wav");
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 16000,
                       noise(0.3f, 16000 + 16000 * seed, seed));
    return path;
  }

  // The length of the recording and where its windows begin. The tokens of random weights would
  // depend on the rounding of products, which differs with the number of rows.
  static std::string windows_of(const Transcript& transcript) {
    std::string windows = std::to_string(transcript.duration_s) + " s:";
    for (const Segment& segment : transcript.segments) {
      windows += " " + std::to_string(segment.seek);
    }
    return windows;
  }

  TemporaryFolder folder_;
  SpeechOptions options_;
  std::unique_ptr<SpeechSession> session_;
};

TEST_P(BatchOfRecordings, HasTheWindowsOfEachAlone) {
  std::vector<std::string> paths;
  for (const uint32_t seed : {1u, 7u, 2u, 12u}) paths.push_back(recording(seed));
  const auto check = [&] {
    std::vector<std::string> expected, found;
    for (const std::string& path : paths) {
      expected.push_back(windows_of(session_->transcribe({.path = path}, options_)));
    }
    EXPECT_NE(expected[0], expected[1]);
    uint32_t most_together = 0;
    size_t i = 0;
    session_->transcribe_many(
        [&]() -> std::optional<SpeechJob> {
          if (i == paths.size()) return std::nullopt;
          SpeechJob job{.input = {.path = paths[i++]}};
          job.on_done = [&](const Transcript& transcript) {
            found.push_back(windows_of(transcript));
          };
          return job;
        },
        options_, {.on_round = [&](uint32_t n_windows) {
          most_together = std::max(most_together, n_windows);
        }});
    EXPECT_EQ(found, expected);
    return most_together;
  };
  EXPECT_EQ(check(), 2u);
  // Whole recordings, of up to three windows; the VAD model decides if speech is in doubt.
  options_.vad.reset();
  EXPECT_EQ(check(), 2u);
  // Without one, recordings are read by another thread, and the batch does not wait for them.
  session_->load_vad({});
  check();
}

// As the requests of a server.
TEST_P(BatchOfRecordings, EachMayHaveOptionsOfItsOwn) {
  const std::string path = recording(6);
  std::vector<SpeechOptions> own(4, options_);
  own[0].decoding.language = "de";
  own[0].decoding.initial_prompt = "a prompt";
  own[1].vad.reset();
  own[2].decoding.language = "nowhere";
  own[3].vad->threshold = 2;
  std::vector<std::string> expected, found(own.size());
  for (const SpeechOptions& each : {own[0], own[1]}) {
    const Transcript alone = session_->transcribe({.path = path}, each);
    expected.push_back(alone.language + " " + windows_of(alone));
  }
  EXPECT_NE(expected[0].substr(3), expected[1].substr(3));
  expected.insert(expected.end(), {"language", "vad threshold"});
  for (const bool in_order : {true, false}) {
    size_t i = 0;
    session_->transcribe_many(
        [&]() -> std::optional<SpeechJob> {
          if (i == own.size()) return std::nullopt;
          std::string& to = found[i];
          SpeechJob job{.input = {.path = path}};
          job.options = std::make_shared<SpeechOptions>(own[i++]);
          job.on_done = [&to](const Transcript& transcript) {
            to = transcript.language + " " + windows_of(transcript);
          };
          job.on_failure = [&to](const std::exception& error) {
            to = dynamic_cast<const Error&>(error).setting();
          };
          return job;
        },
        options_, {.in_order = in_order});
    EXPECT_EQ(found, expected);
  }
}

TEST_P(BatchOfRecordings, ClipsOfARecordingFollowOneAnother) {
  options_.vad.reset();
  options_.decoding.clip_timestamps = {0, 2, 3, 4};
  const std::string path = recording(4);
  const std::string expected = windows_of(session_->transcribe({.path = path}, options_));
  std::vector<std::string> found;
  int n_given = 0;
  session_->transcribe_many(
      [&]() -> std::optional<SpeechJob> {
        if (n_given++ == 2) return std::nullopt;
        SpeechJob job{.input = {.path = path}};
        job.on_done = [&](const Transcript& transcript) {
          found.push_back(windows_of(transcript));
        };
        return job;
      },
      options_);
  EXPECT_EQ(found, (std::vector{expected, expected}));
}

TEST_P(BatchOfRecordings, LosesOnlyRecordingsThatFailOrAreCancelled) {
  std::string log;
  const std::thread::id this_thread = std::this_thread::get_id();
  std::atomic<bool> is_elsewhere = false;
  const std::string path = recording(1);
  int i = 0;
  session_->transcribe_many(
      [&]() -> std::optional<SpeechJob> {
        if (i == 5) return std::nullopt;
        const std::string name = std::to_string(i);
        SpeechJob job{.input = {.path = i == 1 ? folder_.file("missing.wav") : path}};
        job.events.is_cancelled = [&, cancels = i == 3] {
          if (std::this_thread::get_id() != this_thread) is_elsewhere = true;
          return cancels;
        };
        ++i;
        job.on_done = [&, name](const Transcript&) { log += name + " done\n"; };
        job.on_failure = [&, name](const std::exception& error) {
          const auto& ours = dynamic_cast<const Error&>(error);
          log += name + (ours.kind() == ErrorKind::kStopped ? " stopped\n" : " failed\n");
        };
        return job;
      },
      options_);
  EXPECT_EQ(log, "0 done\n1 failed\n2 done\n3 stopped\n4 done\n");
  EXPECT_FALSE(is_elsewhere);
}

TEST_P(BatchOfRecordings, EndInAnyOrderIfThatIsWanted) {
  const std::vector<std::string> paths = {recording(4), recording(1)};
  std::string log;
  size_t i = 0;
  session_->transcribe_many(
      [&]() -> std::optional<SpeechJob> {
        if (i == paths.size()) return std::nullopt;
        const std::string name = std::to_string(i);
        SpeechJob job{.input = {.path = paths[i++]}};
        job.on_start = [&, name] { log += name + " starts\n"; };
        job.on_done = [&, name](const Transcript&) { log += name + " done\n"; };
        return job;
      },
      options_, {.in_order = false});
  EXPECT_EQ(log, "0 starts\n1 starts\n1 done\n0 done\n");
}

// The thread that extracts the next recording must end before the exception leaves the session.
TEST_P(BatchOfRecordings, EndsWithAnExceptionOfACallback) {
  struct Unexpected {};
  const std::string path = recording(1);
  const auto next = [&]() -> std::optional<SpeechJob> {
    SpeechJob job{.input = {.path = path}};
    job.on_done = [](const Transcript&) { throw Unexpected(); };
    return job;
  };
  EXPECT_THROW(session_->transcribe_many(next, options_), Unexpected);
  EXPECT_FALSE(session_->transcribe({.path = path}, options_).segments.empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchOfRecordings, testing::ValuesIn(plain_test_devices()),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace vesper::batch_of_recordings_test
