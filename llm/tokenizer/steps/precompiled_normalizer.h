// SentencePiece's normalization: a table of replacements in compiled form in the model's file (a
// double array trie of darts-clone, then the replacement texts).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class PrecompiledNormalizer {
 public:
  // `table`: the bytes of precompiled_charsmap; empty for no replacements. Throws Error(kModel) if
  // they are invalid.
  explicit PrecompiledNormalizer(std::string_view table);

  // Replaces text in valid UTF-8 as Hugging Face's tokenizers do: grapheme clusters of up to 5
  // bytes that the table has, otherwise single code points.
  std::string normalize(std::string_view text) const;

  // The same as SentencePiece does it: at each position the longest text in the table, otherwise
  // one character unchanged.
  std::string normalize_longest(std::string_view text) const;

 private:
  // The table entry for the shortest or longest prefix of `text`.
  struct Found {
    size_t n_bytes = 0;  // of the prefix; 0: none
    const char* replacement = "";
  };
  Found find(std::string_view text, bool longest) const;
  // Appends the replacement of `part`; false if there is none.
  bool replace(std::string_view part, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // zero-terminated
};

}  // namespace vesper
