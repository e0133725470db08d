#include "llm/tokenizer/steps/precompiled_normalizer.h"

#include <utf8proc.h>

#include <cstring>

#include "error/error.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

constexpr size_t kLongestWhole = 5;  // bytes of a grapheme cluster in the table

// A unit of the double array in darts-clone's layout.
bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffffu; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000ffu; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & (1u << 9)) >> 6); }

}  // namespace

PrecompiledNormalizer::PrecompiledNormalizer(std::string_view table) {
  if (table.empty()) return;
  uint32_t trie_bytes = 0;
  if (table.size() >= sizeof trie_bytes) {
    std::memcpy(&trie_bytes, table.data(), sizeof trie_bytes);
    table.remove_prefix(sizeof trie_bytes);
  }
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > table.size()) {
    throw Error(ErrorKind::kModel,
                "precompiled_charsmap: expected a trie of whole units and its "
                "texts, found " +
                    std::to_string(trie_bytes) + " bytes of trie among " +
                    std::to_string(table.size()));
  }
  units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), table.data(), trie_bytes);
  texts_ = table.substr(trie_bytes);
  texts_ += '\0';
}

PrecompiledNormalizer::Found PrecompiledNormalizer::find(std::string_view text,
                                                         bool longest) const {
  Found found;
  if (units_.empty()) return found;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) break;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const uint32_t at = node < units_.size() ? value_of(units_[node]) : UINT32_MAX;
    if (at >= texts_.size()) break;
    found = {i + 1, texts_.c_str() + at};
    if (!longest) break;
  }
  return found;
}

bool PrecompiledNormalizer::replace(std::string_view part, std::string& out) const {
  // The shortest prefix in the table replaces the whole part.
  const Found found = find(part, false);
  out += found.replacement;
  return found.n_bytes > 0;
}

std::string PrecompiledNormalizer::normalize_longest(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Found found = find(text, true);
    const size_t n = found.n_bytes > 0 ? found.n_bytes : character_bytes(text, 0);
    out += found.n_bytes > 0 ? std::string_view(found.replacement) : text.substr(0, n);
    text.remove_prefix(n);
  }
  return out;
}

std::string PrecompiledNormalizer::normalize(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  const auto finish = [&](std::string_view whole) {
    if (whole.size() <= kLongestWhole && replace(whole, out)) return;
    for (size_t at = 0; at < whole.size();) {
      const size_t from = at;
      next_character(whole, at);
      const std::string_view character = whole.substr(from, at - from);
      if (!replace(character, out)) out += character;
    }
  };
  // Extended grapheme clusters.
  utf8proc_int32_t before = -1, state = 0;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, at));
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, c, &state)) {
      finish(text.substr(begin, from - begin));
      begin = from;
    }
    before = c;
  }
  finish(text.substr(begin));
  return out;
}

}  // namespace vesper
