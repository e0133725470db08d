#include "llm/tokenizer/token_index.h"

#include <bit>
#include <functional>

namespace vesper {
namespace {

uint32_t hash_of(std::string_view spelling) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(spelling));
}

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string> spellings, Duplicates duplicates)
    : spellings_(spellings), slots_(std::bit_ceil(2 * spellings_.size() + 1)) {
  for (size_t id = 0; id < spellings_.size(); ++id) {
    if (spellings_[id].empty()) continue;
    const uint32_t hash = hash_of(spellings_[id]);
    Slot& slot = slots_[place_of(spellings_[id], hash)];
    if (slot.id >= 0 && duplicates == Duplicates::kFirst) continue;
    slot = {hash, static_cast<int32_t>(id)};
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

}  // namespace vesper
