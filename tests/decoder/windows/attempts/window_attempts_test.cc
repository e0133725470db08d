// Which attempt at a window is selected, without a model.
#include "decoder/windows/attempts/window_attempts.h"

#include <gtest/gtest.h>

#include <utility>

namespace vesper::window_attempts_test {
namespace {

// A result with the judgement of WindowDecoder.
WindowResult judged(double no_speech_prob, double avg_logprob, double compression_ratio = 1.5) {
  WindowResult result;
  result.evidence = {.no_speech_prob = no_speech_prob,
                     .avg_logprob = avg_logprob,
                     .compression_ratio = compression_ratio};
  result.is_silent = is_silent(result.evidence, {});
  return result;
}

TEST(WindowAttempts, AGoodAttemptDecidesTheWindow) {
  const DecodingSettings settings;
  WindowAttempts attempts(settings);
  EXPECT_FALSE(attempts.take(judged(0.1, -1.5)));
  EXPECT_TRUE(attempts.take(judged(0.1, -0.3)));
  EXPECT_EQ(std::move(attempts).result().evidence.avg_logprob, -0.3);
}

TEST(WindowAttempts, SilenceDecidesAWindowWithoutText) {
  const DecodingSettings settings;
  WindowAttempts attempts(settings);
  EXPECT_TRUE(attempts.take(judged(0.9, -0.8)));
  EXPECT_TRUE(std::move(attempts).result().is_silent);
}

TEST(WindowAttempts, TheBestOfAllFailuresIsKept) {
  const DecodingSettings settings;
  WindowAttempts attempts(settings);
  for (const double avg_logprob : {-1.6, -1.2, -2.0}) {
    EXPECT_FALSE(attempts.take(judged(0.1, avg_logprob)));
  }
  EXPECT_EQ(std::move(attempts).result().evidence.avg_logprob, -1.2);
}

TEST(WindowAttempts, TheLastFailureCountsInTheReference) {
  DecodingSettings settings;
  settings.policy = WindowPolicy::reference();
  WindowAttempts attempts(settings);
  for (const double avg_logprob : {-1.6, -1.2, -2.0}) {
    EXPECT_FALSE(attempts.take(judged(0.1, avg_logprob)));
  }
  EXPECT_EQ(std::move(attempts).result().evidence.avg_logprob, -2.0);
}

TEST(WindowAttempts, TextThatFailedDoesNotBecomeSilence) {
  DecodingSettings settings;
  for (const bool keeps_best : {true, false}) {
    settings.policy.keep_best_attempt = keeps_best;
    WindowAttempts attempts(settings);
    EXPECT_FALSE(attempts.take(judged(0.5, -0.2, 2.45)));  // repeated: failed, but not silent
    WindowResult hotter = judged(0.5, -1.5);
    ASSERT_TRUE(hotter.is_silent);
    EXPECT_EQ(attempts.take(std::move(hotter)), !keeps_best);
    const WindowResult result = std::move(attempts).result();
    EXPECT_EQ(result.is_silent, !keeps_best);
    EXPECT_EQ(result.evidence.avg_logprob, keeps_best ? -0.2 : -1.5);
  }
}

TEST(WindowPolicy, DisablesRulesByName) {
  WindowPolicy policy;
  disable_rule(policy, "ask-vad");
  EXPECT_FALSE(policy.ask_vad);
  EXPECT_TRUE(policy.keep_best_attempt);
  EXPECT_ANY_THROW(disable_rule(policy, "no-such-rule"));
  for (const WindowRule& rule : kWindowRules) {
    EXPECT_TRUE(WindowPolicy().*rule.is_on) << rule.name;
    EXPECT_FALSE(WindowPolicy::reference().*rule.is_on) << rule.name;
  }
}

}  // namespace
}  // namespace vesper::window_attempts_test
