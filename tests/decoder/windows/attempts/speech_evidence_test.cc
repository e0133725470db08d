// The rules have to separate speech from sounds. The evidence was measured with tiny.en and base
// (docs/decisions/0025).
#include "decoder/windows/attempts/speech_evidence.h"

#include <gtest/gtest.h>

#include <optional>

namespace vesper::speech_evidence_test {
namespace {

WindowEvidence window(double no_speech_prob, double avg_logprob, double compression_ratio = 1.5) {
  return {.no_speech_prob = no_speech_prob,
          .avg_logprob = avg_logprob,
          .compression_ratio = compression_ratio,
          .is_one_loop = false};
}

DecodingSettings reference() {
  DecodingSettings settings;
  settings.policy = WindowPolicy::reference();
  return settings;
}

TEST(IsSilent, KeepsSpeech) {
  EXPECT_FALSE(is_silent(window(0.03, -0.2), {}));
  // Quiet speech, few words, noise, or a language that the model does not know well.
  EXPECT_FALSE(is_silent(window(0.580, -0.661, 0.73), {}));
  EXPECT_FALSE(is_silent(window(0.470, -0.887, 0.69), {}));
  EXPECT_FALSE(is_silent(window(0.208, -1.229, 0.80), {}));
  // Repeated speech.
  EXPECT_FALSE(is_silent(window(0.1, -0.2, 3.5), {}));
  // Text of high probability.
  EXPECT_FALSE(is_silent(window(0.7, -0.2), {}));
}

TEST(IsSilent, DropsImprobableText) {
  EXPECT_TRUE(is_silent(window(0.948, -0.701, 0.27), {}));  // digital silence: "you"
  EXPECT_TRUE(is_silent(window(0.910, -0.606, 0.11), {}));  // a siren: "."
  EXPECT_TRUE(is_silent(window(0.760, -0.545, 1.71), {}));  // birds: "Halt! Halt! ..."
  EXPECT_TRUE(is_silent(window(0.453, -1.577, 0.11), {}));  // strings
  EXPECT_TRUE(is_silent(window(0.393, -1.015, 0.38), {}));  // strings, other model: "music"
  EXPECT_TRUE(is_silent(window(0.330, -1.152, 0.38), {}));
}

TEST(IsSilent, DropsLoopsIfSpeechIsDoubtful) {
  EXPECT_TRUE(is_silent(window(0.448, -0.851, 2.46), {}));   // clicks
  EXPECT_TRUE(is_silent(window(0.574, -0.113, 52.24), {}));  // a band: "______"
  WindowEvidence strings = window(0.593, -0.376, 2.39);      // "music music ..."
  EXPECT_FALSE(is_silent(strings, {}));
  strings.is_one_loop = true;
  EXPECT_TRUE(is_silent(strings, {}));
  strings.no_speech_prob = 0.2;
  EXPECT_FALSE(is_silent(strings, {}));
}

// openai-whisper, transcribe.py: no_speech_prob > no_speech_threshold.
TEST(IsSilentByReference, NeedsMoreThanTheThreshold) {
  EXPECT_FALSE(is_silent_by_reference(window(0.6, -2), reference()));
  EXPECT_TRUE(is_silent_by_reference(window(0.601, -2), reference()));
}

TEST(IsSilent, IsOnlyTheReferenceRuleIfRequested) {
  for (const WindowEvidence& evidence :
       {window(0.948, -0.701, 0.27), window(0.448, -0.851, 2.46), window(0.453, -1.577)}) {
    EXPECT_TRUE(is_silent(evidence, {}));
    EXPECT_FALSE(is_silent(evidence, reference()));
  }
  EXPECT_TRUE(is_silent(window(0.61, -1.01), reference()));
  EXPECT_FALSE(is_silent(window(0.59, -1.01), reference()));
  EXPECT_FALSE(is_silent(window(0.61, -0.99), reference()));
}

TEST(IsSilent, FollowsTheThresholds) {
  DecodingSettings settings;
  settings.no_speech_threshold = std::nullopt;
  EXPECT_FALSE(is_silent(window(0.99, -2), settings));
  settings.no_speech_threshold = 0.96;
  EXPECT_FALSE(is_silent(window(0.948, -0.701), settings));
  settings.no_speech_threshold = 0.6;
  settings.logprob_threshold = -3;
  EXPECT_FALSE(is_silent(window(0.948, -0.701), settings));
  // Without a log-probability threshold, any text counts as improbable, as in the reference.
  settings.logprob_threshold = std::nullopt;
  EXPECT_TRUE(is_silent(window(0.948, -0.1), settings));
  EXPECT_FALSE(is_silent(window(0.5, -2), settings));
}

// Windows of five sentences, two of them repeated, with tiny.en.
TEST(IsSilent, KeepsRepeatedSentences) {
  for (const WindowEvidence& said : {window(0.640, -0.160, 2.45), window(0.450, -0.130, 2.43)}) {
    EXPECT_FALSE(is_silent(said, {}));
    EXPECT_TRUE(has_failed(said, {}));  // another attempt is made
  }
  EXPECT_TRUE(is_silent(window(0.640, -0.320, 2.45), {}));
  EXPECT_TRUE(is_silent(window(0.640, -0.160, 3.7), {}));
}

TEST(HasFailed, FollowsBothThresholds) {
  EXPECT_FALSE(has_failed(window(0, -0.9, 2.3), {}));
  EXPECT_TRUE(has_failed(window(0, -1.1, 2.3), {}));
  EXPECT_TRUE(has_failed(window(0, -0.9, 2.5), {}));
  DecodingSettings settings;
  settings.logprob_threshold = settings.compression_ratio_threshold = std::nullopt;
  EXPECT_FALSE(has_failed(window(0, -9, 99), settings));
}

TEST(IsBetter, PrefersNoRepetitionThenTheMoreProbable) {
  EXPECT_TRUE(is_better(window(0, -2), window(0, -0.1, 9), {}));
  EXPECT_TRUE(is_better(window(0, -1.1), window(0, -1.2), {}));
  EXPECT_FALSE(is_better(window(0, -1.2), window(0, -1.1), {}));
}

// Spoken digits (no-speech probability 0.70), and music with probable invented text.
TEST(IsSilent, AsksTheVadModelWhereSpeechIsInDoubt) {
  WindowEvidence digits = window(0.70, -0.645);
  EXPECT_TRUE(is_silent(digits, {}));
  digits.has_speech = true;
  EXPECT_FALSE(is_silent(digits, {}));
  digits.avg_logprob = -1.1;
  EXPECT_TRUE(is_silent(digits, {})) << "by openai-whisper's rule";
  WindowEvidence music = window(0.42, -0.06);
  EXPECT_FALSE(is_silent(music, {}));
  music.has_speech = false;
  EXPECT_TRUE(is_silent(music, {}));
  EXPECT_FALSE(is_silent(music, reference()));
  music.no_speech_prob = 0.1;
  EXPECT_FALSE(is_silent(music, {})) << "the model has no doubt";
}

}  // namespace
}  // namespace vesper::speech_evidence_test
