#include "llm/tokenizer/models/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

// SentencePiece's penalty of an unknown character below the least probable piece.
constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kUnknownCharacter = -2;

}  // namespace

Unigram::Unigram(std::vector<SentencePiece> pieces, int32_t unknown, bool byte_fallback,
                 bool single_precision)
    : unknown_(unknown), single_precision_(single_precision) {
  if (unknown != -1 && (unknown < 0 || static_cast<size_t>(unknown) >= pieces.size())) {
    throw Error(ErrorKind::kModel, "expected an unk_id among " + std::to_string(pieces.size()) +
                                       " pieces, found " + std::to_string(unknown));
  }
  double least = 0;
  double most = std::numeric_limits<float>::min();  // SentencePiece's initial value, so at least 0
  size_t n_normal = 0;
  std::vector<std::string> spellings;
  for (SentencePiece& piece : pieces) {
    if (!std::isfinite(piece.score)) {
      throw Error(ErrorKind::kModel, "expected finite scores, found another for piece " +
                                         std::to_string(spellings.size()));
    }
    if (piece.type == SentencePiece::Type::kNormal) {
      most = std::max(most, piece.score);
      least = n_normal == 0 ? piece.score : std::min(least, piece.score);
      ++n_normal;
    }
    spellings.push_back(std::move(piece.text));
  }
  if (byte_fallback) byte_pieces_ = find_byte_tokens(spellings);
  for (size_t id = 0; id < pieces.size(); ++id) {
    // SentencePiece's score: higher than any split.
    scores_.push_back(pieces[id].type == SentencePiece::Type::kUserDefined
                          ? static_cast<double>(spellings[id].size()) * most - 0.1
                          : pieces[id].score);
  }
  unknown_score_ = least - kUnknownPenalty;
  vocabulary_ = Vocabulary(std::move(spellings), Vocabulary::Duplicates::kFirst,
                           [&](int32_t id) { return pieces[static_cast<size_t>(id)].is_text(); });
}

void Unigram::encode(std::string_view word, std::vector<int32_t>& ids) const {
  // The best path to each character: start and id of its last piece.
  struct Step {
    double score = 0;
    size_t from = SIZE_MAX;
    int32_t id = -1;
  };
  std::vector<Step> best(word.size() + 1);
  best[0].from = 0;
  for (size_t begin = 0; begin < word.size(); begin += character_bytes(word, begin)) {
    const size_t first_end = begin + character_bytes(word, begin);
    bool has_character = false;
    const auto propose = [&](size_t end, double score, int32_t id) {
      Step& step = best[end];
      double sum = best[begin].score + score;
      if (single_precision_) sum = static_cast<float>(sum);
      if (step.from == SIZE_MAX || sum > step.score) step = {sum, begin, id};
    };
    for (size_t end = first_end; end <= word.size() && end - begin <= vocabulary_.longest();) {
      const int32_t id = vocabulary_.find(word.substr(begin, end - begin));
      if (id >= 0) {
        has_character |= end == first_end;
        propose(end, scores_[static_cast<size_t>(id)], id);
      }
      if (end == word.size()) break;
      end += character_bytes(word, end);
    }
    if (!has_character) propose(first_end, unknown_score_, kUnknownCharacter);
  }
  std::vector<std::pair<size_t, size_t>> found;  // [begin, end) of each, the last one first
  for (size_t end = word.size(); end > 0; end = best[end].from) {
    // Adjacent unknown characters are one.
    const bool is_unknown = best[end].id == kUnknownCharacter;
    if (is_unknown && !found.empty() && best[found.back().second].id == kUnknownCharacter) {
      found.back().first = best[end].from;
    } else {
      found.emplace_back(best[end].from, end);
    }
  }
  for (size_t i = found.size(); i-- > 0;) {
    const auto& [begin, end] = found[i];
    if (best[end].id == kUnknownCharacter) {
      encode_unknown(word.substr(begin, end - begin), ids);
    } else {
      ids.push_back(best[end].id);
    }
  }
}

void Unigram::encode_unknown(std::string_view characters, std::vector<int32_t>& ids) const {
  if (!byte_pieces_.empty()) {
    for (const char c : characters) ids.push_back(byte_pieces_[static_cast<uint8_t>(c)]);
  } else if (unknown_ >= 0) {
    ids.push_back(unknown_);
  }
}

}  // namespace vesper
