#include "llm/tokenizer/normalizations.h"

#include <utf8proc.h>

#include <cstdlib>
#include <new>

#include "llm/tokenizer/pattern.h"
#include "llm/tokenizer/precompiled_normalizer.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/unicode_versions.h"
#include "llm/tokenizer/utf8_stream.h"

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

// Newer marks neither move nor compose: between them each part is normalized by itself.
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

// Calls `change` with each character; it appends what becomes of it.
template <typename Change>
std::string each_character(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) change(next_character(text, at), out);
  return out;
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
  return [](std::string_view text) {
    return each_character(text, [](char32_t c, std::string& out) {
      append_character(c == 0x130 ? U'i' : lower_case(c), out);
      if (c == 0x130) append_character(0x307, out);  // the only longer one
    });
  };
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
    // A damaged table may hold half characters.
    return valid_utf8(table->normalize(text));
  };
}

Normalization normalize_as_bert(const BertNormalization& settings) {
  return [settings](std::string_view text) { return bert_normalized(text, settings); };
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
