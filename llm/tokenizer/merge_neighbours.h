// The loop that all kinds of byte-pair encoding share: of all neighbours that can be merged, those
// with the lowest rank, of equal ones the leftmost, until none can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace vesper {

struct Symbol {
  int32_t id = -1;                  // its token, or -1
  uint32_t begin = 0, end = 0;      // its bytes within the piece; end == begin once merged away
  uint32_t previous = 0, next = 0;  // neighbours; kNoSymbol at either end. Set by merge_neighbours
};
inline constexpr uint32_t kNoSymbol = UINT32_MAX;

struct SymbolMerge {
  int32_t rank = 0;
  int32_t id = 0;  // what the two become
};

// `merge_of(left, right)` gives an optional SymbolMerge of two symbols. Afterwards the symbols that
// are left have end > begin, in the order of the vector.
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
    // Out of date if one of the two has become another since.
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

}  // namespace vesper
