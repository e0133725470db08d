// SentencePiece models: reads tokenizer.model (or GGUF metadata) and makes the tokenizer.
//
// The file is one protobuf message. Reading the wire format of three messages takes 60 lines with
// every length checked; libprotobuf and libsentencepiece are megabytes, and abort or throw their
// own exceptions on damaged files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llm/tokenizer/models/unigram.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // by token id
  bool is_bpe = false;                // otherwise unigram
  bool byte_fallback = false;
  int32_t unknown = 0, bos = 1, eos = 2, pad = -1;  // -1: none
  std::string charsmap;                             // see PrecompiledNormalizer
  bool add_dummy_prefix = true;                     // a space before every text
  bool remove_extra_whitespaces = true;             // at both ends, and in runs except one
};

// `name` is the file in messages. Throws Error(kModel).
SentencePieceModel read_sentence_piece_model(const std::string& name,
                                             std::span<const uint8_t> bytes);

// Without special tokens around a text, which other files define.
TokenizerParts tokenizer_of_sentence_piece(const SentencePieceModel& model);

}  // namespace vesper
