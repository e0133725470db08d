#include "llm/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "error/error.h"
#include "llm/tokenizer/byte_tokens.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

// SentencePiece's: an unknown character scores so much below the least likely piece.
constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kUnknownCharacter = -2;

}  // namespace

Unigram::Unigram(std::vector<Piece> pieces, int32_t unknown, bool byte_fallback,
                 bool single_precision)
    : pieces_(std::move(pieces)), unknown_(unknown), single_precision_(single_precision) {
  if (unknown != -1 && (unknown < 0 || static_cast<size_t>(unknown) >= pieces_.size())) {
    throw Error(ErrorKind::kModel, "expected an unk_id among " + std::to_string(pieces_.size()) +
                                       " pieces, found " + std::to_string(unknown));
  }
  double least = 0;
  double most = std::numeric_limits<float>::min();  // SentencePiece's, and so not below 0
  size_t n_normal = 0;
  std::unordered_map<std::string_view, int32_t> all;
  id_of_.reserve(pieces_.size());
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const Piece& piece = pieces_[id];
    if (!std::isfinite(piece.score)) {
      throw Error(ErrorKind::kModel,
                  "expected finite scores, found another for piece " + std::to_string(id));
    }
    if (!piece.text.empty()) all.emplace(piece.text, static_cast<int32_t>(id));
    const bool is_normal = piece.type == SentencePiece::Type::kNormal;
    if (is_normal) {
      most = std::max(most, piece.score);
      least = n_normal == 0 ? piece.score : std::min(least, piece.score);
      ++n_normal;
    }
    if (piece.text.empty() || (!is_normal && piece.type != SentencePiece::Type::kUserDefined)) {
      continue;
    }
    id_of_.emplace(piece.text, static_cast<int32_t>(id));
    longest_ = std::max(longest_, piece.text.size());
  }
  // As SentencePiece scores them: above all that it could be cut into.
  for (Piece& piece : pieces_) {
    if (piece.type == SentencePiece::Type::kUserDefined) {
      piece.score = static_cast<double>(piece.text.size()) * most - 0.1;
    }
  }
  unknown_score_ = least - kUnknownPenalty;
  if (byte_fallback) byte_pieces_ = byte_tokens_of(all);
}

void Unigram::encode(std::string_view word, std::vector<int32_t>& ids) const {
  // The best way to each byte that begins a character: where its last piece begins, and which.
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
    for (size_t end = first_end; end <= word.size() && end - begin <= longest_;) {
      const auto found = id_of_.find(word.substr(begin, end - begin));
      if (found != id_of_.end()) {
        has_character |= end == first_end;
        propose(end, pieces_[static_cast<size_t>(found->second)].score, found->second);
      }
      if (end == word.size()) break;
      end += character_bytes(word, end);
    }
    if (!has_character) propose(first_end, unknown_score_, kUnknownCharacter);
  }
  std::vector<std::pair<size_t, size_t>> found;  // [begin, end) of each, the last first
  for (size_t end = word.size(); end > 0; end = best[end].from) {
    // Unknown characters side by side are one.
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
