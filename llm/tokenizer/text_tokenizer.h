// A language model's tokenizer, whatever its kind: text to token ids and back. In come the files of
// a model (GGUF metadata, a Hugging Face tokenizer.json, a SentencePiece tokenizer.model), out come
// ids; `generate`, `embed` and `inspect` call it.
//
// A text goes through: added tokens that stand for themselves are cut out; what is between them is
// normalized, cut into pieces (the pre-tokenizer), and each piece becomes tokens (the model: BPE,
// unigram or WordPiece). That is also how Hugging Face's tokenizers work, whose ids are met.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/models/added_tokens.h"
#include "llm/tokenizer/models/vocabulary.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {

// Appends the tokens of a piece.
using PieceEncoder = std::function<void(std::string_view, std::vector<int32_t>&)>;
// That of a model with these arguments: MergeListEncoding, RankedEncoding, Unigram, WordPiece.
template <class Model, class... Arguments>
PieceEncoder piece_encoder(Arguments&&... arguments) {
  return [model = std::make_shared<const Model>(std::forward<Arguments>(arguments)...)](
             std::string_view piece, std::vector<int32_t>& ids) { model->encode(piece, ids); };
}

// What a reader of files makes a tokenizer of. Token ids are below n_vocab everywhere.
struct TokenizerParts {
  std::string kind;                    // in words: "byte-level BPE, smollm"
  std::vector<std::string> spellings;  // by id, as the file has them; empty where there is none
  std::vector<std::string> bytes;      // by id, what a token adds to a text; empty: its spelling
  std::vector<AddedToken> added;       // special ones among them
  std::vector<Normalization> normalizations;  // in this order
  std::vector<PieceSplitter> splitters;       // in this order
  PieceEncoder encode_piece;
  std::vector<int32_t> before, after;  // special tokens around a text
  int32_t bos = -1, eos = -1, pad = -1, unknown = -1;
  std::vector<int32_t> ends;  // what ends an answer besides eos and added tokens known for it
  bool knows_bytes = false;   // pieces are spelled in byte-level letters
  // A text's first token loses the space that its spelling begins with when it is decoded.
  bool drops_first_space = false;
};

// Safe to use from several threads at once.
class TextTokenizer {
 public:
  // Throws Error(kModel) if an id is out of range.
  explicit TextTokenizer(TokenizerParts parts);

  // Any bytes; those that are no UTF-8 count as U+FFFD: vocabularies are learnt from text, and many
  // have no token for a byte that no text has.
  // `parse_special`: spellings of special tokens in the text mean those tokens, else they are text.
  // `add_special`: the special tokens that the model wants around a text come with it.
  std::vector<int32_t> encode(std::string_view text, bool parse_special, bool add_special) const;

  // What a token adds to a text: a space where its spelling says so; its spelling if it is special.
  // Half a character is possible. Empty for ids without a token.
  std::string_view bytes_of(int32_t id) const;
  // As the vocabulary has it, byte-level letters and all. Empty for ids without a token.
  std::string_view spelling_of(int32_t id) const;
  // A control token, such as the end of a turn: no part of an answer.
  bool is_special(int32_t id) const;
  // The token of exactly that spelling, or -1. Special ones are found too.
  int32_t find(std::string_view spelling) const;

  int32_t bos() const { return parts_.bos; }  // -1 if there is none
  int32_t eos() const { return parts_.eos; }  // -1 if there is none
  int32_t pad() const { return parts_.pad; }  // -1 if there is none
  // All that end an answer: end of text, of turn, of message. Ascending; may be empty.
  std::span<const int32_t> ends() const { return parts_.ends; }
  bool is_end(int32_t id) const;
  // The special tokens that encode() puts before and behind a text with `add_special`.
  std::span<const int32_t> before() const { return parts_.before; }
  std::span<const int32_t> after() const { return parts_.after; }

  uint32_t n_vocab() const { return vocabulary_.size(); }
  const std::string& kind() const { return parts_.kind; }
  bool drops_first_space() const { return parts_.drops_first_space; }

  // The text of all, special tokens left out unless asked for. Valid UTF-8.
  std::string decode(std::span<const int32_t> ids, bool with_special = false) const;

 private:
  void encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;

  TokenizerParts parts_;          // without spellings, which vocabulary_ has
  std::vector<bool> is_special_;  // by id
  Vocabulary vocabulary_;
  AddedTokens raw_added_, normalized_added_;
};

// Text from tokens, as they come: valid UTF-8 at every moment. A token that is half a character is
// held back until the other half is there.
class TextStream {
 public:
  // The tokenizer must outlive this. Special tokens give their spelling if asked for, else nothing.
  explicit TextStream(const TextTokenizer& tokenizer, bool with_special = false)
      : tokenizer_(&tokenizer), with_special_(with_special) {}

  // The text that this token completes; may be empty.
  std::string push(int32_t id);
  // The end: what was held back, as U+FFFD. Ready for a new text afterwards.
  std::string finish();

 private:
  const TextTokenizer* tokenizer_;
  bool with_special_;
  bool at_start_ = true;
  Utf8Stream stream_;
};

}  // namespace vesper
