#include "llm/tokenizer/steps/normalizations.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "llm/tokenizer/steps/precompiled_normalizer.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/pattern.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  if (n < 0) throw std::bad_alloc();  // the text is valid
  std::string out(reinterpret_cast<const char*>(result), static_cast<size_t>(n));
  std::free(result);
  return out;
}

// Newer marks are neither reordered nor composed: the parts between them are normalized separately.
std::string normal_form(std::string_view text, int options) {
  std::string out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    if (!is_mark_since_unicode_10(next_character(text, at))) continue;
    if (from > begin) out += mapped(text.substr(begin, from - begin), options);
    out += text.substr(from, at - from);
    begin = at;
  }
  return begin == 0 ? mapped(text, options) : out + mapped(text.substr(begin), options);
}

// Calls `change` for each character; it appends the result.
template <typename Change>
std::string each_character(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) change(next_character(text, at), out);
  return out;
}

bool is_newer_mark(char32_t c) { return is_mark_of_unicode_9(c) || is_mark_since_unicode_10(c); }

// Full lower case of one character, which may be longer.
void append_lower_case(char32_t c, std::string& out) {
  append_character(c == 0x130 ? U'i' : lower_case(c), out);
  if (c == 0x130) append_character(0x307, out);
}

// The blocks of CJK ideographs, as BERT's code has them.
bool is_chinese(char32_t c) {
  constexpr std::array<std::array<char32_t, 2>, 8> kRanges = {{{0x4e00, 0x9fff},
                                                               {0x3400, 0x4dbf},
                                                               {0x20000, 0x2a6df},
                                                               {0x2a700, 0x2b73f},
                                                               {0x2b740, 0x2b81f},
                                                               {0x2b820, 0x2ceaf},
                                                               {0xf900, 0xfaff},
                                                               {0x2f800, 0x2fa1f}}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [c](const auto& range) { return c >= range[0] && c <= range[1]; });
}

// Optionally decomposes a character without its non-spacing marks, and converts it to lower case.
void append_bert(char32_t c, const BertNormalization& settings, std::string& out) {
  const auto append = [&](char32_t part) {
    settings.lower_case ? append_lower_case(part, out) : append_character(part, out);
  };
  if (!settings.strip_accents || c < 128) return append(c);
  // The longest canonical decomposition of one character has 4 characters.
  std::array<utf8proc_int32_t, 16> parts{};
  const utf8proc_ssize_t n = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), nullptr);
  for (utf8proc_ssize_t i = 0; i < n && i < static_cast<utf8proc_ssize_t>(parts.size()); ++i) {
    const utf8proc_int32_t part = parts[static_cast<size_t>(i)];
    const auto character = static_cast<char32_t>(part);
    if (utf8proc_category(part) != UTF8PROC_CATEGORY_MN || is_newer_mark(character)) {
      append(character);
    }
  }
}

}  // namespace

Normalization normalize_unicode(UnicodeForm form) {
  const bool composes = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const int options =
      (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  return [options](std::string_view text) { return normal_form(text, options); };
}

Normalization make_lower_case() {
  return [](std::string_view text) { return each_character(text, append_lower_case); };
}

Normalization strip_white_space(bool left, bool right) {
  return [left, right](std::string_view text) {
    if (left) text.remove_prefix(white_space_at_start(text));
    if (right) text.remove_suffix(white_space_at_end(text));
    return std::string(text);
  };
}

Normalization strip_accents() {
  return [](std::string_view text) {
    return each_character(text, [](char32_t c, std::string& out) {
      if (!is_mark(c) || is_mark_since_unicode_10(c)) append_character(c, out);
    });
  };
}

Normalization prepend_text(std::string prefix) {
  return [prefix = std::move(prefix)](std::string_view text) {
    return text.empty() ? std::string() : prefix + std::string(text);
  };
}

Normalization replace_text(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string_view text) {
    std::string out;
    for (size_t at = from.empty() ? std::string_view::npos : text.find(from);
         at != std::string_view::npos; at = text.find(from)) {
      out += text.substr(0, at);
      out += to;
      text.remove_prefix(at + from.size());
    }
    return out += text;
  };
}

Normalization replace_pattern(std::string_view pattern, std::string to) {
  return [compiled = std::make_shared<const Pattern>(pattern, "the pattern to replace"),
          to = std::move(to)](std::string_view text) {
    std::string out;
    size_t done = 0;
    PatternSearch search(*compiled, text);
    while (const auto match = search.next(done)) {
      out += text.substr(done, match->begin - done);
      out += to;
      done = match->end;
    }
    return out += text.substr(done);
  };
}

Normalization normalize_by_charsmap(std::string_view charsmap) {
  return [table = std::make_shared<const PrecompiledNormalizer>(charsmap)](std::string_view text) {
    // A damaged table may contain incomplete characters.
    return valid_utf8(table->normalize(text));
  };
}

Normalization normalize_as_bert(const BertNormalization& settings) {
  return [settings](std::string_view text) {
    return each_character(text, [&](char32_t c, std::string& out) {
      if (settings.clean_text) {
        if (c == 0 || c == 0xfffd || is_control(c)) return;
        if (is_white_space(c)) return append_character(U' ', out);
      }
      const bool is_word = settings.space_chinese_characters && is_chinese(c);
      if (is_word) out += ' ';
      append_bert(c, settings, out);
      if (is_word) out += ' ';
    });
  };
}

Normalization normalize_as_nmt() {
  return [](std::string_view text) {
    return each_character(text, [](char32_t c, std::string& out) {
      const bool is_control = (c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) ||
                              c == 0x7f || c == 0x8f || c == 0x9f;
      const bool is_space = c == '\t' || c == '\n' || c == 0x0c || c == '\r' || c == 0x1680 ||
                            (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
                            c == 0x2581 || c == 0xfeff || c == 0xfffd;
      if (!is_control) append_character(is_space ? U' ' : c, out);
    });
  };
}

}  // namespace vesper
