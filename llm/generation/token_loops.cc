#include "llm/generation/token_loops.h"

#include <algorithm>

namespace vesper {

TokenLoop longest_loop(std::span<const int32_t> tokens, size_t n_rounds) {
  TokenLoop longest;
  for (size_t period = 1; period * n_rounds <= tokens.size(); ++period) {
    size_t length = period;
    for (size_t i = period; i < tokens.size(); ++i) {
      length = tokens[i] == tokens[i - period] ? length + 1 : period;
      if (length >= period * n_rounds && length > longest.length) longest = {period, length};
    }
  }
  return longest;
}

TokenLoop final_loop(std::span<const int32_t> tokens, size_t n_rounds, size_t min_length) {
  for (size_t period = 1; period * n_rounds <= tokens.size(); ++period) {
    size_t begin = tokens.size() - period;
    while (begin > 0 && tokens[begin - 1] == tokens[begin - 1 + period]) --begin;
    const size_t length = tokens.size() - begin;
    if (length >= std::max(period * n_rounds, min_length)) return {period, length};
  }
  return {};
}

}  // namespace vesper
