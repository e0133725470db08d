// Several recordings decoded together: in order, or in turns as in a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/decoder/windows/batch_fixture.h"

namespace vesper::batch_transcriber_test {
namespace {

TEST_F(BatchTranscriber, RecordingsInABatchEqualEachAlone) {
  settings_.beam_size = 2;
  // The third has nothing to decode. More recordings than may be open at once.
  const std::vector<std::vector<SpeechSegment>> few = {
      {{0, 250}, {250, 320}}, {{330, 500}}, {}, {{500, 780}, {780, 900}}, {{100, 150}}};
  std::vector<std::vector<SpeechSegment>> recordings = few;
  while (recordings.size() < 20) recordings.push_back({{600, 610 + 10 * recordings.size() % 140}});
  for (const char* language : {"en", "auto"}) {
    SCOPED_TRACE(language);
    settings_.language = language;
    WhisperModel model = load(3);
    std::vector<Transcript> found;
    std::vector<Segment> segments;  // of the current recording
    size_t n_given = 0, most_open = 0;
    transcribe_batch(model, settings_, [&]() -> std::optional<BatchRecording> {
      if (n_given == recordings.size()) return std::nullopt;
      const size_t recording = n_given++;
      most_open = std::max(most_open, n_given - found.size());
      return BatchRecording{
          .mel = {std::shared_ptr<const void>(), &mel_},
          .parts = recordings[recording],
          .speech = recordings[recording],
          .on_segment =
              [&, recording](const Segment& segment) {
                EXPECT_EQ(found.size(), recording);
                segments.push_back(segment);
              },
          .on_progress = [&, recording](double, double) { EXPECT_EQ(found.size(), recording); },
          .on_end =
              [&, recording](const Transcript& transcript) {
                EXPECT_EQ(found.size(), recording);
                found.push_back(transcript);
                expect_equal(std::exchange(segments, {}), transcript.segments);
              }};
    });
    EXPECT_LE(most_open, 3u * 4 + 1);
    ASSERT_EQ(found.size(), recordings.size());
    for (size_t i = 0; i < recordings.size(); ++i) {
      SCOPED_TRACE("recording " + std::to_string(i));
      const Transcript alone = transcribe(model, recordings[i]);
      EXPECT_EQ(found[i].language, alone.language);
      EXPECT_EQ(found[i].language_probability, alone.language_probability);
      EXPECT_EQ(alone.segments.empty(), recordings[i].empty());
      expect_equal(found[i].segments, alone.segments);
    }
  }
}

TEST_F(BatchTranscriber, TellsHowManyWindowsAreDecodedTogether) {
  for (const uint32_t n_slots : {1u, 3u}) {
    WhisperModel model = load(n_slots);
    std::vector<uint32_t> rounds;
    transcribe_batch(model, settings_, each_of({recording(speech_segments_)}),
                     {.on_round = [&](uint32_t n_windows) { rounds.push_back(n_windows); }});
    ASSERT_FALSE(rounds.empty());
    EXPECT_EQ(rounds.front(), n_slots);
    EXPECT_EQ(std::ranges::max(rounds), n_slots);
    EXPECT_GE(std::ranges::min(rounds), 1u);
  }
}

TEST_F(BatchTranscriber, DoesNotWaitForARecordingWhileAnotherIsDecoded) {
  WhisperModel model = load(2);
  std::vector<uint32_t> rounds;
  size_t n_given = 0;
  constexpr size_t kReadyFrom = 3;  // rounds
  transcribe_batch(model, settings_,
                   [&]() -> std::optional<BatchRecording> {
                     if (n_given == 2) return std::nullopt;
                     if (++n_given == 2) {
                       EXPECT_EQ(rounds.size(), kReadyFrom);
                     }
                     return recording({{0, 100}});
                   },
                   {.is_ready = [&] { return rounds.size() >= kReadyFrom; },
                    .on_round = [&](uint32_t n_windows) { rounds.push_back(n_windows); }});
  ASSERT_GT(rounds.size(), kReadyFrom);
  EXPECT_EQ(std::vector(rounds.begin(), rounds.begin() + kReadyFrom),
            std::vector<uint32_t>(kReadyFrom, 1));
  EXPECT_EQ(rounds[kReadyFrom], 2u);
}

// As in a server: a short recording comes while a long one is decoded.
TEST_F(BatchTranscriber, RecordingsTakeTurnsIfTheyNeedNotEndInOrder) {
  WhisperModel model = load(2);
  const std::vector<std::vector<SpeechSegment>> recordings = {speech_segments_, {{0, 100}}};
  std::vector<size_t> ended;
  std::vector<Transcript> found(recordings.size());
  size_t n_asked = 0, n_given = 0, n_rounds = 0;
  transcribe_batch(model, settings_,
                   [&]() -> std::optional<BatchRecording> {
                     ++n_asked;
                     if (n_given == recordings.size() || (n_given == 1 && n_rounds < 3))
                       return std::nullopt;
                     const size_t i = n_given++;
                     return recording(recordings[i], [&, i](Transcript transcript) {
                       ended.push_back(i);
                       found[i] = std::move(transcript);
                     });
                   },
                   {.in_order = false, .on_round = [&](uint32_t) { ++n_rounds; }});
  EXPECT_EQ(ended, (std::vector<size_t>{1, 0}));
  EXPECT_GT(n_asked, recordings.size() + 1);
  for (size_t i = 0; i < recordings.size(); ++i) {
    expect_equal(found[i].segments, transcribe(model, recordings[i]).segments);
  }
}

TEST_F(BatchTranscriber, TheRecordingWithTheLeastAudioLeftIsNextIfTheyTakeTurns) {
  WhisperModel model = load(1);
  std::vector<uint64_t> ended;  // their lengths
  std::vector<BatchRecording> recordings;
  for (const uint64_t n_frames : {600u, 100u, 500u}) {
    recordings.push_back(recording(
        {{0, n_frames}}, [&, n_frames](const Transcript&) { ended.push_back(n_frames); }));
  }
  transcribe_batch(model, settings_, each_of(std::move(recordings)), {.in_order = false});
  EXPECT_EQ(ended.front(), 100u);
  EXPECT_EQ(std::set(ended.begin(), ended.end()).size(), 3u);
}

// The windows of a whole recording have the previous text as their prompt.
TEST_F(BatchTranscriber, WholeRecordingsHaveTheTextOfEachAlone) {
  settings_.condition_on_previous_text = true;
  // Speech is in doubt everywhere, so that a VAD model that finds none would decide.
  settings_.no_speech_threshold = 1e-12;
  settings_.logprob_threshold = -100;
  WhisperModel batch = load(2), sequential = load(1);
  const std::vector<uint64_t> lengths = {900, 350, 0, 600};  // frames
  for (const bool in_order : {true, false}) {
    std::vector<Transcript> found(lengths.size());
    std::vector<BatchRecording> recordings;
    for (size_t i = 0; i < lengths.size(); ++i) {
      recordings.push_back(recording({{0, lengths[i]}}, [&found, i](Transcript transcript) {
        found[i] = std::move(transcript);
      }));
      recordings.back().speech.reset();
    }
    transcribe_batch(batch, settings_, each_of(std::move(recordings)), {.in_order = in_order});
    for (size_t i = 0; i < lengths.size(); ++i) {
      SCOPED_TRACE(i);
      DecodingSettings clip = settings_;
      clip.clip_timestamps = {0, static_cast<double>(lengths[i]) / 100};
      const Transcript alone = transcribe_recording(sequential, mel_, clip, {}, {});
      expect_equal(found[i].segments, alone.segments);
      EXPECT_EQ(alone.segments.empty(), lengths[i] == 0);
    }
  }
}

TEST_F(BatchTranscriber, ACancelledRecordingEndsAfterTheWindowsThatRun) {
  auto owned = std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
  ObservedDevice& device = *owned;
  WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 2,
                     most_candidates(settings_));
  device.set_clock(Clock::kPerStage);
  for (const bool is_cancelled : {false, true}) {
    const uint64_t before = encoder_runs(device);
    size_t n_given = 0, n_ended = 0;
    transcribe_batch(model, settings_, [&]() -> std::optional<BatchRecording> {
      if (n_given++ == 2) return std::nullopt;
      const bool is_first = n_given == 1;
      return BatchRecording{
          .mel = {std::shared_ptr<const void>(), &mel_},
          .parts = is_first ? speech_segments_ : std::vector<SpeechSegment>{{0, 100}},
          .speech = {},
          .on_segment = {},
          .on_progress = {},
          .on_end = [&](const Transcript&) { ++n_ended; },
          .is_cancelled =
              [&, is_first] { return is_cancelled && is_first && encoder_runs(device) > before; }};
    });
    EXPECT_EQ(n_ended, 2u);
    if (is_cancelled) {
      EXPECT_EQ(encoder_runs(device) - before, 2u);
    } else {
      EXPECT_GT(encoder_runs(device) - before, 5u);
    }
  }
}

TEST_F(BatchTranscriber, WindowsOfSeveralRecordingsAreEncodedTogether) {
  auto owned = std::make_unique<ObservedDevice>(open_device("cpu", {}), ObservedDevice::Mode::kRun);
  ObservedDevice& device = *owned;
  WhisperModel model(folder_.path(), std::move(owned), Compute::kF32, 4, most_candidates(settings_),
                     2);
  device.set_clock(Clock::kPerStage);
  std::vector<BatchRecording> recordings;
  for (const uint64_t begin : {0u, 100u, 200u, 300u}) {
    recordings.push_back(recording({{begin, begin + 100}}));
  }
  transcribe_batch(model, settings_, each_of(std::move(recordings)));
  EXPECT_EQ(encoder_runs(device), 2u);
}

TEST_F(BatchTranscriber, TheLanguageIsDetectedInTheRightSlot) {
  settings_.language = "auto";
  WhisperModel batch = load(3), sequential = load(1);
  // The second recording's first window is in the second slot.
  std::vector<Transcript> found;
  const std::vector<SpeechSegment> spans = {{0, 100}, {300, 400}, {600, 700}};
  std::vector<BatchRecording> recordings;
  for (const SpeechSegment& span : spans) {
    recordings.push_back(
        recording({span}, [&](const Transcript& transcript) { found.push_back(transcript); }));
  }
  transcribe_batch(batch, settings_, each_of(std::move(recordings)));
  ASSERT_EQ(found.size(), spans.size());
  std::set<double> probabilities;
  for (size_t i = 0; i < spans.size(); ++i) {
    DecodingSettings clip = settings_;
    clip.clip_timestamps = {static_cast<double>(spans[i].begin) / 100,
                            static_cast<double>(spans[i].end) / 100};
    const Transcript alone = transcribe_recording(sequential, mel_, clip, {}, {});
    EXPECT_EQ(found[i].language, alone.language);
    EXPECT_EQ(found[i].language_probability, alone.language_probability);
    probabilities.insert(alone.language_probability);
  }
  EXPECT_EQ(probabilities.size(), spans.size());
}

}  // namespace
}  // namespace vesper::batch_transcriber_test
