#include "llm/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

constexpr std::string_view kSpace = "\u2581";  // stands for a space in pieces

// SentencePiece's: an unknown character scores so much below the least likely piece.
constexpr double kUnknownPenalty = 10.0;

size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Unicode's white space, in UTF-8: how many bytes of it are at the start of `text`.
size_t white_space_bytes(std::string_view text) {
  const char c = text.front();
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  for (const std::string_view space :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
        "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f",
        "\u3000"}) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

size_t white_space_at_start(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const size_t more = white_space_bytes(text.substr(n));
    if (more == 0) break;
    n += more;
  }
  return n;
}

size_t without_white_space_at_end(std::string_view text) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t space = white_space_bytes(text.substr(i));
    i += space != 0 ? space : character_bytes(text[i]);
    if (space == 0) end = i;
  }
  return std::min(end, text.size());
}

}  // namespace

Unigram::Unigram(std::vector<Piece> pieces, int32_t unknown, const Settings& settings)
    : pieces_(std::move(pieces)),
      unknown_(unknown),
      settings_(settings),
      normalizer_(settings.charsmap) {
  if (unknown < 0 || static_cast<size_t>(unknown) >= pieces_.size()) {
    throw Error(ErrorKind::kModel, "expected an unk_id among " + std::to_string(pieces_.size()) +
                                       " pieces, found " + std::to_string(unknown));
  }
  double least = 0;
  id_of_.reserve(pieces_.size());
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const Piece& piece = pieces_[id];
    if (!std::isfinite(piece.score)) {
      throw Error(ErrorKind::kModel,
                  "expected finite scores, found another for piece " + std::to_string(id));
    }
    least = std::min(least, piece.score);
    if (piece.text.empty()) continue;
    id_of_.emplace(piece.text, static_cast<int32_t>(id));
    longest_ = std::max(longest_, piece.text.size());
  }
  unknown_score_ = least - kUnknownPenalty;
}

void Unigram::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  // The best way to each byte that begins a character: where its last piece begins, and which.
  struct Step {
    double score = 0;
    size_t from = SIZE_MAX;
    int32_t id = -1;
  };
  std::vector<Step> best(word.size() + 1);
  best[0].from = 0;
  for (size_t begin = 0; begin < word.size(); begin += character_bytes(word[begin])) {
    const size_t first_end = begin + character_bytes(word[begin]);
    bool has_character = false;
    const auto propose = [&](size_t end, double score, int32_t id) {
      Step& step = best[end];
      const double sum = best[begin].score + score;
      if (step.from == SIZE_MAX || sum > step.score) step = {sum, begin, id};
    };
    for (size_t end = first_end; end <= word.size() && end - begin <= longest_;) {
      const auto found = id_of_.find(word.substr(begin, end - begin));
      if (found != id_of_.end()) {
        has_character |= end == first_end;
        propose(end, pieces_[static_cast<size_t>(found->second)].score, found->second);
      }
      if (end == word.size()) break;
      end += character_bytes(word[end]);
    }
    if (!has_character) propose(first_end, unknown_score_, unknown_);
  }
  const size_t first = ids.size();
  for (size_t end = word.size(); end > 0; end = best[end].from) {
    // Unknown characters side by side are one token.
    if (best[end].id == unknown_ && ids.size() > first && ids.back() == unknown_) continue;
    ids.push_back(best[end].id);
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

void Unigram::encode(std::string_view text, std::vector<int32_t>& ids) const {
  // Characters are cut by their first bytes below: a damaged table must not give half ones.
  std::string normalized = valid_utf8(normalizer_.normalize(valid_utf8(text)));
  if (settings_.strips_start) normalized.erase(0, white_space_at_start(normalized));
  if (settings_.strips_end) normalized.resize(without_white_space_at_end(normalized));
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) encode_word(word, ids);
    word.clear();
  };
  if (settings_.splits_white_space) {
    for (std::string_view rest = normalized; !rest.empty();) {
      if (const size_t n = white_space_bytes(rest); n != 0) {
        end_word();
        rest.remove_prefix(n);
        continue;
      }
      const size_t n = character_bytes(rest.front());
      if (word.empty() && settings_.prefixes_words && !rest.starts_with(kSpace)) word = kSpace;
      if (rest.starts_with(kSpace) && !word.empty()) end_word();
      word += rest.substr(0, n);
      rest.remove_prefix(n);
    }
    return end_word();
  }
  bool after_space = false;
  if (settings_.prefixes_words && !normalized.empty() && normalized.front() != ' ' &&
      !normalized.starts_with(kSpace)) {
    word = kSpace;
  }
  for (size_t i = 0; i < normalized.size(); ++i) {
    if (normalized[i] == ' ') {
      if (after_space && settings_.joins_spaces) continue;
      end_word();
      word = kSpace;
      after_space = true;
      continue;
    }
    if (std::string_view(normalized).substr(i).starts_with(kSpace)) end_word();
    after_space = false;
    word += normalized[i];
  }
  end_word();
}

}  // namespace vesper
