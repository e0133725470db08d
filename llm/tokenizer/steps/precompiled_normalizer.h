// SentencePiece's normalization: a table of replacements that a model's file carries in compiled
// form (a double array trie of darts-clone, then the texts it leads to).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

class PrecompiledNormalizer {
 public:
  // `table`: the bytes of precompiled_charsmap; empty for no replacements. Throws Error(kModel) if
  // they are not one.
  explicit PrecompiledNormalizer(std::string_view table);

  // Valid UTF-8 with everything replaced: a user-perceived character of up to 5 bytes as a whole
  // where the table has it, else each of its code points, as Hugging Face's tokenizers do.
  std::string normalize(std::string_view text) const;

  // The same as SentencePiece itself does it: at each place the longest text that the table has, or
  // a character as it is.
  std::string normalize_longest(std::string_view text) const;

 private:
  // What the table has for the shortest or the longest beginning of `text`.
  struct Found {
    size_t n_bytes = 0;  // of the beginning; 0: it has nothing
    const char* replacement = "";
  };
  Found find(std::string_view text, bool longest) const;
  // Appends what stands for `part`; false if the table has nothing for it.
  bool replace(std::string_view part, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a NUL
};

}  // namespace vesper
