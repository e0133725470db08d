// How many tokens are drafted, of measured times and of which were accepted.
#include "llm/generation/draft_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace vesper::draft_planner_test {
namespace {

constexpr std::array<double, kGuessClasses> kFirst = {0.3, 0.45, 0.65, 0.85, 0.95};

// Rounds of drafting whose times are these, of which `is_right(round, index)` tokens are accepted.
struct Rounds {
  explicit Rounds(double drafting_seconds, double row_seconds = 0.01, uint32_t n_slots = 1)
      : drafting_s(drafting_seconds),
        row_s(row_seconds),
        planner(
            n_slots, kFirst, [](uint32_t n) { return n; }, 1.05) {
    for (uint32_t slot = 0; slot < n_slots; ++slot) planner.start(slot);
  }

  // One pass over a slot; returns the tokens that it drafts. All are of the class.
  uint32_t run(const std::function<bool(uint32_t)>& is_right, uint32_t token_class = 3) {
    std::vector<Guess> guesses(1);
    guesses[0].most = kMostDraftedRows - 1;
    uint32_t n_added = 0;
    for (planner.plan(guesses, n_added); guesses[0].n_drafted > guesses[0].n;
         planner.plan(guesses, n_added)) {
      guesses[0].add(1, token_class);
      planner.add_drafting(1, drafting_s);
      seconds += drafting_s;
      ++n_added;
    }
    const uint32_t n_drafted = guesses[0].n_drafted;
    const double pass_s = 1 + n_drafted * row_s;
    if (n_drafted > 0) {
      planner.add_pass(1, 1 + n_drafted, pass_s);
    } else {
      planner.add_step(1, 1);
    }
    uint32_t n_equal = 0;
    while (n_equal < guesses[0].n && is_right(n_equal)) ++n_equal;
    planner.learn(guesses[0], n_equal, std::min(guesses[0].n, n_drafted + 1));
    seconds += pass_s;
    n_tokens += 1 + std::min(n_equal, n_drafted);
    return n_drafted;
  }

  double drafting_s, row_s;
  DraftPlanner planner;
  double seconds = 0;
  uint64_t n_tokens = 0;
};

bool always(uint32_t) { return true; }
bool never(uint32_t) { return false; }

TEST(DraftPlanner, MeasuresAStepFirst) {
  Rounds rounds(0.1);
  EXPECT_EQ(rounds.run(always), 0u);
  EXPECT_GT(rounds.run(always), 0u);
}

TEST(DraftPlanner, LengthFollowsAcceptance) {
  Rounds right(0.1);
  for (int i = 0; i < 50; ++i) right.run(always);
  EXPECT_GE(right.run(always), 8u);
  Rounds second_is_wrong(0.1);
  for (int i = 0; i < 50; ++i) second_is_wrong.run([](uint32_t index) { return index == 0; });
  const uint32_t n = second_is_wrong.run(always);
  EXPECT_GE(n, 1u);
  EXPECT_LE(n, 2u);
}

TEST(DraftPlanner, StopsWhereTokensAreWrongAndGoesOnWhereTheyAreRight) {
  Rounds rounds(0.1);
  for (int i = 0; i < 50; ++i) rounds.run(always);
  for (int i = 0; i < 100; ++i) rounds.run(never);
  uint32_t n_passes = 0;
  const double before = rounds.seconds;
  for (int i = 0; i < 400; ++i) n_passes += rounds.run(never) > 0;
  EXPECT_GT(n_passes, 0u);
  EXPECT_LT(n_passes, 40u);
  EXPECT_LT(rounds.seconds - before, 400 * 1.03) << "trials cost little";
  uint32_t n_until_it_drafts = 0;
  while (n_until_it_drafts < 1000 && rounds.run(always) == 0) ++n_until_it_drafts;
  EXPECT_LT(n_until_it_drafts, 300u);
  for (int i = 0; i < 50; ++i) rounds.run(always);
  EXPECT_GE(rounds.run(always), 8u);
}

TEST(DraftPlanner, DoesNotDraftWithAModelThatIsAsSlow) {
  Rounds rounds(1);
  for (int i = 0; i < 20; ++i) rounds.run(always);
  uint32_t n_passes = 0;
  for (int i = 0; i < 400; ++i) n_passes += rounds.run(always) > 0;
  EXPECT_LT(n_passes, 20u);
}

// Nothing is gained where a row costs as much as a step: trials must not cost much either.
TEST(DraftPlanner, LosesLittleWhereRowsCostAsMuchAsSteps) {
  for (const auto& is_right : {always, never}) {
    Rounds rounds(0.01, 1);
    for (int i = 0; i < 50; ++i) rounds.run(is_right);
    const double seconds = rounds.seconds;
    const uint64_t n_tokens = rounds.n_tokens;
    for (int i = 0; i < 400; ++i) rounds.run(is_right);
    EXPECT_GT(static_cast<double>(rounds.n_tokens - n_tokens) / (rounds.seconds - seconds), 0.97);
  }
}

// A time that was disturbed is measured again.
TEST(DraftPlanner, TriesALongTimeAgain) {
  Rounds rounds(0.1);
  for (int i = 0; i < 5; ++i) rounds.run(always);
  for (uint32_t n = 2; n <= kMostDraftedRows; ++n) {
    for (int i = 0; i < 200; ++i) rounds.planner.add_pass(1, n, 10);
  }
  EXPECT_EQ(rounds.run(always), 0u);
  uint32_t n_steps = 0;
  while (n_steps < 2000 && rounds.run(always) == 0) ++n_steps;
  EXPECT_LT(n_steps, 1000u);
}

// Tokens that are likely wrong are left out of the pass, although they are drafted.
TEST(DraftPlanner, LeavesOutUnlikelyTokens) {
  Rounds rounds(0.1, 0.2);
  for (int i = 0; i < 20; ++i) rounds.run(always);
  for (int i = 0; i < 50; ++i) rounds.run(never, 0);
  for (int i = 0; i < 20; ++i) rounds.run(always);
  EXPECT_EQ(rounds.run(never, 0), 0u);
  EXPECT_GT(rounds.run(always), 0u);
}

TEST(DraftPlanner, GivesRowsToTheSlotThatIsOftenerRight) {
  DraftPlanner planner(
      2, kFirst, [](uint32_t n) { return n; }, 1.05);
  planner.start(0);
  planner.start(1);
  planner.add_step(2, 1);
  std::vector<Guess> guesses(2);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    guesses[slot].slot = slot;
    guesses[slot].most = kMostDraftedRows - 1;
    for (uint32_t i = 0; i < guesses[slot].most; ++i) guesses[slot].add(1, slot == 0 ? 1 : 4);
  }
  planner.plan(guesses, 0);
  EXPECT_GT(guesses[1].n_drafted, guesses[0].n_drafted);
  EXPECT_LE(guesses[0].n_drafted + guesses[1].n_drafted, kMostDraftedRows - 2);
  std::vector<Guess> many(kMostDraftedRows, guesses[1]);
  planner.plan(many, 0);
  for (const Guess& guess : many) EXPECT_EQ(guess.n_drafted, 0u) << "each slot has a row already";
}

}  // namespace
}  // namespace vesper::draft_planner_test
