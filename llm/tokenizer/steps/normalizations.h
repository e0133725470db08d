// What changes a text before it is cut into pieces (normalizers), as Hugging Face's tokenizers
// define them. Each is a function of valid UTF-8.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace vesper {

using Normalization = std::function<std::string(std::string_view)>;

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
Normalization normalize_unicode(UnicodeForm form);
// As Unicode maps single characters, without conditions.
Normalization make_lower_case();
Normalization strip_white_space(bool left, bool right);
// Removes all marks.
Normalization strip_accents();
// Nothing where the text is empty.
Normalization prepend_text(std::string prefix);
Normalization replace_text(std::string from, std::string to);
// Throws Error(kModel) if it is no pattern. `to` is taken as it is.
Normalization replace_pattern(std::string_view pattern, std::string to);
// `charsmap`: see PrecompiledNormalizer. Throws Error(kModel) if it is none.
Normalization normalize_by_charsmap(std::string_view charsmap);
// Devlin et al., BasicTokenizer of the published BERT code.
struct BertNormalization {
  bool clean_text = true;                // no control characters, every white space a space
  bool space_chinese_characters = true;  // each a word of its own
  bool strip_accents = true;             // canonical decomposition without its non-spacing marks
  bool lower_case = true;
};

// U+FFFD is removed with control characters.
Normalization normalize_as_bert(const BertNormalization& settings);
// Removes control characters and makes spaces of other white space (NMT's rules).
Normalization normalize_as_nmt();

}  // namespace vesper
