#include <algorithm>
#include <nlohmann/json.hpp>

#include "llm/conversion/gguf_keys.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/tokenizer/files/sentence_piece_model.h"
#include "llm/tokenizer/models/vocabulary.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {
namespace {

using nlohmann::json;

// tokenizer.ggml.token_type
enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

class TokenizerKeys {
 public:
  TokenizerKeys(const ModelFiles& files, uint32_t n_vocab, GgufWriter& writer)
      : files_(files), name_(files.folder().string()), n_vocab_(n_vocab), writer_(writer) {}

  void write() {
    tokenizer_ = open_text_tokenizer(files_);
    if (tokenizer_->n_vocab() > n_vocab_) {
      fail_in_file(name_, "expected a tokenizer of at most " + std::to_string(n_vocab_) +
                              " tokens, the model's, found " +
                              std::to_string(tokenizer_->n_vocab()));
    }
    read_tokens();
    const json root =
        files_.has("tokenizer.json") ? parse_json(*files_.open("tokenizer.json")) : json::object();
    const json* found = find_member(root, "model");
    const json model = found == nullptr ? json::object() : *found;
    const std::string kind = tokenizer_->kind();
    if (kind.starts_with("byte-level BPE") && find_member(model, "merges") != nullptr) {
      write_byte_level(root, model);
    } else if (kind == "WordPiece") {
      write_word_piece(model);
    } else if (text_member(name_, model, "type", "") == "Unigram") {
      write_unigram(root, model);
    } else if (files_.has("tokenizer.model")) {
      write_sentence_piece();
    } else if (truth_member(name_, model, "byte_fallback", false) && kind == "BPE") {
      write_merges_as_sentence_piece(root, model);
    } else {
      fail_in_file(name_,
                   "expected a tokenizer that GGUF can state (byte-level BPE, SentencePiece "
                   "BPE, unigram or WordPiece), found " +
                       kind);
    }
    write_special_ids(kind == "WordPiece");
  }

 private:
  void read_tokens() {
    for (uint32_t i = 0; i < n_vocab_; ++i) {
      const auto id = static_cast<int32_t>(i);
      std::string spelling(tokenizer_->spelling_of(id));
      const bool is_unused = spelling.empty();
      if (is_unused) spelling = "[PAD" + std::to_string(i) + "]";
      types_.push_back(is_unused ? kUnused : tokenizer_->is_special(id) ? kControl : kNormal);
      tokens_.push_back(std::move(spelling));
    }
  }

  // Added tokens that are not special are found in a text as they are.
  void mark_added(const json& root) {
    const json* added = find_member(root, "added_tokens");
    if (added == nullptr || !added->is_array()) return;
    for (const json& entry : *added) {
      const json* id = find_member(entry, "id");
      if (id == nullptr || !id->is_number_unsigned() || *id >= n_vocab_) continue;
      int32_t& type = types_[id->get<size_t>()];
      if (type == kNormal) type = kUserDefined;
    }
  }

  void write_tokens(const char* model, std::string_view pre) {
    writer_.add("tokenizer.ggml.model", model);
    writer_.add("tokenizer.ggml.pre", pre);
    writer_.add("tokenizer.ggml.tokens", tokens_);
    writer_.add("tokenizer.ggml.token_type", types_);
  }

  static std::pair<std::string, std::string> parts_of(const json& merge) {
    if (merge.is_array()) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    return {text.substr(0, space), text.substr(space + 1)};
  }

  // Adds the regular expressions of a pre-tokenizer's step. False for another kind of step.
  bool read_patterns(const json& step, std::vector<std::string>& patterns) const {
    const std::string type = text_member(name_, step, "type", "none");
    if (type == "Sequence") {
      const json* steps = find_member(step, "pretokenizers");
      return steps != nullptr && steps->is_array() &&
             std::all_of(steps->begin(), steps->end(),
                         [&](const json& part) { return read_patterns(part, patterns); });
    }
    if (type == "ByteLevel") {
      if (truth_member(name_, step, "use_regex", true)) patterns.emplace_back(kGpt2Pattern);
      return !truth_member(name_, step, "add_prefix_space", true);
    }
    if (type == "Digits") {
      patterns.emplace_back("\\p{N}");
      return truth_member(name_, step, "individual_digits", false);
    }
    const json* pattern = type == "Split" ? find_member(step, "pattern") : nullptr;
    if (pattern == nullptr || find_member(*pattern, "Regex") == nullptr) return false;
    patterns.push_back(text_member(name_, *pattern, "Regex", ""));
    const bool is_inverted = truth_member(name_, step, "invert", false);
    return text_member(name_, step, "behavior", "Isolated") ==
           (is_inverted ? "Removed" : "Isolated");
  }

  void write_byte_level(const json& root, const json& model) {
    std::vector<std::string> patterns;
    const json* step = find_member(root, "pre_tokenizer");
    const bool is_listed = step != nullptr && read_patterns(*step, patterns);
    const std::string_view pre =
        pre_tokenizer_name(patterns, truth_member(name_, model, "ignore_merges", false));
    if (!is_listed || pre.empty()) {
      fail_in_file(name_,
                   "expected a pre-tokenizer that GGUF has a name for, found " + shown_json(step));
    }
    mark_added(root);
    write_tokens("gpt2", pre);
    std::vector<std::string> merges;
    for (const json& merge : *find_member(model, "merges")) {
      const auto [left, right] = parts_of(merge);
      merges.push_back(left + " " + right);
    }
    writer_.add("tokenizer.ggml.merges", merges);
  }

  // Words begin with a mark, and continuations have no prefix.
  void write_word_piece(const json& model) {
    const std::string prefix = text_member(name_, model, "continuing_subword_prefix", "##");
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] != kNormal) continue;
      std::string& token = tokens_[id];
      token =
          token.starts_with(prefix) ? token.substr(prefix.size()) : std::string(kSpaceMark) + token;
    }
    write_tokens("bert", "jina-v2-en");
  }

  void write_sentence_piece() {
    const auto file = files_.open("tokenizer.model");
    const SentencePieceModel model = read_sentence_piece_model(file->name(), file->bytes());
    if (!model.is_bpe) fail_in_file(name_, "expected a SentencePiece model of kind BPE");
    std::vector<float> scores(tokens_.size());
    for (size_t id = 0; id < std::min(model.pieces.size(), tokens_.size()); ++id) {
      scores[id] = static_cast<float>(model.pieces[id].score);
      types_[id] = static_cast<int32_t>(model.pieces[id].type);
      tokens_[id] = model.pieces[id].text;
    }
    for (size_t id = model.pieces.size(); id < tokens_.size(); ++id) {
      if (types_[id] == kNormal) types_[id] = kUserDefined;
    }
    write_tokens("llama", "default");
    writer_.add("tokenizer.ggml.scores", scores);
    writer_.add("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  }

  // The pieces with their scores, and SentencePiece's table of replacements.
  void write_unigram(const json& root, const json& model) {
    std::vector<float> scores(tokens_.size());
    const json& pieces = *find_member(model, "vocab");  // checked by the tokenizer's reader
    for (size_t id = 0; id < std::min(pieces.size(), scores.size()); ++id) {
      scores[id] = pieces[id][1].get<float>();
    }
    const json* unknown = find_member(model, "unk_id");
    if (unknown != nullptr && *unknown < types_.size()) {
      types_[unknown->get<size_t>()] = kUnknown;
      write_id("unknown", unknown->get<int32_t>());
    }
    if (truth_member(name_, model, "byte_fallback", false)) {
      fail_in_file(name_, "expected a unigram tokenizer without byte_fallback, found one with it");
    }
    mark_added(root);
    write_tokens("t5", "default");
    writer_.add("tokenizer.ggml.scores", scores);
    writer_.add("tokenizer.ggml.add_space_prefix", true);
    writer_.add("tokenizer.ggml.remove_extra_whitespaces", true);
    const json* normalizer = find_member(root, "normalizer");
    if (normalizer == nullptr) return;
    const json* steps = find_member(*normalizer, "normalizers");
    for (const json& step : steps == nullptr ? json::array({*normalizer}) : *steps) {
      if (text_member(name_, step, "type", "") != "Precompiled") continue;
      writer_.add_bytes(
          "tokenizer.ggml.precompiled_charsmap",
          bytes_of_base64(name_, text_member(name_, step, "precompiled_charsmap", "")));
    }
  }

  // A tokenizer.json made from a SentencePiece model: its merges are in the order of the tokens
  // that they make, so the negative id serves as a score.
  void write_merges_as_sentence_piece(const json& root, const json& model) {
    int32_t last = -1;
    for (const json& merge : *find_member(model, "merges")) {
      const auto [left, right] = parts_of(merge);
      const int32_t made = tokenizer_->find(left + right);
      if (made < last) {
        fail_in_file(name_,
                     "expected merges in the order of their tokens, as SentencePiece has "
                     "them, found \"" +
                         left + right + "\" behind a later one");
      }
      last = made;
    }
    std::vector<float> scores(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      scores[id] = -static_cast<float>(id);
      if (types_[id] == kNormal && byte_of_token(tokens_[id])) types_[id] = kByte;
    }
    mark_added(root);
    if (const int32_t unknown = tokenizer_->find(text_member(name_, model, "unk_token", ""));
        unknown >= 0) {
      types_[static_cast<size_t>(unknown)] = kUnknown;
      writer_.add("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(unknown));
    }
    write_tokens("llama", "default");
    writer_.add("tokenizer.ggml.scores", scores);
    // "a" begins with a mark if the tokenizer puts a space before a text.
    const std::vector<int32_t> ids = tokenizer_->encode("a", false, false);
    writer_.add("tokenizer.ggml.add_space_prefix",
                !ids.empty() && tokenizer_->spelling_of(ids[0]).starts_with(kSpaceMark));
  }

  void write_id(const char* key, int32_t id) {
    if (id >= 0)
      writer_.add(std::string("tokenizer.ggml.") + key + "_token_id", static_cast<uint32_t>(id));
  }

  void write_special_ids(bool is_bert) {
    const auto before = tokenizer_->before(), after = tokenizer_->after();
    const bool adds_before = !before.empty(), adds_after = !after.empty();
    if (is_bert) {
      write_id("cls", adds_before ? before[0] : -1);
      write_id("seperator", adds_after ? after[0] : -1);  // [sic]
      write_id("unknown", tokenizer_->find("[UNK]"));
      write_id("mask", tokenizer_->find("[MASK]"));
      writer_.add("tokenizer.ggml.add_sep_token", adds_after);
    } else {
      write_id("eos", adds_after ? after[0] : tokenizer_->eos());
      writer_.add("tokenizer.ggml.add_eos_token", adds_after);
      for (const int32_t id : tokenizer_->stop_ids()) {
        if (id == tokenizer_->eos()) continue;
        write_id("eot", id);
        break;
      }
    }
    write_id("bos", adds_before ? before[0] : tokenizer_->bos());
    writer_.add("tokenizer.ggml.add_bos_token", adds_before);
    write_id("padding", tokenizer_->pad());
  }

  const ModelFiles& files_;
  std::string name_;
  uint32_t n_vocab_;
  GgufWriter& writer_;
  std::unique_ptr<TextTokenizer> tokenizer_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
};

}  // namespace

bool write_tokenizer_keys(const ModelFiles& files, uint32_t n_vocab, GgufWriter& writer) {
  const bool has_tokenizer = files.has("tokenizer.json") || files.has("tokenizer.model") ||
                             files.has("vocab.json") || files.has("vocab.txt");
  if (has_tokenizer) {
    TokenizerKeys(files, n_vocab, writer).write();
  } else {
    writer.add("tokenizer.ggml.model", "no_vocab");
  }
  return has_tokenizer;
}

}  // namespace vesper
