// select_beams of the CPU device, with the kernels around it, compared with a plain beam search.
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/beam_search_check.h"

namespace vesper::testing::cpu_beam_search_test {
namespace {

class BeamSearch : public ::testing::Test {
 protected:
  // Runs the case with several seeds; returns the number of finished hypotheses.
  uint32_t check(test::BeamCase one, uint32_t n_seeds = 8) {
    uint32_t n_ended = 0;
    for (uint32_t seed = 1; seed <= n_seeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      const auto device = cpu();
      one.seed = seed;
      test::BeamSearchCheck search(*device, one);
      search.run();
      if (HasFatalFailure()) return 0;
      n_ended += search.n_ended();
      n_parted_ += search.n_parted();
    }
    return n_ended;
  }
  uint32_t n_parted_ = 0;
};

TEST_F(BeamSearch, EqualsAPlainSearchForEachNumberOfBeams) {
  for (const uint32_t beam_size : {1u, 2u, 5u, 16u}) {
    SCOPED_TRACE(std::to_string(beam_size) + " beams");
    EXPECT_GT(check({.beam_size = beam_size, .max_finished = beam_size}), 0u);
  }
  EXPECT_GT(n_parted_, 100u) << "no beams parted, so that no page was copied";
}

TEST_F(BeamSearch, EndsByPatience) {
  for (const uint32_t max_finished : {1u, 3u, 10u}) {
    SCOPED_TRACE(std::to_string(max_finished) + " texts");
    check({.max_finished = max_finished, .p_end = 0.3});
  }
}

TEST_F(BeamSearch, EndsByTokenLimit) {
  for (const uint32_t max_sampled : {1u, 2u, 3u}) check({.max_sampled = max_sampled});
  check({.max_sampled = 40, .p_end = 0});
}

TEST_F(BeamSearch, SharesThePromptForAnyPageOffset) {
  for (const uint32_t n_prompt : {1u, 4u, 5u, 7u, 8u}) check({.n_prompt = n_prompt}, 3);
}

TEST_F(BeamSearch, WorksWithFewContinuations) {
  for (const uint32_t n_allowed : {1u, 2u, 4u}) {
    check({.max_finished = 10, .p_end = 0.2, .n_allowed = n_allowed});
  }
}

TEST_F(BeamSearch, DoesNotChangeUnusedSequences) {
  check({.beam_size = 3, .max_finished = 3, .n_unused = 2});
}

TEST_F(BeamSearch, DoesNotDependOnTheChunks) {
  for (const uint32_t chunk : {7u, 128u, 1024u}) check({.chunk = chunk}, 3);
}

}  // namespace
}  // namespace vesper::testing::cpu_beam_search_test
