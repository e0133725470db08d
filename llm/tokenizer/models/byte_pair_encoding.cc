#include "llm/tokenizer/models/byte_pair_encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <queue>

#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

struct Symbol {
  int32_t id = -1;                  // its token, or -1
  uint32_t begin = 0, end = 0;      // bytes in the piece; end == begin after merging away
  uint32_t previous = 0, next = 0;  // neighbours; kNoSymbol at the ends. Set by merge_neighbours
};
constexpr uint32_t kNoSymbol = UINT32_MAX;

struct SymbolMerge {
  int32_t rank = 0;
  int32_t id = 0;  // result of the merge
};

// `merge_of(left, right)` returns an optional SymbolMerge of two symbols. Afterwards the remaining
// symbols have end > begin, in the order of the vector.
template <typename MergeOf>
void merge_neighbours(std::vector<Symbol>& symbols, const MergeOf& merge_of) {
  struct Candidate {
    SymbolMerge merge;
    uint32_t left;
    bool operator<(const Candidate& other) const {
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : left > other.left;
    }
  };
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<Candidate> room;
  room.reserve(n);
  std::priority_queue<Candidate> candidates({}, std::move(room));
  const auto propose = [&](uint32_t left) {
    if (left == kNoSymbol || symbols[left].next == kNoSymbol) return;
    const auto merge = merge_of(symbols[left], symbols[symbols[left].next]);
    if (merge) candidates.push({*merge, left});
  };
  for (uint32_t i = 0; i < n; ++i) {
    symbols[i].previous = i == 0 ? kNoSymbol : i - 1;
    symbols[i].next = i + 1 == n ? kNoSymbol : i + 1;
  }
  for (uint32_t i = 0; i + 1 < n; ++i) propose(i);
  while (!candidates.empty()) {
    const Candidate candidate = candidates.top();
    candidates.pop();
    Symbol& left = symbols[candidate.left];
    if (left.end == left.begin || left.next == kNoSymbol) continue;
    Symbol& right = symbols[left.next];
    // Outdated if one of the two has been merged since.
    const auto now = merge_of(left, right);
    if (!now || now->id != candidate.merge.id) continue;
    left.id = now->id;
    left.end = right.end;
    right.begin = right.end;
    left.next = right.next;
    if (left.next != kNoSymbol) symbols[left.next].previous = candidate.left;
    propose(candidate.left);
    propose(left.previous);
  }
}

}  // namespace

MergeListEncoding::MergeListEncoding(
    std::shared_ptr<const Vocabulary> vocabulary,
    const std::vector<std::pair<std::string_view, std::string_view>>& merges,
    const Settings& settings)
    : vocabulary_(std::move(vocabulary)),
      settings_(settings),
      merges_(std::bit_ceil(merges.size() + merges.size() / 3 + 1)) {
  // Batches whose spellings are looked up together.
  constexpr size_t kAtOnce = 64;
  std::array<std::string, kAtOnce> wholes;
  std::array<std::string_view, 3 * kAtOnce> spellings;
  std::array<int32_t, 3 * kAtOnce> ids;
  for (size_t first = 0; first < merges.size(); first += kAtOnce) {
    const size_t n = std::min(kAtOnce, merges.size() - first);
    for (size_t i = 0; i < n; ++i) {
      const auto& [left, right] = merges[first + i];
      const bool has_prefix = right.starts_with(settings.continuing_prefix);
      wholes[i] = left;
      wholes[i] += right.substr(has_prefix ? settings.continuing_prefix.size() : 0);
      spellings[3 * i] = left;
      spellings[3 * i + 1] = right;
      spellings[3 * i + 2] = wholes[i];
    }
    vocabulary_->find({spellings.data(), 3 * n}, ids.data());
    for (size_t i = 0; i < n; ++i) {
      __builtin_prefetch(&merges_[first_place_of(ids[3 * i], ids[3 * i + 1])], 1);
    }
    for (size_t i = 0; i < 3 * n; ++i) {
      if (ids[i] >= 0) continue;
      throw Error(ErrorKind::kModel, "merge " + std::to_string(first + i / 3) + ": expected \"" +
                                         std::string(spellings[i]) +
                                         "\" to be a token, found none of that spelling");
    }
    for (size_t i = 0; i < n; ++i) {
      const int32_t left = ids[3 * i], right = ids[3 * i + 1];
      // The later rank of a repeated pair counts, as in Hugging Face's tokenizers.
      merges_[place_of(left, right)] = {left, right, static_cast<int32_t>(first + i),
                                        ids[3 * i + 2]};
    }
  }
  if (settings.byte_fallback) byte_tokens_ = find_byte_tokens(vocabulary_->spellings());
}

size_t MergeListEncoding::first_place_of(int32_t left, int32_t right) const {
  // Multiplicative hashing: the upper bits of the product depend on all bits of the pair.
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  const uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  return (pair * kFactor >> 32) & (merges_.size() - 1);
}

size_t MergeListEncoding::place_of(int32_t left, int32_t right) const {
  const size_t mask = merges_.size() - 1;
  size_t place = first_place_of(left, right);
  while (merges_[place].left >= 0 &&
         (merges_[place].left != left || merges_[place].right != right)) {
    place = (place + 1) & mask;
  }
  return place;
}

void MergeListEncoding::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (settings_.ignore_merges) {
    if (const int32_t id = vocabulary_->find(piece); id >= 0) {
      ids.push_back(id);
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
    if (const int32_t id = vocabulary_->find(character); id >= 0) {
      symbols.push_back({id, begin, end});
      after_unknown = false;
      continue;
    }
    if (!byte_tokens_.empty()) {
      // The bytes of the character's spelling: with a prefix they are more than in the piece, and
      // each must be at least one byte to count as a symbol.
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
    const Merge& found = merges_[place_of(left.id, right.id)];
    return found.left < 0 ? std::nullopt : std::optional<SymbolMerge>({found.rank, found.id});
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.end > symbol.begin) ids.push_back(symbol.id);
  }
}

RankedEncoding::RankedEncoding(std::shared_ptr<const Vocabulary> vocabulary, Settings settings)
    : vocabulary_(std::move(vocabulary)), settings_(std::move(settings)) {}

void RankedEncoding::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  constexpr int32_t kUnmerged = -2;  // instead of a symbol's token
  if (settings_.by_bytes && piece.size() <= vocabulary_->longest()) {
    if (const int32_t id = vocabulary_->find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  settings_.unmerged.split(piece, true, [&](std::string_view part, const AddedToken* token) {
    const auto begin = static_cast<uint32_t>(part.data() - piece.data());
    const auto end = static_cast<uint32_t>(begin + part.size());
    if (token != nullptr) {
      symbols.push_back({kUnmerged, begin, end});
      return;
    }
    for (uint32_t at = begin; at < end;) {
      const auto n = settings_.by_bytes ? 1 : static_cast<uint32_t>(character_bytes(piece, at));
      symbols.push_back({-1, at, at + n});
      at += n;
    }
  });
  merge_neighbours(
      symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<SymbolMerge> {
        if (left.id == kUnmerged || right.id == kUnmerged) return std::nullopt;
        if (right.end - left.begin > vocabulary_->longest()) return std::nullopt;
        const int32_t id = vocabulary_->find(piece.substr(left.begin, right.end - left.begin));
        if (id < 0) return std::nullopt;
        return SymbolMerge{settings_.ranks.empty() ? id : settings_.ranks[static_cast<size_t>(id)],
                           id};
      });
  bool after_unknown = false;
  for (const Symbol& symbol : symbols) {
    if (symbol.end == symbol.begin) continue;
    const std::string_view text = piece.substr(symbol.begin, symbol.end - symbol.begin);
    if (const int32_t id = vocabulary_->find(text); id >= 0) {
      ids.push_back(id);
      after_unknown = false;
    } else if (!settings_.byte_tokens.empty()) {
      for (const char c : text) {
        ids.push_back(settings_.byte_tokens[static_cast<uint8_t>(c)]);
      }
    } else if (settings_.unknown >= 0 && !after_unknown) {
      ids.push_back(settings_.unknown);
      after_unknown = true;
    }
  }
}

}  // namespace vesper
