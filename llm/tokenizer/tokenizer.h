// Turns text into token ids and back: byte-level byte-pair encoding, as in GPT-2 and Whisper. In
// comes a vocabulary from a model's files; the decoders call it for prompts and for what was said.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/tokenizer/pre_tokenizer.h"

namespace vesper {

// Byte-pair encoding whose rank is the token's id (tiktoken's kind). Safe to use from several
// threads at once.
class Tokenizer {
 public:
  // `vocabulary`: raw bytes by token id. Ids from `n_text_tokens` on are special: encode() never
  // gives them, decode() does give their bytes. Throws Error(kModel) if one of the 256 bytes has no
  // token of its own, or `pattern` is no pattern.
  Tokenizer(std::vector<std::string> vocabulary, uint32_t n_text_tokens,
            std::string_view pattern = kGpt2Pattern);
  Tokenizer(const Tokenizer&) = delete;  // the index points into the vocabulary
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes: what is no UTF-8 is encoded byte by byte. Time grows as n log n within a piece.
  std::vector<int32_t> encode(std::string_view text) const;
  // The bytes of one token; empty for ids that the vocabulary does not have.
  std::string_view bytes_of(int32_t id) const;
  // The bytes of all, which need not be UTF-8: valid_utf8() or Utf8Stream make text of them.
  std::string decode(std::span<const int32_t> ids) const;

  // The token that stands for exactly these bytes, or -1.
  int32_t find(std::string_view bytes) const;
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }

 private:
  void encode_piece(std::string_view piece, std::vector<int32_t>& ids) const;

  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string_view, int32_t> id_of_;  // text tokens only
  size_t longest_ = 0;                                   // bytes of the longest text token
  PreTokenizer pre_tokenizer_;
};

}  // namespace vesper
