// A thread that extracts the speech of recordings ahead, with a function that stands for the
// extraction.
#include "session/speech/speech_extractor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "error/error.h"
#include "session/speech/speech_options.h"

namespace vesper::speech_extractor_test {
namespace {

const auto kCheckNothing = [] {};

// Silence of so many seconds, in little memory.
AudioInput recording(size_t duration_s) {
  constexpr uint32_t kRateHz = 1000;
  static const std::vector<float> silence(1000 * size_t{kRateHz});
  return {.path = "silence",
          .samples = PcmSamples{std::span(silence).first(duration_s * kRateHz), {kRateHz, 1}}};
}

// No speech, in recordings of the right length.
std::vector<ExtractedSpeech> no_speech(const std::vector<OpenRecording>& recordings) {
  std::vector<ExtractedSpeech> extracted;
  for (const OpenRecording& each : recordings) {
    extracted.push_back({MelSpectrogram(80), {}, each.reader.duration_s().value(), {}});
  }
  return extracted;
}

std::vector<double> lengths_of(const std::vector<OpenRecording>& recordings) {
  std::vector<double> lengths;
  for (const OpenRecording& each : recordings) {
    lengths.push_back(each.reader.duration_s().value());
  }
  return lengths;
}

// Keeps the thread busy with a recording of 1 s while the test adds others.
class Gate {
 public:
  void pass(const std::vector<OpenRecording>& recordings) const {
    while (recordings[0].reader.duration_s() == 1 && !is_open_) std::this_thread::yield();
  }
  void open() { is_open_ = true; }

 private:
  std::atomic<bool> is_open_ = false;
};

TEST(SpeechExtractor, ExtractsShortRecordingsTogetherAndAllInOrder) {
  Gate gate;
  std::vector<std::vector<double>> extracted;
  SpeechExtractor extractor(
      [&](const std::vector<OpenRecording>& recordings, const auto&) {
        gate.pass(recordings);
        extracted.push_back(lengths_of(recordings));
        return no_speech(recordings);
      },
      3);
  std::vector<std::unique_ptr<SpeechExtractor::Speech>> added;
  const std::vector<size_t> lengths = {1, 2, 3, 4, 5, 6, 100, 60, 7};
  added.push_back(extractor.add(recording(lengths[0])));
  for (size_t i = 1; i < lengths.size(); ++i) added.push_back(extractor.add(recording(lengths[i])));
  gate.open();
  for (size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(added[i]->get(kCheckNothing).duration_s, lengths[i]);
  }
  std::vector<double> all;
  for (const std::vector<double>& together : extracted) {
    EXPECT_LE(together.size(), 3u);
    all.insert(all.end(), together.begin(), together.end());
  }
  EXPECT_EQ(all, std::vector<double>(lengths.begin(), lengths.end()));
  const std::vector<std::vector<double>> last(extracted.end() - 2, extracted.end());
  EXPECT_EQ(last, (std::vector<std::vector<double>>{{100}, {60, 7}}));
}

TEST(SpeechExtractor, PassesTheOptionsOfEachRecordingOn) {
  Gate gate;
  std::vector<double> thresholds;
  SpeechExtractor extractor(
      [&](const std::vector<OpenRecording>& recordings, const auto&) {
        gate.pass(recordings);
        for (const OpenRecording& each : recordings) {
          thresholds.push_back(each.options ? each.options->vad->threshold : 0);
        }
        return no_speech(recordings);
      },
      3);
  std::vector<std::unique_ptr<SpeechExtractor::Speech>> added;
  for (const double threshold : {0.0, 0.25, 0.75}) {
    std::shared_ptr<SpeechOptions> options;
    if (threshold > 0) {
      options = std::make_shared<SpeechOptions>();
      options->vad.emplace().threshold = threshold;
    }
    added.push_back(extractor.add(recording(1), {}, options));
  }
  gate.open();
  for (const auto& speech : added) speech->get(kCheckNothing);
  EXPECT_EQ(thresholds, (std::vector{0.0, 0.25, 0.75}));
}

TEST(SpeechExtractor, WaitsUntilMuchSpeechIsTaken) {
  std::atomic<int> n_begun = 0;
  SpeechExtractor extractor(
      [&](const std::vector<OpenRecording>& recordings, const auto&) {
        ++n_begun;
        return no_speech(recordings);
      },
      2);
  static_assert(SpeechExtractor::kMostAheadS == 1800);
  const auto first = extractor.add(recording(1000)), second = extractor.add(recording(1000)),
             third = extractor.add(recording(10));
  while (!second->is_ready()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(n_begun, 2);
  EXPECT_FALSE(third->is_ready());
  EXPECT_EQ(first->get(kCheckNothing).duration_s, 1000);
  EXPECT_EQ(second->get(kCheckNothing).duration_s, 1000);
  EXPECT_EQ(third->get(kCheckNothing).duration_s, 10);
}

TEST(SpeechExtractor, OnlyTheRecordingThatFailsHasAnError) {
  Gate gate;
  struct Broken {};
  SpeechExtractor extractor(
      [&](const std::vector<OpenRecording>& recordings, const auto&) {
        gate.pass(recordings);
        for (const double length : lengths_of(recordings)) {
          if (length == 3) throw Broken();
        }
        return no_speech(recordings);
      },
      4);
  const auto first = extractor.add(recording(1)), good = extractor.add(recording(2)),
             broken = extractor.add(recording(3)), missing = extractor.add({.path = "missing.wav"}),
             last = extractor.add(recording(4));
  gate.open();
  EXPECT_EQ(first->get(kCheckNothing).duration_s, 1);
  EXPECT_EQ(good->get(kCheckNothing).duration_s, 2);
  EXPECT_THROW(broken->get(kCheckNothing), Broken);
  EXPECT_THROW(missing->get(kCheckNothing), Error);
  EXPECT_EQ(last->get(kCheckNothing).duration_s, 4);
}

TEST(SpeechExtractor, StopsARecordingThatIsNotNeeded) {
  std::atomic<bool> has_begun = false, is_stopped = false;
  SpeechExtractor extractor(
      [&](const std::vector<OpenRecording>& recordings, const auto& check) {
        if (lengths_of(recordings).front() == 1) {
          has_begun = true;
          try {
            while (true) check();
          } catch (const Error& error) {
            is_stopped = error.kind() == ErrorKind::kStopped;
            throw;
          }
        }
        return no_speech(recordings);
      },
      1);
  auto endless = extractor.add(recording(1));
  const auto next = extractor.add(recording(3));
  while (!has_begun) std::this_thread::yield();
  struct Cancelled {};
  EXPECT_THROW(endless->get([] { throw Cancelled(); }), Cancelled);
  endless.reset();
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(next->get(kCheckNothing).duration_s, 3);
}

}  // namespace
}  // namespace vesper::speech_extractor_test
