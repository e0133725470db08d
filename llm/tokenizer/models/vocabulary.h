// The tokens of a model by id, and their ids by spelling. The models look up the parts of merges,
// special tokens and characters, hundreds of thousands of times when a large vocabulary is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

inline constexpr size_t kMaxVocabulary = 1'000'000;  // tokens that a file may have

class Vocabulary {
 public:
  // Of several tokens with one spelling, the one that find() gives.
  enum class Duplicates { kFirst, kLast };
  Vocabulary() = default;
  // `spellings` by id; empty ones are of no token. find() gives only ids for which `is_found`
  // holds; without it, all.
  Vocabulary(std::vector<std::string> spellings, Duplicates duplicates,
             const std::function<bool(int32_t)>& is_found = {});

  // The token of exactly that spelling, or -1.
  int32_t find(std::string_view spelling) const;
  // The same for several at once, in less time: it prefetches the memory of all before it looks at
  // the first. `ids`: as many.
  void find(std::span<const std::string_view> spellings, int32_t* ids) const;

  const std::vector<std::string>& spellings() const { return spellings_; }
  // Empty for ids without a token.
  std::string_view spelling(int32_t id) const;
  uint32_t size() const { return static_cast<uint32_t>(spellings_.size()); }
  // Bytes of the longest token that find() gives.
  size_t longest() const { return longest_; }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: free
  };
  // The slot of a spelling, or the free one where it would be.
  size_t place_of(std::string_view spelling, uint32_t hash) const;

  std::vector<std::string> spellings_;
  // A hash table with open addressing. Its size is a power of two and at least twice the number of
  // tokens, so that searches are short and end.
  std::vector<Slot> slots_;
  size_t longest_ = 0;
};

// The tokens <0x00> to <0xFF>, which stand for single bytes in vocabularies of characters, by byte;
// empty unless all 256 are there.
std::vector<int32_t> find_byte_tokens(std::span<const std::string> spellings);
// The byte that such a spelling stands for; absent for any other.
std::optional<char> byte_of_token(std::string_view spelling);

}  // namespace vesper
