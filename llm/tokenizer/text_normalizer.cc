#include "llm/tokenizer/text_normalizer.h"

#include <utf8proc.h>

#include <array>
#include <cstdint>

#include "error/error.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/unicode_versions.h"
#include "llm/tokenizer/utf8_stream.h"

namespace vesper {
namespace {

// Characters of general category C (control, format, private use) but unassigned ones, which newer
// versions of Unicode may have assigned, and but those
// that count as white space.
bool is_control(utf8proc_int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool is_newer_mark(utf8proc_int32_t c) {
  const auto character = static_cast<char32_t>(c);
  return is_mark_of_unicode_9(character) || is_mark_since_unicode_10(character);
}

// The blocks of CJK ideographs, as BERT's code has them.
bool is_chinese(utf8proc_int32_t c) {
  constexpr std::array<std::array<utf8proc_int32_t, 2>, 8> kRanges = {{{0x4e00, 0x9fff},
                                                                       {0x3400, 0x4dbf},
                                                                       {0x20000, 0x2a6df},
                                                                       {0x2a700, 0x2b73f},
                                                                       {0x2b740, 0x2b81f},
                                                                       {0x2b820, 0x2ceaf},
                                                                       {0xf900, 0xfaff},
                                                                       {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : kRanges) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

}  // namespace

std::string bert_normalized(std::string_view text, const BertNormalization& normalization) {
  std::string out;
  out.reserve(text.size());
  const auto add = [&](utf8proc_int32_t c) { append_character(static_cast<char32_t>(c), out); };
  const auto lower = [&](utf8proc_int32_t c) {
    if (!normalization.lower_case) return add(c);
    // Full lower case, whose only longer one this is.
    if (c == 0x130) {
      add('i');
      return add(0x307);
    }
    add(utf8proc_tolower(c));
  };
  const auto decompose = [&](utf8proc_int32_t c) {
    if (!normalization.strip_accents || c < 128) return lower(c);
    // The longest canonical decomposition of one character has 4.
    std::array<utf8proc_int32_t, 16> parts{};
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        c, parts.data(), parts.size(),
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), nullptr);
    for (utf8proc_ssize_t i = 0; i < n && i < static_cast<utf8proc_ssize_t>(parts.size()); ++i) {
      const utf8proc_int32_t part = parts[static_cast<size_t>(i)];
      if (utf8proc_category(part) != UTF8PROC_CATEGORY_MN || is_newer_mark(part)) lower(part);
    }
  };
  const auto take = [&](utf8proc_int32_t c) {
    if (c < 128) {  // the common case, in short
      if (c >= 'a' && c <= 'z') return add(c);
      if (c >= 'A' && c <= 'Z') return add(normalization.lower_case ? c + 'a' - 'A' : c);
    }
    if (normalization.clean_text) {
      if (c == 0 || c == 0xfffd || is_control(c)) return;
      if (is_white_space(static_cast<char32_t>(c))) return add(' ');
    }
    if (normalization.space_chinese_characters && is_chinese(c)) {
      add(' ');
      decompose(c);
      return add(' ');
    }
    decompose(c);
  };
  const auto each_character = [&](std::string_view valid) {
    const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(valid.data());
    auto left = static_cast<utf8proc_ssize_t>(valid.size());
    while (left > 0) {
      utf8proc_int32_t c = 0;
      const utf8proc_ssize_t n = utf8proc_iterate(at, left, &c);
      if (n <= 0) throw Error(ErrorKind::kInternal, "text that was found valid is no UTF-8");
      take(c);
      at += n;
      left -= n;
    }
  };
  if (valid_utf8_prefix(text) == text.size()) {
    each_character(text);
  } else {
    each_character(valid_utf8(text));
  }
  return out;
}

}  // namespace vesper
