#include "llm/tokenizer/files/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/tokenizer/files/sentence_piece_model.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/models/byte_pair_encoding.h"
#include "llm/tokenizer/models/word_piece.h"
#include "llm/tokenizer/steps/byte_level.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"

namespace vesper {
namespace {

// tokenizer.ggml.token_type
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

class Reader {
 public:
  Reader(const std::string& name, const Gguf& gguf) : name_(name), gguf_(gguf) {}

  TokenizerParts read() {
    const std::string model(gguf_.find_string("tokenizer.ggml.model").value_or(""));
    read_tokens();
    if (model == "gpt2") {
      read_byte_level();
    } else if (model == "llama" || model == "gemma" || model == "t5") {
      read_sentence_piece(model == "t5");
    } else if (model == "bert") {
      read_word_piece();
    } else {
      fail(model.empty() ? "expected a tokenizer in the metadata (tokenizer.ggml.model), found none"
                         : "expected a tokenizer of kind gpt2, llama, gemma, t5 or bert, found \"" +
                               model + "\"");
    }
    read_special_ids();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, name_ + ": " + message);
  }

  void read_tokens() {
    const GgufValue* tokens = gguf_.find("tokenizer.ggml.tokens");
    if (tokens == nullptr || tokens->type != GgufType::kArray ||
        tokens->element_type != GgufType::kString || tokens->n_elements == 0 ||
        tokens->n_elements > kMaxVocabulary) {
      fail("expected tokenizer.ggml.tokens with 1 to " + std::to_string(kMaxVocabulary) +
           " strings");
    }
    parts_.spellings.reserve(tokens->n_elements);
    GgufElements next(*tokens);
    for (GgufValue token; next.next(token);) {
      parts_.spellings.emplace_back(token.as_string().value_or(""));
    }
    types_.assign(parts_.spellings.size(), kNormal);
    if (const GgufValue* types = gguf_.find("tokenizer.ggml.token_type"); types != nullptr) {
      if (types->n_elements != types_.size()) {
        fail("tokenizer.ggml.token_type: expected " + std::to_string(types_.size()) +
             " types, found " + std::to_string(types->n_elements));
      }
      GgufElements next_type(*types);
      GgufValue type;
      for (size_t i = 0; next_type.next(type); ++i) types_[i] = type.as_signed().value_or(kNormal);
    }
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] == kControl || types_[id] == kUserDefined) {
        AddedToken token;
        token.spelling = parts_.spellings[id];
        token.id = static_cast<int32_t>(id);
        token.special = types_[id] == kControl;
        parts_.added.push_back(std::move(token));
      }
    }
  }

  void read_byte_level() {
    const std::string pre(gguf_.find_string("tokenizer.ggml.pre").value_or(""));
    const PreTokenizerRow* row = find_pre_tokenizer(pre);
    if (row == nullptr) {
      fail("tokenizer.ggml.pre: expected a known pre-tokenizer, found \"" + pre + "\"");
    }
    parts_.kind = "byte-level BPE, " + (pre.empty() ? "default" : pre);
    for (const std::string_view pattern : row->patterns) {
      parts_.splitters.push_back(split_by_pattern(pattern, SplitBehavior::kIsolated, false));
    }
    parts_.splitters.push_back(spell_bytes());
    parts_.bytes.reserve(parts_.spellings.size());
    for (size_t id = 0; id < parts_.spellings.size(); ++id) {
      parts_.bytes.push_back(types_[id] == kNormal ? bytes_of_byte_level(parts_.spellings[id])
                                                   : parts_.spellings[id]);
    }
    const GgufValue* merges = gguf_.find("tokenizer.ggml.merges");
    if (merges == nullptr || merges->n_elements > kMaxVocabulary) {
      fail("expected tokenizer.ggml.merges with at most " + std::to_string(kMaxVocabulary) +
           " merges");
    }
    std::vector<std::pair<std::string_view, std::string_view>> pairs;
    pairs.reserve(merges->n_elements);
    GgufElements next(*merges);
    for (GgufValue merge; next.next(merge);) {
      const std::string_view text = merge.as_string().value_or("");
      const size_t space = text.find(' ', 1);  // the first part may be a space
      if (text.empty() || space == std::string_view::npos) {
        fail("tokenizer.ggml.merges: expected two parts and a space between them in merge " +
             std::to_string(pairs.size()));
      }
      pairs.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    MergeListEncoding::Settings settings;
    settings.ignore_merges = row->ignore_merges;
    parts_.encode_piece = piece_encoder<MergeListEncoding>(
        std::make_shared<const Vocabulary>(parts_.spellings, Vocabulary::Duplicates::kLast), pairs,
        settings);
  }

  void read_sentence_piece(bool is_unigram) {
    SentencePieceModel model;
    const GgufValue* scores = gguf_.find("tokenizer.ggml.scores");
    if (scores == nullptr || scores->n_elements != parts_.spellings.size()) {
      fail("expected tokenizer.ggml.scores with " + std::to_string(parts_.spellings.size()) +
           " scores");
    }
    GgufElements next(*scores);
    GgufValue score;
    for (size_t id = 0; next.next(score); ++id) {
      SentencePiece piece;
      piece.text = parts_.spellings[id];
      piece.score = static_cast<float>(score.as_number().value_or(0));
      if (!std::isfinite(piece.score)) fail("expected finite scores in tokenizer.ggml.scores");
      if (types_[id] >= kNormal && types_[id] <= kByte) {
        piece.type = static_cast<SentencePiece::Type>(types_[id]);
      }
      model.byte_fallback |= types_[id] == kByte;
      model.pieces.push_back(std::move(piece));
    }
    model.is_bpe = !is_unigram;
    model.unknown = special_id("unknown");
    model.bos = model.eos = -1;
    model.add_dummy_prefix = truth("tokenizer.ggml.add_space_prefix", true);
    model.remove_extra_whitespaces = truth("tokenizer.ggml.remove_extra_whitespaces", is_unigram);
    if (const GgufValue* charsmap = gguf_.find("tokenizer.ggml.precompiled_charsmap")) {
      if (charsmap->element_type != GgufType::kU8 && charsmap->element_type != GgufType::kI8) {
        fail("expected tokenizer.ggml.precompiled_charsmap to be bytes");
      }
      model.charsmap.assign(charsmap->bytes.begin(), charsmap->bytes.end());
    }
    parts_ = tokenizer_of_sentence_piece(model);
    adds_bos_ = !is_unigram;
    adds_eos_ = is_unigram;
  }

  // Words begin with U+2581 and continuations have no prefix, the opposite of BERT's own files.
  void read_word_piece() {
    std::vector<std::string> vocabulary = parts_.spellings;
    const bool has_signs = std::any_of(vocabulary.begin(), vocabulary.end(), [](const auto& text) {
      return text.starts_with(kSpaceMark);
    });
    for (size_t id = 0; id < vocabulary.size(); ++id) {
      std::string& text = vocabulary[id];
      const bool begins_word = text.starts_with(kSpaceMark);
      if (begins_word) {
        text.erase(0, kSpaceMark.size());
      } else if (has_signs && types_[id] == kNormal && !text.empty()) {
        text.insert(0, "##");
      }
      const bool goes_on = text.starts_with("##");
      parts_.bytes.push_back(types_[id] != kNormal ? text : goes_on ? text.substr(2) : " " + text);
    }
    const int32_t unknown = special_id("unknown");
    WordPiece::Settings settings;
    if (unknown >= 0) settings.unknown = vocabulary[static_cast<size_t>(unknown)];
    parts_.kind = "WordPiece";
    parts_.normalizations = {normalize_as_bert({})};
    parts_.splitters = {split_at_white_space(), split_at_punctuation(SplitBehavior::kIsolated)};
    parts_.drops_first_space = true;
    parts_.encode_piece = piece_encoder<WordPiece>(
        std::make_shared<const Vocabulary>(std::move(vocabulary), Vocabulary::Duplicates::kFirst),
        settings);
    is_bert_ = true;
  }

  bool truth(std::string_view key, bool otherwise) const {
    const GgufValue* value = gguf_.find(key);
    return value == nullptr ? otherwise : value->as_bool().value_or(otherwise);
  }

  int32_t special_id(const char* key) const {
    const auto id = gguf_.find_unsigned(std::string("tokenizer.ggml.") + key + "_token_id");
    // Some files use the largest number for "none".
    if (!id || *id == UINT32_MAX) return -1;
    if (*id >= parts_.spellings.size()) {
      fail(std::string("tokenizer.ggml.") + key + "_token_id: expected a token below " +
           std::to_string(parts_.spellings.size()) + ", found " + std::to_string(*id));
    }
    return static_cast<int32_t>(*id);
  }

  void read_special_ids() {
    parts_.bos = special_id("bos");
    parts_.eos = special_id("eos");
    parts_.pad = special_id("padding");
    parts_.unknown = special_id("unknown");
    for (const char* key : {"eot", "eom"}) {
      if (const int32_t id = special_id(key); id >= 0) parts_.stop_ids.push_back(id);
    }
    // Newer files have separate keys for BERT's begin and end.
    const int32_t begin = is_bert_ && special_id("cls") >= 0 ? special_id("cls") : parts_.bos;
    const int32_t end = is_bert_ ? special_id("seperator") : parts_.eos;  // [sic]
    if (truth("tokenizer.ggml.add_bos_token", adds_bos_ || is_bert_) && begin >= 0) {
      parts_.before.push_back(begin);
    }
    if (truth(is_bert_ ? "tokenizer.ggml.add_sep_token" : "tokenizer.ggml.add_eos_token",
              adds_eos_ || is_bert_) &&
        end >= 0) {
      parts_.after.push_back(end);
    }
    if (parts_.before.empty() || parts_.after.empty()) return;
    // BERT's pair, or RoBERTa's.
    std::vector<int32_t> between = parts_.after;
    if (!is_bert_) between.push_back(end);
    parts_.pair = {parts_.before, std::move(between), parts_.after, is_bert_};
  }

  const std::string& name_;
  const Gguf& gguf_;
  TokenizerParts parts_;
  std::vector<int64_t> types_;                                  // by id
  bool adds_bos_ = false, adds_eos_ = false, is_bert_ = false;  // defaults if the file does not say
};

}  // namespace

TokenizerParts read_gguf_tokenizer(const std::string& name, const Gguf& gguf) {
  return Reader(name, gguf).read();
}

}  // namespace vesper
