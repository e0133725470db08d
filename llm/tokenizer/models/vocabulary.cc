#include "llm/tokenizer/models/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>

namespace vesper {
namespace {

// Spellings whose slots are prefetched together.
constexpr size_t kAtOnce = 64;

uint32_t hash_of(std::string_view spelling) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(spelling));
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> spellings, Duplicates duplicates,
                       const std::function<bool(int32_t)>& is_found)
    : spellings_(std::move(spellings)), slots_(std::bit_ceil(2 * spellings_.size() + 1)) {
  std::array<uint32_t, kAtOnce> hashes;
  for (size_t first = 0; first < spellings_.size(); first += kAtOnce) {
    const size_t n = std::min(kAtOnce, spellings_.size() - first);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_of(spellings_[first + i]);
      __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)], 1);
    }
    for (size_t i = 0; i < n; ++i) {
      const std::string& spelling = spellings_[first + i];
      const auto id = static_cast<int32_t>(first + i);
      if (spelling.empty() || (is_found && !is_found(id))) continue;
      longest_ = std::max(longest_, spelling.size());
      Slot& slot = slots_[place_of(spelling, hashes[i])];
      if (slot.id >= 0 && duplicates == Duplicates::kFirst) continue;
      slot = {hashes[i], id};
    }
  }
}

std::string_view Vocabulary::spelling(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= spellings_.size()) return {};
  return spellings_[static_cast<size_t>(id)];
}

size_t Vocabulary::place_of(std::string_view spelling, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t place = hash & mask;
  while (slots_[place].id >= 0 && (slots_[place].hash != hash ||
                                   spellings_[static_cast<size_t>(slots_[place].id)] != spelling)) {
    place = (place + 1) & mask;
  }
  return place;
}

int32_t Vocabulary::find(std::string_view spelling) const {
  if (slots_.empty()) return -1;
  return slots_[place_of(spelling, hash_of(spelling))].id;
}

void Vocabulary::find(std::span<const std::string_view> spellings, int32_t* ids) const {
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

std::optional<char> byte_of_token(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') {
    return std::nullopt;
  }
  unsigned value = 0;
  for (const char c : spelling.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && !(c >= 'A' && c <= 'F')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(is_digit ? c - '0' : c - 'A' + 10);
  }
  return static_cast<char>(value);
}

std::vector<int32_t> find_byte_tokens(std::span<const std::string> spellings) {
  std::vector<int32_t> tokens(256, -1);
  for (size_t id = spellings.size(); id-- > 0;) {
    if (const auto byte = byte_of_token(spellings[id])) {
      tokens[static_cast<uint8_t>(*byte)] = static_cast<int32_t>(id);
    }
  }
  if (std::find(tokens.begin(), tokens.end(), -1) != tokens.end()) tokens.clear();
  return tokens;
}

}  // namespace vesper
