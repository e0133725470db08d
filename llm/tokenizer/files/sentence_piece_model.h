// SentencePiece models: what a tokenizer.model (or GGUF metadata) says, and the tokenizer that it
// makes.
//
// The file is one protobuf message. Of protobuf this needs the wire format of three messages alone,
// which is 60 lines with every length checked; libprotobuf or libsentencepiece would be a library
// of megabytes, and an abort or an exception of its own for a damaged file.
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
  bool is_bpe = false;                // else unigram
  bool byte_fallback = false;
  int32_t unknown = 0, bos = 1, eos = 2, pad = -1;  // -1: none
  std::string charsmap;                             // see PrecompiledNormalizer
  bool add_dummy_prefix = true;                     // a space before every text
  bool remove_extra_whitespaces = true;             // at both ends, and of runs all but one
};

// `name` stands for the file in messages. Throws Error(kModel).
SentencePieceModel read_sentence_piece_model(const std::string& name,
                                             std::span<const uint8_t> bytes);

// With no special tokens around a text: which there are is for other files to say.
TokenizerParts tokenizer_of_sentence_piece(const SentencePieceModel& model);

}  // namespace vesper
