// Loops in token sequences: a period that occurs again and again without a difference.
//
// In: sampled tokens. Out: where they repeat. Used by decoder/windows/attempts/repetition.h, which
// rejects text of speech that consists of one loop, and by session/text/answer_loop.h, which ends
// answers that do not end by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vesper {

struct TokenLoop {
  size_t period = 0;  // tokens; 0: no loop
  size_t length = 0;  // tokens, with a last period that may be incomplete
};

// The longest loop of at least `n_rounds` (2 or more) complete periods.
TokenLoop longest_loop(std::span<const int32_t> tokens, size_t n_rounds);

// The loop of at least `n_rounds` (2 or more) complete periods and `min_length` tokens that the
// sequence ends with; of several the one with the shortest period.
TokenLoop final_loop(std::span<const int32_t> tokens, size_t n_rounds, size_t min_length);

}  // namespace vesper
