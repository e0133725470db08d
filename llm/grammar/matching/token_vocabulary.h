// The bytes of every token of a model, as a trie. In: a tokenizer. Out: what GrammarMasks walks.
// Made once per model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class TextTokenizer;

// Immutable after construction, thread-safe.
class TokenVocabulary {
 public:
  // `bytes`: by id, the text of each token; empty for special tokens, which a grammar never allows.
  // `stop_ids`: the tokens that end an answer, allowed where the grammar may end.
  // `drops_first_space`: a space at the begin of an answer's first token is not part of its text.
  // Throws Error(kModel) if a stop id is out of range, or a text is longer than 65,535 bytes.
  TokenVocabulary(std::span<const std::string_view> bytes, std::span<const int32_t> stop_ids,
                  bool drops_first_space = false);
  explicit TokenVocabulary(const TextTokenizer& tokenizer);

  uint32_t n_tokens() const { return uint32_t(offsets_.size() - 1); }
  // The number of 32-bit words of a mask: ceil(n_tokens / 32).
  size_t n_words() const { return (n_tokens() + 31) / 32; }
  std::string_view bytes_of(int32_t id) const {
    return std::string_view(bytes_).substr(offsets_[size_t(id)],
                                           offsets_[size_t(id) + 1] - offsets_[size_t(id)]);
  }
  std::span<const int32_t> stop_ids() const { return stop_ids_; }
  bool is_stop(int32_t id) const;
  bool drops_first_space() const { return drops_first_space_; }

  // The trie's nodes in preorder; node 0 is the root, whose byte is meaningless.
  struct Trie {
    std::vector<uint8_t> byte;          // [n_nodes], leads to the node
    std::vector<uint16_t> depth;        // [n_nodes], bytes from the root
    std::vector<uint32_t> end;          // [n_nodes], the node after the last descendant
    std::vector<uint32_t> first_token;  // [n_nodes + 1], into `tokens`
    std::vector<int32_t> tokens;        // by node, the ids whose bytes lead to it
    uint32_t n_nodes() const { return uint32_t(byte.size()); }
  };
  const Trie& trie() const { return trie_; }
  // The child of the root whose byte this is, or 0.
  uint32_t node_of_byte(uint8_t byte) const;
  // Bytes of the longest token.
  size_t longest() const { return longest_; }

 private:
  void build_trie();

  std::string bytes_;              // of all tokens
  std::vector<uint32_t> offsets_;  // [n_tokens + 1]
  std::vector<int32_t> stop_ids_;  // ascending
  bool drops_first_space_;
  Trie trie_;
  size_t longest_ = 0;
};

}  // namespace vesper
