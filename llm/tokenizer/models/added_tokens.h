// Tokens that stand for themselves wherever a text has their spelling, whatever the model would
// make of it: special tokens such as <|im_end|>, and words that were added to a vocabulary.
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
  bool special = false;       // looked for only where special tokens are asked for
  bool takes_before = false;  // white space before it belongs to it ("lstrip")
  bool takes_after = false;   // and after it ("rstrip")
  bool single_word = false;   // only where no letter, digit or _ stands beside it
  bool normalized = false;    // looked for in the normalized text, else in the text as it is
};

// A set of spellings to look for. Safe to use from several threads at once.
class AddedTokens {
 public:
  // Later tokens of the same spelling replace earlier ones; empty spellings are left out.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // Calls `part` for the parts of a text in order: text between the tokens (never empty) with null,
  // and each token. Where several begin, the longest counts. Special ones count as text if
  // `parse_special` is false.
  void split(std::string_view text, bool parse_special,
             const std::function<void(std::string_view, const AddedToken*)>& part) const;
  bool empty() const { return tokens_.empty(); }

 private:
  // The longest spelling that `text` begins with, or null.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  // A trie: the node that a byte leads to from a node, and the token that ends at a node or -1.
  std::unordered_map<uint64_t, uint32_t> next_;
  std::vector<int32_t> ends_;
};

}  // namespace vesper
