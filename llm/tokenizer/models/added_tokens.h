// Tokens that are found in a text by their spelling before the model runs: special tokens such as
// <|im_end|>, and words added to a vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vesper {

struct AddedToken {
  std::string spelling;
  int32_t id = 0;
  bool special = false;       // found only if special tokens are parsed
  bool takes_before = false;  // includes white space before it ("lstrip")
  bool takes_after = false;   // includes white space after it ("rstrip")
  bool single_word = false;   // only without a letter, digit or _ beside it
  bool normalized = false;    // searched in the normalized text, otherwise in the original text
};

// A set of spellings to search for. Thread-safe.
class AddedTokens {
 public:
  // Later tokens replace earlier ones with the same spelling; empty spellings are ignored.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // Calls `part` for the parts of a text in order: text between tokens (never empty) with null, and
  // each token. The longest token at a position counts. Special ones are text if `parse_special` is
  // false.
  void split(std::string_view text, bool parse_special,
             const std::function<void(std::string_view, const AddedToken*)>& part) const;
  bool empty() const { return tokens_.empty(); }

 private:
  // The longest token at the start of `text`, or null.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  // A trie: the child of a node by byte, and the token that ends at a node or -1.
  std::unordered_map<uint64_t, uint32_t> next_;
  std::vector<int32_t> ends_;
};

}  // namespace vesper
