// BERT's normalization of a text.
#pragma once

#include <string>
#include <string_view>

namespace vesper {

// Devlin et al., BasicTokenizer of the published BERT code.
struct BertNormalization {
  bool clean_text = true;                // no control characters, every white space a space
  bool space_chinese_characters = true;  // each a word of its own
  bool strip_accents = true;             // canonical decomposition without its non-spacing marks
  bool lower_case = true;
};

// Bytes that are no UTF-8 count as U+FFFD, which cleaning removes.
std::string bert_normalized(std::string_view text, const BertNormalization& normalization);

}  // namespace vesper
