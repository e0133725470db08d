#include "llm/tokenizer/sentence_piece_bpe.h"

#include <algorithm>

#include "llm/tokenizer/byte_tokens.h"
#include "llm/tokenizer/merge_neighbours.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

constexpr int32_t kFrozen = -2;  // the id of a symbol that is not merged

}  // namespace

SentencePieceBpe::SentencePieceBpe(const std::vector<SentencePiece>& pieces, int32_t unknown,
                                   bool byte_fallback)
    : unknown_(unknown) {
  std::vector<float> scores;
  for (const SentencePiece& piece : pieces) {
    texts_.push_back(piece.text);
    scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<AddedToken> user_defined;
  std::unordered_map<std::string_view, int32_t> all;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const SentencePiece& piece = pieces[id];
    if (piece.text.empty()) continue;
    all.emplace(texts_[id], static_cast<int32_t>(id));
    if (piece.type == SentencePiece::Type::kUserDefined) {
      AddedToken token;
      token.spelling = piece.text;
      token.id = static_cast<int32_t>(id);
      user_defined.push_back(std::move(token));
    }
    if (piece.type != SentencePiece::Type::kNormal &&
        piece.type != SentencePiece::Type::kUserDefined) {
      continue;
    }
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    index_.try_emplace(
        texts_[id], Piece{static_cast<int32_t>(id), static_cast<int32_t>(place - scores.begin())});
    longest_ = std::max(longest_, piece.text.size());
  }
  user_defined_ = AddedTokens(std::move(user_defined));
  if (byte_fallback) byte_pieces_ = byte_tokens_of(all);
}

void SentencePieceBpe::encode(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  user_defined_.split(text, true, [&](std::string_view part, const AddedToken* token) {
    const auto begin = static_cast<size_t>(part.data() - text.data());
    if (token != nullptr) {
      symbols.push_back(
          {kFrozen, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + part.size())});
      return;
    }
    for (size_t at = begin; at < begin + part.size();) {
      const size_t n = character_bytes(text, at);
      symbols.push_back({-1, static_cast<uint32_t>(at), static_cast<uint32_t>(at + n)});
      at += n;
    }
  });
  const auto text_of = [&](const Symbol& symbol) {
    return text.substr(symbol.begin, symbol.end - symbol.begin);
  };
  merge_neighbours(
      symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<SymbolMerge> {
        if (left.id == kFrozen || right.id == kFrozen) return std::nullopt;
        if (right.end - left.begin > longest_) return std::nullopt;
        const auto found = index_.find(text.substr(left.begin, right.end - left.begin));
        if (found == index_.end()) return std::nullopt;
        return SymbolMerge{found->second.rank, found->second.id};
      });
  bool after_unknown = false;
  for (const Symbol& symbol : symbols) {
    if (symbol.end == symbol.begin) continue;
    const auto found = index_.find(text_of(symbol));
    if (found != index_.end()) {
      ids.push_back(found->second.id);
      after_unknown = false;
    } else if (!byte_pieces_.empty()) {
      for (const char c : text_of(symbol)) ids.push_back(byte_pieces_[static_cast<uint8_t>(c)]);
    } else if (unknown_ >= 0 && !after_unknown) {  // side by side they are one
      ids.push_back(unknown_);
      after_unknown = true;
    }
  }
}

}  // namespace vesper
