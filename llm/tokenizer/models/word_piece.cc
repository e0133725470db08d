#include "llm/tokenizer/models/word_piece.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {
namespace {

bool is_character_start(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

WordPiece::WordPiece(std::shared_ptr<const Vocabulary> vocabulary, const Settings& settings)
    : vocabulary_(std::move(vocabulary)),
      settings_(settings),
      unknown_(vocabulary_->find(settings_.unknown)) {
  if (unknown_ < 0) {
    throw Error(ErrorKind::kModel, "expected a vocabulary with the token " + settings_.unknown +
                                       ", found none among " + std::to_string(vocabulary_->size()));
  }
}

void WordPiece::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const auto n_characters = std::count_if(word.begin(), word.end(), is_character_start);
  if (n_characters > static_cast<std::ptrdiff_t>(settings_.max_word_characters)) {
    ids.push_back(unknown_);
    return;
  }
  const size_t first = ids.size();
  const std::string& prefix = settings_.continuation;
  std::string continuation;
  for (size_t at = 0; at < word.size();) {
    // The rest of the word in the vocabulary's spelling.
    std::string_view rest = word;
    if (at > 0) rest = continuation = prefix + std::string(word.substr(at));
    const size_t n_prefix = at > 0 ? prefix.size() : 0;
    size_t end = std::min(rest.size(), vocabulary_->longest());
    int32_t id = -1;
    for (; end > n_prefix; --end) {
      if (end < rest.size() && !is_character_start(rest[end])) continue;
      id = vocabulary_->find(rest.substr(0, end));
      if (id >= 0) break;
    }
    if (id < 0) {  // the whole word is unknown
      ids.resize(first);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(id);
    at += end - n_prefix;
  }
}

}  // namespace vesper
