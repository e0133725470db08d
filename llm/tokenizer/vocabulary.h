// Token ids by spelling. In come the spellings of a vocabulary, out come ids: what the parts of
// merges, special tokens and characters are looked up in, hundreds of thousands of times when a
// large vocabulary is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class TokenIndex {
 public:
  // Of several tokens with one spelling, the one that counts.
  enum class Duplicates { kFirst, kLast };
  TokenIndex() = default;
  // `spellings` by id, which must outlive this; empty ones are of no token.
  TokenIndex(std::span<const std::string> spellings, Duplicates duplicates);

  // The token of exactly that spelling, or -1.
  int32_t find(std::string_view spelling) const;
  // The same for several at once, in less time: memory that one has to wait for is asked for before
  // the others are looked at. `ids`: as many.
  void find(std::span<const std::string_view> spellings, int32_t* ids) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: free
  };
  // The slot of a spelling, or the free one where it would be.
  size_t place_of(std::string_view spelling, uint32_t hash) const;

  std::span<const std::string> spellings_;
  // Open addressing: what has no room in its own slot is in one of the next. A power of two, at
  // least twice as many as there are tokens, so that searches are short and end.
  std::vector<Slot> slots_;
};

}  // namespace vesper
