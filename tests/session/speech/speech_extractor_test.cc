// A thread that extracts the speech of recordings ahead, with a function that stands for the
// extraction.
#include "session/speech/speech_extractor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "error/error.h"

namespace vesper::speech_extractor_test {
namespace {

ExtractedSpeech speech_of(double duration_s) { return {MelSpectrogram(80), {}, duration_s, {}}; }

// Each recording's path is its length in seconds.
ExtractedSpeech extract(const AudioInput& input, const std::function<void(double)>&) {
  return speech_of(std::stod(input.path));
}

const auto kCheckNothing = [] {};

TEST(SpeechExtractor, ExtractsInOrder) {
  std::vector<std::string> extracted;
  SpeechExtractor extractor([&](const AudioInput& input, const auto&) {
    extracted.push_back(input.path);
    return speech_of(1);
  });
  std::vector<std::unique_ptr<SpeechExtractor::Speech>> added;
  const std::vector<std::string> paths = {"a", "b", "c", "d"};
  for (const std::string& path : paths) added.push_back(extractor.add({.path = path}));
  for (const auto& speech : added) EXPECT_EQ(speech->get(kCheckNothing).duration_s, 1);
  EXPECT_EQ(extracted, paths);
}

TEST(SpeechExtractor, WaitsUntilMuchSpeechIsTaken) {
  std::atomic<int> n_begun = 0;
  SpeechExtractor extractor([&](const AudioInput& input, const auto& on_progress) {
    ++n_begun;
    return extract(input, on_progress);
  });
  static_assert(SpeechExtractor::kMostAheadS == 1800);
  const auto first = extractor.add({.path = "1000"}), second = extractor.add({.path = "1000"}),
             third = extractor.add({.path = "10"});
  while (!second->is_ready()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(n_begun, 2);
  EXPECT_FALSE(third->is_ready());
  EXPECT_EQ(first->get(kCheckNothing).duration_s, 1000);
  EXPECT_EQ(second->get(kCheckNothing).duration_s, 1000);
  EXPECT_EQ(third->get(kCheckNothing).duration_s, 10);
}

TEST(SpeechExtractor, HandsOnFailures) {
  SpeechExtractor extractor([](const AudioInput& input, const auto& on_progress) {
    if (input.path.empty()) throw std::runtime_error("no recording");
    return extract(input, on_progress);
  });
  const auto failed = extractor.add({}), next = extractor.add({.path = "2"});
  EXPECT_THROW(failed->get(kCheckNothing), std::runtime_error);
  EXPECT_EQ(next->get(kCheckNothing).duration_s, 2);
}

TEST(SpeechExtractor, StopsARecordingThatIsNotNeeded) {
  std::atomic<bool> has_begun = false, is_stopped = false;
  SpeechExtractor extractor([&](const AudioInput& input, const auto& on_progress) {
    if (input.path == "endless") {
      has_begun = true;
      try {
        while (true) on_progress(0);
      } catch (const Error& error) {
        is_stopped = error.kind() == ErrorKind::kStopped;
        throw;
      }
    }
    return extract(input, on_progress);
  });
  auto endless = extractor.add({.path = "endless"});
  const auto next = extractor.add({.path = "3"});
  while (!has_begun) std::this_thread::yield();
  struct Cancelled {};
  EXPECT_THROW(endless->get([] { throw Cancelled(); }), Cancelled);
  endless.reset();
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(next->get(kCheckNothing).duration_s, 3);
}

}  // namespace
}  // namespace vesper::speech_extractor_test
