#include "llm/tokenizer/precompiled_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "error/error.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

constexpr size_t kLongestWhole = 5;  // bytes of a user-perceived character that is looked up

// A unit of the double array, as darts-clone lays it out.
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

bool PrecompiledNormalizer::replace(std::string_view part, std::string& out) const {
  if (units_.empty()) return false;
  size_t node = offset_of(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return false;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) return false;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    // The shortest prefix that the table has stands for the whole part.
    const uint32_t at = node < units_.size() ? value_of(units_[node]) : UINT32_MAX;
    if (at >= texts_.size()) return false;
    out += texts_.c_str() + at;
    return true;
  }
  return false;
}

std::string PrecompiledNormalizer::normalize_longest(std::string_view text) const {
  if (units_.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t n_taken = 0, text_at = 0;
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
      n_taken = i + 1;
      text_at = at;
    }
    if (n_taken > 0) {
      out += texts_.c_str() + text_at;
    } else {
      n_taken = character_bytes(text, 0);
      out += text.substr(0, n_taken);
    }
    text.remove_prefix(n_taken);
  }
  return out;
}

std::string PrecompiledNormalizer::normalize(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  const auto finish = [&](std::string_view whole) {
    if (whole.empty()) return;
    if (whole.size() <= kLongestWhole && replace(whole, out)) return;
    const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(whole.data());
    for (size_t i = 0; i < whole.size();) {
      utf8proc_int32_t c = 0;
      const auto n = static_cast<size_t>(std::max<utf8proc_ssize_t>(
          1, utf8proc_iterate(at + i, static_cast<utf8proc_ssize_t>(whole.size() - i), &c)));
      if (!replace(whole.substr(i, n), out)) out += whole.substr(i, n);
      i += n;
    }
  };
  // User-perceived characters: extended grapheme clusters.
  utf8proc_int32_t before = -1, state = 0;
  size_t begin = 0;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    utf8proc_int32_t c = 0;
    const auto n = static_cast<size_t>(std::max<utf8proc_ssize_t>(
        1, utf8proc_iterate(at + i, static_cast<utf8proc_ssize_t>(text.size() - i), &c)));
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, c, &state)) {
      finish(text.substr(begin, i - begin));
      begin = i;
    }
    before = c;
    i += n;
  }
  finish(text.substr(begin));
  return out;
}

}  // namespace vesper
