// The tokens of a model by id, and their ids by spelling. Reading a large vocabulary looks up
// hundreds of thousands of merge parts, special tokens and characters.
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

inline constexpr size_t kMaxVocabulary = 1'000'000;  // limit for files

class Vocabulary {
 public:
  // The token that find() returns if several have one spelling.
  enum class Duplicates { kFirst, kLast };
  Vocabulary() = default;
  // `spellings` by id; empty ones have no token. find() returns only ids for which `is_found`
  // holds; by default all.
  Vocabulary(std::vector<std::string> spellings, Duplicates duplicates,
             const std::function<bool(int32_t)>& is_found = {});

  // The token with exactly this spelling, or -1.
  int32_t find(std::string_view spelling) const;
  // The same for several spellings, faster: prefetches all slots first. `ids` has as many elements.
  void find(std::span<const std::string_view> spellings, int32_t* ids) const;

  const std::vector<std::string>& spellings() const { return spellings_; }
  // Empty for ids without a token.
  std::string_view spelling(int32_t id) const;
  uint32_t size() const { return static_cast<uint32_t>(spellings_.size()); }
  // Length in bytes of the longest token that find() returns.
  size_t longest() const { return longest_; }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: free
  };
  // The slot of a spelling, or the free slot for it.
  size_t place_of(std::string_view spelling, uint32_t hash) const;

  std::vector<std::string> spellings_;
  // A hash table with open addressing. Its size is a power of two and at least twice the number of
  // tokens, so searches are short and end.
  std::vector<Slot> slots_;
  size_t longest_ = 0;
};

// The tokens <0x00> to <0xFF> for single bytes, by byte; empty unless all 256 exist.
std::vector<int32_t> find_byte_tokens(std::span<const std::string> spellings);
// The byte of such a spelling; absent for others.
std::optional<char> byte_of_token(std::string_view spelling);

}  // namespace vesper
