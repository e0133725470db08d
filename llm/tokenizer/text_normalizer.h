// What a tokenizer does to a text before it cuts it into words: BERT's normalizer and
// pre-tokenizer. In comes UTF-8, out go words of normalized UTF-8.
#pragma once

#include <functional>
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

// Calls `word` for each word: runs between white space, in which every punctuation mark (Unicode's,
// and each ASCII sign that is no letter or digit) is a word by itself. Bytes that are no UTF-8
// count as U+FFFD, which cleaning removes.
void split_bert_words(std::string_view text, const BertNormalization& normalization,
                      const std::function<void(std::string_view)>& word);

}  // namespace vesper
