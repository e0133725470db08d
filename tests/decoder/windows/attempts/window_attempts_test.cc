// The transitions of the state machine, without a model.
#include "decoder/windows/attempts/window_attempts.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace vesper::window_attempts_test {
namespace {

using Stage = WindowAttempts::Stage;

constexpr WindowAttempts::Window kWindow{.has_prompt = true,
                                         .is_faint = false,
                                         .max_tokens = 100,
                                         .timestamp_begin = 1000,
                                         .end_of_text = 900};

// A result as WindowDecoder judges it.
WindowResult judged(double no_speech_prob, double avg_logprob, double temperature = 0,
                    double compression_ratio = 1.5) {
  WindowResult result;
  result.temperature = temperature;
  result.evidence = {.no_speech_prob = no_speech_prob,
                     .avg_logprob = avg_logprob,
                     .compression_ratio = compression_ratio,
                     .has_words = true};
  result.is_silent = is_silent(result.evidence, {});
  return result;
}

WindowResult good() { return judged(0.1, -0.3); }
WindowResult failed(double avg_logprob = -1.5) { return judged(0.1, avg_logprob); }
WindowResult silent() { return judged(0.9, -0.8); }

class Attempts : public testing::Test {
 protected:
  WindowAttempts start(WindowAttempts::Window window = kWindow) const {
    return WindowAttempts(settings_, window);
  }
  static WindowResult looping(WindowResult result) {
    result.evidence.loops = true;
    return result;
  }

  DecodingSettings settings_;  // temperatures 0, 0.2, ... 1
};

TEST_F(Attempts, AGoodFirstAttemptDecidesTheWindow) {
  WindowAttempts attempts = start();
  EXPECT_EQ(attempts.stage(), Stage::kPrompted);
  EXPECT_FALSE(attempts.next()->without_prompt);
  attempts.take(good());
  EXPECT_EQ(attempts.stage(), Stage::kDone);
  EXPECT_FALSE(attempts.next());
  EXPECT_FALSE(std::move(attempts).result().without_prompt);
}

TEST_F(Attempts, AFailureGoesOnWithoutThePromptThenHotter) {
  WindowAttempts attempts = start();
  attempts.take(failed());
  EXPECT_EQ(attempts.stage(), Stage::kUnprompted);
  EXPECT_EQ(attempts.next()->temperature, 0);
  attempts.take(failed());
  EXPECT_EQ(attempts.next()->temperature, 0.2);
  EXPECT_TRUE(attempts.next()->without_prompt);
  attempts.take(good());
  EXPECT_TRUE(std::move(attempts).result().without_prompt);
}

TEST_F(Attempts, WithoutAPromptTheFirstAttemptIsUnprompted) {
  WindowAttempts::Window window = kWindow;
  window.has_prompt = false;
  WindowAttempts attempts = start(window);
  EXPECT_EQ(attempts.stage(), Stage::kUnprompted);
}

TEST_F(Attempts, TheReferenceKeepsThePromptAndTheLastAttempt) {
  settings_.policy = WindowPolicy::reference();
  WindowAttempts attempts = start();
  for (const double temperature : settings_.temperatures) {
    EXPECT_EQ(attempts.stage(), Stage::kPrompted);
    EXPECT_EQ(attempts.next()->temperature, temperature);
    attempts.take(judged(0.1, -1.5 - temperature, temperature));
  }
  EXPECT_EQ(std::move(attempts).result().temperature, 1);
}

TEST_F(Attempts, TheBestOfAllFailuresCounts) {
  WindowAttempts attempts = start();
  attempts.take(failed(-1.6));
  attempts.take(failed(-1.2));
  while (const auto next = attempts.next()) attempts.take(judged(0.1, -2, next->temperature));
  EXPECT_EQ(std::move(attempts).result().evidence.avg_logprob, -1.2);
}

TEST_F(Attempts, SilenceWithThePromptIsDecidedWithoutIt) {
  WindowAttempts attempts = start();
  attempts.take(silent());
  EXPECT_EQ(attempts.stage(), Stage::kUnprompted);
  attempts.take(silent());
  EXPECT_EQ(attempts.stage(), Stage::kDone);
  EXPECT_TRUE(std::move(attempts).result().is_silent);
}

TEST_F(Attempts, SilenceInAFaintWindowIsLookedAtAgain) {
  WindowAttempts::Window window = kWindow;
  window.is_faint = true;
  for (const bool is_speech : {false, true}) {
    WindowAttempts attempts = start(window);
    attempts.take(silent());
    attempts.take(silent());
    ASSERT_EQ(attempts.stage(), Stage::kAmplified);
    EXPECT_TRUE(attempts.next()->is_amplified);
    attempts.take(is_speech ? good() : silent());
    EXPECT_EQ(attempts.stage(), Stage::kDone);
    EXPECT_EQ(std::move(attempts).result().is_silent, !is_speech);
  }
}

TEST_F(Attempts, SparseTextIsDecodedAgainAndTheLongerTextCounts) {
  // 3 tokens in 20 s, then 4 or 12 without the prompt.
  const auto text = [](size_t n_tokens) {
    WindowResult result = good();
    result.decoded.tokens.assign(n_tokens, 11);
    result.decoded.tokens.insert(result.decoded.tokens.begin(), 1000);
    result.decoded.tokens.push_back(2000);
    return result;
  };
  for (const size_t n_tokens : {size_t{4}, size_t{12}}) {
    WindowAttempts attempts = start();
    attempts.take(text(3));
    ASSERT_EQ(attempts.stage(), Stage::kSparse);
    EXPECT_TRUE(attempts.next()->without_prompt);
    attempts.take(text(n_tokens));
    const WindowResult result = std::move(attempts).result();
    EXPECT_EQ(result.decoded.tokens.size(), n_tokens == 12 ? 14u : 5u);
    EXPECT_EQ(result.without_prompt, n_tokens == 12);
  }
}

TEST_F(Attempts, DoubtfulLoopsNeedConvincingText) {
  WindowAttempts::Window window = kWindow;
  window.has_prompt = false;
  const WindowResult loop = judged(0.5, -0.2, 0, 5);
  for (const bool is_convincing : {false, true}) {
    WindowAttempts attempts = start(window);
    attempts.take(loop);
    ASSERT_EQ(attempts.stage(), Stage::kUnprompted);
    attempts.take(judged(0.5, is_convincing ? -0.4 : -0.7, 0.2));
    EXPECT_EQ(attempts.stage() == Stage::kDone, is_convincing);
    while (const auto next = attempts.next()) attempts.take(judged(0.5, -0.7, next->temperature));
    EXPECT_EQ(std::move(attempts).result().is_silent, !is_convincing);
  }
}

TEST_F(Attempts, TextThatWasBelievedDoesNotBecomeSilence) {
  WindowAttempts::Window window = kWindow;
  window.has_prompt = false;
  WindowAttempts attempts = start(window);
  attempts.take(judged(0.5, -0.2, 0, 2.45));  // said again: failed, but believed
  attempts.take(judged(0.5, -1.5, 0.2));      // improbable
  EXPECT_NE(attempts.stage(), Stage::kDone);
  while (const auto next = attempts.next()) attempts.take(judged(0.5, -1.5, next->temperature));
  const WindowResult result = std::move(attempts).result();
  EXPECT_FALSE(result.is_silent);
  EXPECT_EQ(result.evidence.avg_logprob, -0.2);
}

TEST_F(Attempts, ASureAttemptConfirmsADoubtedOne) {
  WindowAttempts attempts = start();
  attempts.take(judged(0.74, -0.447));  // silent, but only by the no-speech probability
  attempts.take(good());
  const WindowResult result = std::move(attempts).result();
  EXPECT_FALSE(result.is_silent);
  EXPECT_EQ(result.evidence.avg_logprob, -0.447);
}

TEST_F(Attempts, ALoopInEveryAttemptThatEndsByItselfIsAChant) {
  for (const size_t n_tokens : {size_t{50}, size_t{99}}) {
    WindowAttempts attempts = start();
    while (const auto next = attempts.next()) {
      WindowResult result = looping(judged(0.1, -0.2, next->temperature));
      result.decoded.tokens.assign(n_tokens, 11);
      attempts.take(std::move(result));
    }
    EXPECT_EQ(std::move(attempts).result().is_chant, n_tokens == 50);
  }
}

TEST(WindowPolicy, SwitchesRulesOffByName) {
  WindowPolicy policy;
  disable_rule(policy, "drop-loops");
  EXPECT_FALSE(policy.drop_loops);
  EXPECT_TRUE(policy.fail_loops);
  EXPECT_ANY_THROW(disable_rule(policy, "no-such-rule"));
  for (const WindowRule& rule : kWindowRules) {
    EXPECT_TRUE(WindowPolicy().*rule.is_on) << rule.name;
    EXPECT_FALSE(WindowPolicy::reference().*rule.is_on) << rule.name;
  }
}

}  // namespace
}  // namespace vesper::window_attempts_test
