// select_beams of the Vulkan device, with the kernels around it, compared with a plain beam search.
#include "tests/llm/kernels/beam_search_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::beam_search_test {
namespace {

class BeamSearch : public VulkanTest {
 protected:
  uint32_t check(test::BeamCase one, uint32_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    one.seed = seed;
    test::BeamSearchCheck search(device(), one);
    search.run();
    return search.n_ended();
  }
};

TEST_F(BeamSearch, EqualsAPlainSearchForEachNumberOfBeams) {
  for (const uint32_t beam_size : {1u, 2u, 5u, 16u}) {
    SCOPED_TRACE(std::to_string(beam_size) + " beams");
    EXPECT_GT(check({.beam_size = beam_size, .max_finished = beam_size}, beam_size), 0u);
  }
}

TEST_F(BeamSearch, EndsByPatienceOrTokenLimit) {
  for (const uint32_t max_finished : {1u, 3u, 10u}) {
    check({.max_finished = max_finished, .p_end = 0.3}, 3);
  }
  for (const uint32_t max_sampled : {1u, 3u}) check({.max_sampled = max_sampled}, 4);
}

TEST_F(BeamSearch, WorksWithFewContinuationsAndAnyPromptAndChunk) {
  for (const uint32_t n_allowed : {1u, 4u}) {
    check({.max_finished = 10, .p_end = 0.2, .n_allowed = n_allowed}, 5);
  }
  check({.beam_size = 3, .max_finished = 3, .n_unused = 2}, 7);
  for (const uint32_t n_prompt : {4u, 7u}) check({.n_prompt = n_prompt, .chunk = 1024}, 6);
}

}  // namespace
}  // namespace vesper::beam_search_test
