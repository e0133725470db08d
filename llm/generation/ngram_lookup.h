// Earlier occurrences of the end of a text. In: the tokens of a text. Out: where the same tokens
// stood before, and so a guess of how the text goes on.
//
// A hash table has the last position of each pair of tokens, and each position the one before it
// with the same hash, so that memory is bounded by the context. Nothing is allocated after
// construction. Used by llm/generation/speculation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vesper {

class NgramLookup {
 public:
  // For texts of up to n_ctx tokens.
  explicit NgramLookup(uint32_t n_ctx);

  // Starts another text.
  void clear();
  // Indexes the tokens of the text from the last call on. `text` is the whole text.
  void extend(std::span<const int32_t> text);

  struct Match {
    uint32_t next = 0;    // position after the earlier occurrence
    uint32_t length = 0;  // equal tokens before it, up to kMostLength; 0: no occurrence
  };
  static constexpr uint32_t kLeastLength = 2, kMostLength = 32;
  // The longest earlier occurrence of the end of `text`, all of which is indexed; of several the
  // last. Looks at the last 64 occurrences of its last two tokens.
  Match find(std::span<const int32_t> text) const;

  // Continues the text as after the occurrence: writes up to out.size() tokens. If they reach the
  // end of the text, they repeat its period.
  static void continue_from(const Match& match, std::span<const int32_t> text,
                            std::span<int32_t> out);

 private:
  uint32_t bucket(int32_t first, int32_t second) const;

  std::vector<uint32_t> last_;    // [2^n], by hash of a pair: the position after it; 0: none
  std::vector<uint32_t> before_;  // [n_ctx + 1], by position after a pair: likewise, the one before
  uint32_t n_indexed_ = 0;
};

}  // namespace vesper
