// Turns of speech in probabilities that come one by one.
#include "vad/speech_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vesper::speech_turns_test {
namespace {

// "b" for a chunk with which a turn begins, "e" for one with which it ends, "." for the others.
std::string events(SpeechTurns& turns, const std::vector<double>& probabilities) {
  std::string text;
  for (const double probability : probabilities) {
    const SpeechTurns::Event event = turns.take(probability);
    text += event == SpeechTurns::Event::kBegins ? 'b'
            : event == SpeechTurns::Event::kEnds ? 'e'
                                                 : '.';
  }
  return text;
}

// The expected events of this test and the two after it are those of silero-vad 6.2.3's VADIterator
// with a model that returns these probabilities.
TEST(SpeechTurns, BeginAndEndAsInTheIterator) {
  SpeechTurns turns({.threshold = 0.5, .silence_duration_ms = 96});
  EXPECT_EQ(events(turns, {0.4, 0.5, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.6}), ".b....e.b");
}

TEST(SpeechTurns, AShortSilenceIsPartOfATurn) {
  SpeechTurns turns({.silence_duration_ms = 96});
  EXPECT_EQ(events(turns, {0.9, 0.1, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1}), "b.......e");
}

TEST(SpeechTurns, BetweenTheThresholdsSilenceNeitherBeginsNorEnds) {
  SpeechTurns turns({.threshold = 0.5, .silence_duration_ms = 64});
  EXPECT_EQ(events(turns, {0.9, 0.4, 0.4, 0.4, 0.4}), "b....");
  EXPECT_EQ(events(turns, {0.3, 0.4, 0.4, 0.4, 0.3}), "....e");
}

TEST(SpeechTurns, AResetWaitsForSpeech) {
  SpeechTurns turns({.silence_duration_ms = 0});
  EXPECT_EQ(events(turns, {0.9, 0.9}), "b.");
  turns.reset();
  EXPECT_EQ(events(turns, {0.1, 0.9, 0.1}), ".be");
}

}  // namespace
}  // namespace vesper::speech_turns_test
