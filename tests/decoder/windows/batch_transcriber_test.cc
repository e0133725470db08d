// Speech segments of one recording decoded together.
#include "decoder/windows/batch_transcriber.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/decoder/windows/batch_fixture.h"

namespace vesper::batch_transcriber_test {
namespace {

TEST_F(BatchTranscriber, ASegmentDoesNotDependOnItsBatch) {
  expect_independent(Compute::kF32);
  expect_independent(Compute::kAuto);
}

TEST_F(BatchTranscriber, ASegmentDoesNotDependOnItsBatchWithBeams) {
  settings_.beam_size = 3;
  expect_independent(Compute::kAuto);
  expect_independent(Compute::kAuto, KvTypes(DType::kQ8_0, DType::kQ4_0));
}

TEST_F(BatchTranscriber, ASampledSegmentDoesNotDependOnItsBatch) {
  settings_.temperatures = {0.8};
  settings_.best_of = 2;
  settings_.seed = 5;
  expect_independent(Compute::kF32);
  WhisperModel model = load(3);
  const Transcript once = transcribe(model, speech_segments_);
  settings_.seed = 6;
  EXPECT_NE(transcribe(model, speech_segments_).segments[0].tokens, once.segments[0].tokens);
}

TEST_F(BatchTranscriber, AFailedWindowIsDecodedAgainAlone) {
  settings_.policy = WindowPolicy::reference();  // which keeps the last attempt
  settings_.logprob_threshold = 0;               // every attempt fails
  settings_.temperatures = {0, 0.5, 1};
  settings_.best_of = 2;
  expect_independent(Compute::kF32);
  WhisperModel model = load(3);
  for (const Segment& segment : transcribe(model, speech_segments_).segments) {
    EXPECT_EQ(segment.temperature, 1);
  }
}

TEST_F(BatchTranscriber, ASegmentEqualsARecordingOfItsOwn) {
  WhisperModel batch = load(3), sequential = load(1);
  const Transcript together = transcribe(batch, speech_segments_);
  for (const SpeechSegment& span : speech_segments_) {
    DecodingSettings clip = settings_;
    clip.clip_timestamps = {static_cast<double>(span.begin) / 100,
                            static_cast<double>(span.end) / 100};
    const Transcript alone = transcribe_recording(sequential, mel_, clip, {}, {});
    const std::vector<Segment> found = within(together, span);
    ASSERT_EQ(found.size(), alone.segments.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].tokens, alone.segments[i].tokens);
    }
  }
}

TEST_F(BatchTranscriber, SegmentsAreOrderedWithIncreasingIds) {
  WhisperModel model = load(2);
  std::vector<Segment> handed_on;
  double last_done_s = 0;
  const Transcript transcript = transcribe_segments(
      model, mel_, speech_segments_, settings_,
      [&](const Segment& segment) { handed_on.push_back(segment); },
      [&](double done_s, double total_s) {
        EXPECT_GE(done_s, last_done_s);
        EXPECT_LE(done_s, total_s);
        last_done_s = done_s;
      });
  EXPECT_EQ(last_done_s, transcript.duration_s);
  ASSERT_EQ(handed_on.size(), transcript.segments.size());
  for (size_t i = 0; i < handed_on.size(); ++i) {
    EXPECT_EQ(handed_on[i].id, static_cast<int>(i));
    if (i > 0) {
      EXPECT_GE(handed_on[i].seek, handed_on[i - 1].seek);
    }
  }
}

TEST_F(BatchTranscriber, AWindowDoesNotEndBeforeItsSpeech) {
  draw_in_longer_windows();
  settings_.max_new_tokens = 75;
  WhisperModel model = load(3);
  settings_.suppress_tokens = all_but_little(model.tokens(), 1);
  constexpr uint64_t kSpeechEnd = 790;
  // Start of the second window.
  const auto end_of_first_window = [&](uint32_t seed, uint64_t speech_end) {
    settings_.seed = seed;
    const std::vector<SpeechSegment> segments = {{0, 800, speech_end}};
    double first_s = 0;
    transcribe_segments(model, mel_, segments, settings_, {}, [&](double done_s, double total_s) {
      const double at_s = done_s - (total_s - 8);
      if (first_s == 0 && at_s > 0) first_s = at_s;
    });
    return first_s;
  };
  // Up to a second of the speech may be missing.
  constexpr double kEarliest_s = static_cast<double>(kSpeechEnd - 100) / 100;
  // Except for loops, which are decoded again, alone and without the rule.
  int n_early = 0, n_early_nevertheless = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    n_early += end_of_first_window(seed, 0) < kEarliest_s;
    n_early_nevertheless += end_of_first_window(seed, kSpeechEnd) < kEarliest_s;
  }
  EXPECT_GE(n_early, n_early_nevertheless + 3) << n_early_nevertheless;
}

TEST_F(BatchTranscriber, WindowsThatAreEncodedTogetherHaveTheSameText) {
  WhisperModel one = load(3);
  for (const bool fails : {false, true}) {
    if (fails) {  // all attempts of every window
      settings_.temperatures = {0, 0.5};
      settings_.best_of = 1;
      settings_.logprob_threshold = 0;
    }
    const Transcript expected = transcribe(one, speech_segments_);
    for (const uint32_t n_encoded : {2u, 4u}) {
      SCOPED_TRACE(n_encoded);
      auto owned =
          std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
      ObservedDevice& device = *owned;
      WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 3,
                         most_candidates(settings_), n_encoded);
      device.set_clock(Clock::kPerStage);
      const Transcript found = transcribe(model, speech_segments_);
      expect_equal(found.segments, expected.segments);
      // Programs of the encoder: for 1, 2, ... windows.
      std::vector<uint64_t> n_runs;
      for (ProgramId id = 0; id < device.programs().size(); ++id) {
        if (device.programs()[id].labels().front() == "encoder.conv1")
          n_runs.push_back(device.replay_times(id).n_runs);
      }
      ASSERT_EQ(n_runs.size(), n_encoded);
      EXPECT_GT(n_runs.back(), 0u);
    }
  }
}

TEST_F(BatchTranscriber, FailedWindowsAreEncodedOnceAndDecodedTogether) {
  auto owned = std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
  ObservedDevice& device = *owned;
  settings_.temperatures = {0, 0.5};
  settings_.best_of = 1;
  WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 3,
                     most_candidates(settings_));
  device.set_clock(Clock::kPerStage);
  // Runs of steps of n sequences.
  const auto n_steps = [&](uint32_t n_sequences) {
    uint64_t n = 0;
    for (ProgramId id = 0; id < device.programs().size(); ++id) {
      const DispatchTable& table = device.programs()[id];
      if (table.labels().back() != "sample_token") continue;
      const auto& params = table.commands().back().params_as<SamplingParams>();
      if (params.n_sequences == n_sequences) n += device.replay_times(id).n_runs;
    }
    return n;
  };
  const std::vector<SpeechSegment> of_one_window = {{0, 90}, {100, 190}, {200, 290}};
  const Transcript passed = transcribe(model, of_one_window);
  const uint64_t n_windows = encoder_runs(device), n_first = n_steps(3);
  EXPECT_GE(n_windows, of_one_window.size());
  settings_.logprob_threshold = 0;
  transcribe(model, of_one_window);
  EXPECT_GT(n_steps(3), 2 * n_first);
  settings_.temperatures = {0};
  const uint64_t before = encoder_runs(device);
  expect_equal(transcribe(model, of_one_window).segments, passed.segments);
  EXPECT_EQ(encoder_runs(device) - before, n_windows);
}

TEST_F(BatchTranscriber, AttemptsAtOnceHaveTheResultOfOneAfterTheOther) {
  // A CPU that makes several attempts at once, as a GPU does.
  struct Eager : ObservedDevice {
    Eager() : ObservedDevice(open_device("cpu", {}), Mode::kRun), info_(ObservedDevice::info()) {
      info_.policy.sequences_are_cheap = true;
    }
    const DeviceInfo& info() const override { return info_; }
    DeviceInfo info_;
  };
  settings_.temperatures = {0, 0.2, 0.4, 0.6, 0.8, 1};
  settings_.best_of = 2;
  std::set<double> temperatures;
  for (const double threshold : {-2.4, -2.05, -1.95, 0.0}) {
    settings_.logprob_threshold = threshold;
    std::vector<Transcript> found;
    std::array<size_t, 2> n_rounds{};
    for (const bool is_eager : {false, true}) {
      WhisperModel model(folder_.path(),
                         is_eager ? std::make_unique<Eager>() : open_device("cpu", {}),
                         Compute::kF32, 16, most_candidates(settings_));
      bool is_given = false;
      transcribe_batch(model, settings_,
                       [&]() -> std::optional<BatchRecording> {
                         if (std::exchange(is_given, true)) return std::nullopt;
                         return recording(speech_segments_, [&](const Transcript& transcript) {
                           found.push_back(transcript);
                         });
                       },
                       {.on_round = [&](uint32_t) { ++n_rounds[is_eager]; }});
    }
    EXPECT_LT(n_rounds[1], n_rounds[0]);
    expect_equal(found[1].segments, found[0].segments);
    for (const Segment& segment : found[0].segments) temperatures.insert(segment.temperature);
  }
  EXPECT_GE(temperatures.size(), 3u);
}

TEST_F(BatchTranscriber, WordsThatAreAlignedTogetherHaveTheSameTimes) {
  settings_.word_timestamps = true;
  WhisperModel one = load(3);
  const Transcript expected = transcribe(one, speech_segments_);
  ASSERT_TRUE(std::ranges::any_of(expected.segments,
                                  [](const Segment& segment) { return segment.words.size() > 1; }));
  auto owned = std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
  ObservedDevice& device = *owned;
  WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 3, most_candidates(settings_),
                     4);
  device.set_clock(Clock::kPerStage);
  const Transcript found = transcribe(model, speech_segments_);
  expect_equal(found.segments, expected.segments);
  // Rows of several windows: more than the text of one.
  uint64_t n_together = 0;
  for (ProgramId id = 0; id < device.programs().size(); ++id) {
    const auto& labels = device.programs()[id].labels();
    if (labels.back() != "align.probabilities") continue;
    const auto& first = device.programs()[id].commands().front();
    const uint32_t n_rows = first.params_as<EmbedParams>().n_rows;
    if (n_rows > 64) n_together += device.replay_times(id).n_runs;
  }
  EXPECT_GT(n_together, 0u);
}

TEST_F(BatchTranscriber, AWindowThatEndsTooLateIsDecodedAgain) {
  draw_in_longer_windows();
  auto owned = std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
  ObservedDevice& device = *owned;
  WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 3,
                     most_candidates(settings_));
  device.set_clock(Clock::kPerStage);
  settings_.suppress_tokens = all_but_little(model.tokens(), 40);
  struct Found {
    std::vector<Segment> segments;
    uint64_t n_encoded;  // windows
  };
  const auto decode = [&](uint64_t speech_end) {
    const uint64_t before = encoder_runs(device);
    Found found{transcribe(model, {{0, 800, speech_end}}).segments, 0};
    found.n_encoded = encoder_runs(device) - before;
    return found;
  };
  // If the text that may end early is more probable than the other one, a threshold between the two
  // makes the window decode again.
  constexpr uint64_t kSpeechEnd = 790;
  const auto least_logprob = [](const Found& found) {
    double least = 0;
    for (const Segment& segment : found.segments) least = std::min(least, segment.avg_logprob);
    return least;
  };
  size_t n_in_place = 0;
  for (settings_.seed = 0; settings_.seed < 40; ++settings_.seed) {
    settings_.logprob_threshold.reset();
    const Found early = decode(0), late = decode(kSpeechEnd);
    if (early.segments.empty() || late.segments.empty() || late.segments[0].seek > 0) continue;
    const double likely = least_logprob(early), unlikely = late.segments[0].avg_logprob;
    if (likely < unlikely + 0.01) continue;
    settings_.logprob_threshold = (likely + unlikely) / 2;
    const Found again = decode(kSpeechEnd);
    ASSERT_FALSE(again.segments.empty());
    EXPECT_EQ(again.segments[0].tokens, early.segments[0].tokens);
    // The numbers differ if a later window, perhaps without text, fails in all attempts.
    n_in_place += again.n_encoded == early.n_encoded;
  }
  EXPECT_GE(n_in_place, 2u);
}

TEST_F(BatchTranscriber, SlotsFillAfterLanguageDetection) {
  // Replays of all programs.
  const auto count_runs = [this](const char* language) {
    settings_.language = language;
    auto owned =
        std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
    ObservedDevice& device = *owned;
    WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 4,
                       most_candidates(settings_));
    std::vector<SpeechSegment> segments;
    for (uint64_t i = 0; i < 8; ++i) segments.push_back({100 * i, 100 * (i + 1)});
    device.set_clock(Clock::kPerStage);
    transcribe(model, segments);
    uint64_t n_runs = 0;
    for (ProgramId id = 0; id < device.programs().size(); ++id) {
      n_runs += device.replay_times(id).n_runs;
    }
    return n_runs;
  };
  // The first window alone, and its language detection.
  settings_.language_detection_threshold = 1.01;
  const uint64_t n_known = count_runs("en"), n_waiting = count_runs("auto");
  EXPECT_LE(n_waiting, n_known + *settings_.max_new_tokens + 5);
  // If the model is sure of the language, the others do not wait for the end of that window.
  settings_.language_detection_threshold = 0;
  EXPECT_LE(count_runs("auto"), n_known + 5);
  EXPECT_GE(n_waiting, n_known + *settings_.max_new_tokens / 2) << n_known;
}

TEST_F(BatchTranscriber, AGuessedLanguageChangesNothing) {
  // A second of noise, then tones: the model detects another language and a higher speech
  // probability in the tones.
  MelSpectrogram mel(80);
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0.0f, 0.5f);
  std::vector<float> samples(16000 * 9);
  for (size_t i = 0; i < samples.size(); ++i) {
    const float pitch = 0.03f * static_cast<float>(1 + i / 16000);
    samples[i] = i < 16000 ? noise(random) : 0.5f * std::sin(pitch * static_cast<float>(i));
  }
  mel.push(samples.data(), samples.size());
  mel.finish();
  std::vector<SpeechSegment> segments;
  for (uint64_t i = 0; i < 9; ++i) segments.push_back({100 * i, 100 * (i + 1)});
  settings_.language = "auto";
  settings_.policy =
      WindowPolicy::reference();  // a window is silent only by its no-speech probability
  WhisperModel model = load(4);
  const auto transcribed = [&](bool guesses) {
    settings_.language_detection_threshold = guesses ? 0 : 1.01;
    return transcribe_segments(model, mel, segments, settings_, {}, {});
  };
  std::set<std::string> languages;
  for (const bool first_is_silent : {false, true}) {
    SCOPED_TRACE(first_is_silent ? "the first is silent" : "none is silent");
    if (first_is_silent) settings_.no_speech_threshold = 2.8e-6;
    const Transcript waited = transcribed(false), guessed = transcribed(true);
    ASSERT_EQ(waited.segments.front().seek, first_is_silent ? 100 : 0);
    EXPECT_EQ(guessed.language, waited.language);
    EXPECT_EQ(guessed.language_probability, waited.language_probability);
    expect_equal(guessed.segments, waited.segments);
    for (const Segment& segment : guessed.segments) EXPECT_EQ(segment.language, waited.language);
    languages.insert(waited.language);
  }
  EXPECT_EQ(languages.size(), 2u);
}

}  // namespace
}  // namespace vesper::batch_transcriber_test
