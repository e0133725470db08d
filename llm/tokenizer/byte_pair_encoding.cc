#include "llm/tokenizer/byte_pair_encoding.h"

#include "error/error.h"
#include "llm/tokenizer/byte_tokens.h"
#include "llm/tokenizer/merge_neighbours.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {

BytePairEncoding::BytePairEncoding(const TokenIndex& index,
                                   const std::vector<std::pair<std::string, std::string>>& merges,
                                   const Settings& settings)
    : index_(&index), settings_(settings) {
  products_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const size_t prefix =
        right.starts_with(settings.continuing_prefix) ? settings.continuing_prefix.size() : 0;
    const auto id_of = [&](const std::string& spelling) {
      const auto found = index.find(spelling);
      if (found == index.end()) {
        throw Error(ErrorKind::kModel, "merge " + std::to_string(rank) + ": expected \"" +
                                           spelling +
                                           "\" to be a token, found none of that spelling");
      }
      return found->second;
    };
    // Of a pair that is there twice, the later rank counts, as in Hugging Face's tokenizers.
    products_[pair_key(id_of(left), id_of(right))] = {static_cast<int32_t>(rank),
                                                      id_of(left + right.substr(prefix))};
  }
  if (settings.byte_fallback) byte_tokens_ = byte_tokens_of(index);
}

void BytePairEncoding::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (settings_.ignore_merges) {
    if (const auto found = index_->find(piece); found != index_->end()) {
      ids.push_back(found->second);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  bool after_unknown = false;
  std::string spelling;
  for (size_t at = 0; at < piece.size();) {
    const size_t n = character_bytes(piece, at);
    const auto begin = static_cast<uint32_t>(at), end = static_cast<uint32_t>(at + n);
    std::string_view character = piece.substr(at, n);
    const bool takes_prefix = at != 0 && !settings_.continuing_prefix.empty();
    const bool takes_suffix = end == piece.size() && !settings_.end_of_word_suffix.empty();
    if (takes_prefix || takes_suffix) {
      spelling = takes_prefix ? settings_.continuing_prefix : "";
      spelling += character;
      if (takes_suffix) spelling += settings_.end_of_word_suffix;
      character = spelling;
    }
    at += n;
    if (const auto found = index_->find(character); found != index_->end()) {
      symbols.push_back({found->second, begin, end});
      after_unknown = false;
      continue;
    }
    if (!byte_tokens_.empty()) {
      // The bytes of the character as its spelling has them: with a prefix there are more of them
      // than in the piece, and each must take a place there to count as a symbol.
      for (const char c : character) {
        symbols.push_back({byte_tokens_[static_cast<uint8_t>(c)], begin, end});
      }
      continue;
    }
    if (settings_.unknown < 0) continue;
    if (after_unknown && settings_.fuses_unknown) {
      symbols.back().end = end;
    } else {
      symbols.push_back({settings_.unknown, begin, end});
    }
    after_unknown = true;
  }
  merge_neighbours(symbols, [&](const Symbol& left, const Symbol& right) {
    const auto found = products_.find(pair_key(left.id, right.id));
    return found == products_.end()
               ? std::nullopt
               : std::optional<SymbolMerge>({found->second.rank, found->second.id});
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.end > symbol.begin) ids.push_back(symbol.id);
  }
}

}  // namespace vesper
