#include "llm/tokenizer/models/added_tokens.h"

#include <algorithm>

#include "llm/tokenizer/unicode/characters.h"

namespace vesper {
namespace {

uint64_t edge(uint32_t node, char byte) {
  return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), ends_{-1} {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    uint32_t node = 0;
    for (const char byte : tokens_[i].spelling) {
      const auto [found, is_new] =
          next_.try_emplace(edge(node, byte), static_cast<uint32_t>(ends_.size()));
      if (is_new) ends_.push_back(-1);
      node = found->second;
    }
    if (node != 0) ends_[node] = static_cast<int32_t>(i);
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto found = next_.find(edge(node, byte));
    if (found == next_.end()) break;
    node = found->second;
    if (ends_[node] >= 0) longest = &tokens_[static_cast<size_t>(ends_[node])];
  }
  return longest;
}

void AddedTokens::split(
    std::string_view text, bool parse_special,
    const std::function<void(std::string_view, const AddedToken*)>& part) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->spelling.size();
    at = end;
    if (token->special && !parse_special) continue;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token->takes_before) {
      begin = std::max(done, begin - white_space_at_end(text.substr(0, begin)));
    }
    if (token->takes_after) end += white_space_at_start(text.substr(end));
    begin = std::max(begin, done);
    if (end <= done) continue;  // inside the previous token
    if (begin > done) part(text.substr(done, begin - done), nullptr);
    part(text.substr(begin, end - begin), token);
    done = end;
  }
  if (done < text.size()) part(text.substr(done), nullptr);
}

}  // namespace vesper
