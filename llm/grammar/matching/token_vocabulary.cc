#include "llm/grammar/matching/token_vocabulary.h"

#include <algorithm>

#include "error/error.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

namespace {

std::vector<std::string_view> token_texts(const TextTokenizer& tokenizer) {
  std::vector<std::string_view> texts(tokenizer.n_vocab());
  for (size_t i = 0; i < texts.size(); ++i)
    if (!tokenizer.is_special(int32_t(i))) texts[i] = tokenizer.bytes_of(int32_t(i));
  return texts;
}

}  // namespace

TokenVocabulary::TokenVocabulary(const TextTokenizer& tokenizer)
    : TokenVocabulary(token_texts(tokenizer), tokenizer.stop_ids(), tokenizer.drops_first_space()) {
}

TokenVocabulary::TokenVocabulary(std::span<const std::string_view> bytes,
                                 std::span<const int32_t> stop_ids, bool drops_first_space)
    : stop_ids_(stop_ids.begin(), stop_ids.end()), drops_first_space_(drops_first_space) {
  std::sort(stop_ids_.begin(), stop_ids_.end());
  for (int32_t id : stop_ids_)
    if (id < 0 || size_t(id) >= bytes.size())
      throw Error(ErrorKind::kModel, "expected stop tokens below " + std::to_string(bytes.size()) +
                                         ", found " + std::to_string(id));
  offsets_.push_back(0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    // A stop token is no text, even if it has a spelling.
    const auto text = is_stop(int32_t(i)) ? std::string_view() : bytes[i];
    if (text.size() > UINT16_MAX || bytes_.size() + text.size() > UINT32_MAX)
      throw Error(ErrorKind::kModel, "expected tokens of at most 65,535 bytes, found token " +
                                         std::to_string(i) + " of " + std::to_string(text.size()));
    bytes_ += text;
    offsets_.push_back(uint32_t(bytes_.size()));
    longest_ = std::max(longest_, text.size());
  }
  build_trie();
}

bool TokenVocabulary::is_stop(int32_t id) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id);
}

uint32_t TokenVocabulary::node_of_byte(uint8_t byte) const {
  for (uint32_t node = 1; node < trie_.n_nodes(); node = trie_.end[node])
    if (trie_.byte[node] == byte) return node;
  return 0;
}

void TokenVocabulary::build_trie() {
  std::vector<int32_t> order;
  for (uint32_t i = 0; i < n_tokens(); ++i)
    if (!bytes_of(int32_t(i)).empty()) order.push_back(int32_t(i));
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto x = bytes_of(a), y = bytes_of(b);
    return x != y ? x < y : a < b;
  });
  std::vector<uint32_t> path{0};  // nodes from the root to the last text's end
  const auto add_node = [&](uint8_t byte) {
    trie_.byte.push_back(byte);
    trie_.depth.push_back(uint16_t(path.size() - 1));
    trie_.end.push_back(0);
    trie_.first_token.push_back(uint32_t(trie_.tokens.size()));
  };
  const auto leave = [&](size_t depth) {  // the nodes below `depth` have no more descendants
    for (; path.size() > depth + 1; path.pop_back()) trie_.end[path.back()] = trie_.n_nodes();
  };
  add_node(0);
  std::string_view last;
  for (int32_t id : order) {
    const auto text = bytes_of(id);
    const auto same = size_t(
        std::mismatch(last.begin(), last.end(), text.begin(), text.end()).first - last.begin());
    leave(same);
    for (size_t i = same; i < text.size(); ++i) {
      path.push_back(trie_.n_nodes());
      add_node(uint8_t(text[i]));
    }
    trie_.tokens.push_back(id);
    last = text;
  }
  leave(0);
  trie_.end[0] = trie_.n_nodes();
  trie_.first_token.push_back(uint32_t(trie_.tokens.size()));
}

}  // namespace vesper
