#include "llm/tokenizer/token_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

namespace vesper {
namespace {

// Spellings whose slots are asked for before the first is looked at.
constexpr size_t kAtOnce = 64;

uint32_t hash_of(std::string_view spelling) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(spelling));
}

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string> spellings, Duplicates duplicates)
    : spellings_(spellings), slots_(std::bit_ceil(2 * spellings_.size() + 1)) {
  std::array<uint32_t, kAtOnce> hashes;
  for (size_t first = 0; first < spellings_.size(); first += kAtOnce) {
    const size_t n = std::min(kAtOnce, spellings_.size() - first);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_of(spellings_[first + i]);
      __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)], 1);
    }
    for (size_t i = 0; i < n; ++i) {
      if (spellings_[first + i].empty()) continue;
      Slot& slot = slots_[place_of(spellings_[first + i], hashes[i])];
      if (slot.id >= 0 && duplicates == Duplicates::kFirst) continue;
      slot = {hashes[i], static_cast<int32_t>(first + i)};
    }
  }
}

size_t TokenIndex::place_of(std::string_view spelling, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t place = hash & mask;
  while (slots_[place].id >= 0 && (slots_[place].hash != hash ||
                                   spellings_[static_cast<size_t>(slots_[place].id)] != spelling)) {
    place = (place + 1) & mask;
  }
  return place;
}

int32_t TokenIndex::find(std::string_view spelling) const {
  if (slots_.empty()) return -1;
  return slots_[place_of(spelling, hash_of(spelling))].id;
}

void TokenIndex::find(std::span<const std::string_view> spellings, int32_t* ids) const {
  std::array<uint32_t, kAtOnce> hashes;
  const size_t mask = slots_.size() - 1;
  for (size_t first = 0; first < spellings.size(); first += kAtOnce) {
    const auto some = spellings.subspan(first, std::min(kAtOnce, spellings.size() - first));
    if (slots_.empty()) {
      std::fill_n(ids + first, some.size(), -1);
      continue;
    }
    for (size_t i = 0; i < some.size(); ++i) {
      hashes[i] = hash_of(some[i]);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      const int32_t id = slots_[hashes[i] & mask].id;
      if (id >= 0) __builtin_prefetch(&spellings_[static_cast<size_t>(id)]);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      ids[first + i] = slots_[place_of(some[i], hashes[i])].id;
    }
  }
}

}  // namespace vesper
