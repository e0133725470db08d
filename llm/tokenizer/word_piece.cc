#include "llm/tokenizer/word_piece.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {
namespace {

bool is_character_start(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

WordPiece::WordPiece(std::vector<std::string> vocabulary, const Settings& settings)
    : settings_(settings), vocabulary_(std::move(vocabulary)) {
  for (size_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view spelling = vocabulary_[id];
    if (spelling.empty()) continue;
    id_of_.emplace(spelling, static_cast<int32_t>(id));
    longest_ = std::max(longest_, spelling.size());
    if (spelling.starts_with(settings_.continuation)) {
      continuations_.emplace(spelling.substr(settings_.continuation.size()),
                             static_cast<int32_t>(id));
    }
  }
  unknown_ = find(settings_.unknown);
  if (unknown_ < 0) {
    throw Error(ErrorKind::kModel, "expected a vocabulary with the token " + settings_.unknown +
                                       ", found none among " + std::to_string(vocabulary_.size()));
  }
}

int32_t WordPiece::find(std::string_view spelling) const {
  const auto found = id_of_.find(spelling);
  return found == id_of_.end() ? -1 : found->second;
}

void WordPiece::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const auto n_characters = std::count_if(word.begin(), word.end(), is_character_start);
  if (n_characters > static_cast<std::ptrdiff_t>(settings_.max_word_characters)) {
    ids.push_back(unknown_);
    return;
  }
  const size_t first = ids.size();
  for (size_t at = 0; at < word.size();) {
    const auto& index = at == 0 ? id_of_ : continuations_;
    size_t end = std::min(word.size(), at + longest_);
    auto found = index.end();
    for (; end > at; --end) {
      if (end < word.size() && !is_character_start(word[end])) continue;
      found = index.find(word.substr(at, end - at));
      if (found != index.end()) break;
    }
    if (found == index.end()) {  // the whole word is unknown
      ids.resize(first);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(found->second);
    at = end;
  }
}

}  // namespace vesper
