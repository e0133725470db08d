// Normalizers: change a text before it is split into pieces, as defined by Hugging Face's
// tokenizers. Functions of valid UTF-8.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace vesper {

using Normalization = std::function<std::string(std::string_view)>;

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
Normalization normalize_unicode(UnicodeForm form);
// Unicode's mapping of single characters, without conditions.
Normalization make_lower_case();
Normalization strip_white_space(bool left, bool right);
// Removes all marks.
Normalization strip_accents();
// Not for an empty text.
Normalization prepend_text(std::string prefix);
Normalization replace_text(std::string from, std::string to);
// Throws Error(kModel) for an invalid pattern. `to` is literal.
Normalization replace_pattern(std::string_view pattern, std::string to);
// `charsmap`: see PrecompiledNormalizer. Throws Error(kModel) if it is invalid.
Normalization normalize_by_charsmap(std::string_view charsmap);
// Devlin et al., BasicTokenizer of the published BERT code.
struct BertNormalization {
  bool clean_text = true;  // removes control characters; all white space becomes spaces
  bool space_chinese_characters = true;  // each is a separate word
  bool strip_accents = true;             // canonical decomposition without non-spacing marks
  bool lower_case = true;
};

// U+FFFD is removed with control characters.
Normalization normalize_as_bert(const BertNormalization& settings);
// Removes control characters and replaces other white space by spaces (NMT's rules).
Normalization normalize_as_nmt();

}  // namespace vesper
