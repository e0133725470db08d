// A tokenizer of any kind: text to token ids and back. In: the files of a model (GGUF metadata, a
// Hugging Face tokenizer.json, a SentencePiece tokenizer.model). Out: ids. Called by `generate`,
// `embed` and `inspect`.
//
// Added tokens are cut out of a text first. The text between them is normalized, split into pieces
// (the pre-tokenizer), and each piece becomes tokens (the model: BPE, unigram or WordPiece). The
// ids equal those of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
// The encoder of a model with these arguments: MergeListEncoding, RankedEncoding, Unigram,
// WordPiece.
template <class Model, class... Arguments>
PieceEncoder piece_encoder(Arguments&&... arguments) {
  return [model = std::make_shared<const Model>(std::forward<Arguments>(arguments)...)](
             std::string_view piece, std::vector<int32_t>& ids) { model->encode(piece, ids); };
}

// The special tokens of two texts that a model reads as a pair.
struct PairTemplate {
  std::vector<int32_t> before, between, after;
  bool has_types = false;  // tokens from the second text on are of type 1
};

// The parts of a tokenizer, filled by file readers. Token ids are below n_vocab.
struct TokenizerParts {
  std::string kind;                           // for people: "byte-level BPE, smollm"
  std::vector<std::string> spellings;         // by id, as in the file; empty without a token
  std::vector<std::string> bytes;             // by id, text of a token; empty: its spelling
  std::vector<AddedToken> added;              // including special ones
  std::vector<Normalization> normalizations;  // in this order
  std::vector<PieceSplitter> splitters;       // in this order
  PieceEncoder encode_piece;
  std::vector<int32_t> before, after;  // special tokens around a text
  std::optional<PairTemplate> pair;    // of the tokenizers of encoders
  int32_t bos = -1, eos = -1, pad = -1, unknown = -1;
  std::vector<int32_t> stop_ids;  // additional tokens that end an answer, besides eos and known
                                  // added tokens
  bool knows_bytes = false;       // pieces are in byte-level spelling
  // Decoding removes the leading space of the first token.
  bool drops_first_space = false;
};

// Thread-safe.
class TextTokenizer {
 public:
  // Throws Error(kModel) if an id is out of range.
  explicit TextTokenizer(TokenizerParts parts);

  // Accepts any bytes; invalid UTF-8 becomes U+FFFD, because many vocabularies have no tokens for
  // such bytes. `parse_special`: spellings of special tokens become those tokens, otherwise text.
  // `add_special`: adds the model's special tokens around a text.
  std::vector<int32_t> encode(std::string_view text, bool parse_special, bool add_special) const;

  // The text of a token, including a space; the spelling of a special token. May be part of a
  // character. Empty for ids without a token.
  std::string_view bytes_of(int32_t id) const;
  // The spelling in the vocabulary, such as byte-level characters. Empty for ids without a token.
  std::string_view spelling_of(int32_t id) const;
  // A control token, such as the end of a turn; not part of an answer.
  bool is_special(int32_t id) const;
  // The token with exactly this spelling, or -1. Also finds special tokens.
  int32_t find(std::string_view spelling) const;

  int32_t bos() const { return parts_.bos; }  // -1 if there is none
  int32_t eos() const { return parts_.eos; }  // -1 if there is none
  int32_t pad() const { return parts_.pad; }  // -1 if there is none
  // The tokens that end an answer: end of text, of turn, of message. Ascending; may be empty.
  std::span<const int32_t> stop_ids() const { return parts_.stop_ids; }
  bool is_end(int32_t id) const;
  // Whether the tokens are those of messages on channels (OpenAI's harmony format). An answer then
  // has several messages, and <|end|> ends one of them, not the answer.
  bool has_channels() const { return has_channels_; }
  // The special tokens that encode() adds before and after a text with `add_special`.
  std::span<const int32_t> before() const { return parts_.before; }
  std::span<const int32_t> after() const { return parts_.after; }

  // How two texts become a pair; null if the files do not say.
  const PairTemplate* pair() const { return parts_.pair ? &*parts_.pair : nullptr; }

  uint32_t n_vocab() const { return vocabulary_.size(); }
  const std::string& kind() const { return parts_.kind; }
  bool drops_first_space() const { return parts_.drops_first_space; }

  // The text of all tokens, optionally with special ones. Valid UTF-8.
  std::string decode(std::span<const int32_t> ids, bool with_special = false) const;

 private:
  void encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;

  TokenizerParts parts_;  // without spellings, which are in vocabulary_
  bool has_channels_ = false;
  std::vector<bool> is_special_;  // by id
  Vocabulary vocabulary_;
  AddedTokens raw_added_, normalized_added_;
};

// Text of successive tokens as valid UTF-8. A token with part of a character is held back until the
// character is complete.
class TextStream {
 public:
  // The tokenizer must outlive this object. `with_special`: special tokens give their spelling,
  // otherwise nothing.
  explicit TextStream(const TextTokenizer& tokenizer, bool with_special = false)
      : tokenizer_(&tokenizer), with_special_(with_special) {}

  // The text that this token completes; may be empty.
  std::string push(int32_t id);
  // Ends the text: the held back bytes as U+FFFD. Then ready for a new text.
  std::string finish();

 private:
  const TextTokenizer* tokenizer_;
  bool with_special_;
  bool at_start_ = true;
  Utf8Stream stream_;
};

}  // namespace vesper
