#include "llm/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>

#include "error/error.h"
#include "llm/tokenizer/byte_level.h"
#include "llm/tokenizer/byte_pair_encoding.h"
#include "llm/tokenizer/end_tokens.h"
#include "llm/tokenizer/text_splitters.h"

namespace vesper {
namespace {

// tokenizer.ggml.token_type: what kind of token one is.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

constexpr size_t kMaxVocabulary = 4'000'000;

class Reader {
 public:
  Reader(const std::string& name, const Gguf& gguf) : name_(name), gguf_(gguf) {}

  TokenizerParts read() {
    const std::string model(gguf_.find_string("tokenizer.ggml.model").value_or(""));
    read_tokens();
    if (model == "gpt2") {
      read_byte_level();
    } else {
      fail(model.empty() ? "expected a tokenizer in the metadata (tokenizer.ggml.model), found none"
                         : "expected a tokenizer of kind gpt2, found \"" + model + "\"");
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

  std::shared_ptr<const TokenIndex> index_of_spellings(
      std::shared_ptr<const std::vector<std::string>> spellings) const {
    auto index = std::shared_ptr<TokenIndex>(
        new TokenIndex, [spellings](const TokenIndex* of_spellings) { delete of_spellings; });
    index->reserve(spellings->size());
    for (size_t id = 0; id < spellings->size(); ++id) {
      if (!(*spellings)[id].empty()) {
        index->insert_or_assign((*spellings)[id], static_cast<int32_t>(id));
      }
    }
    return index;
  }

  void read_byte_level() {
    const std::string pre(gguf_.find_string("tokenizer.ggml.pre").value_or(""));
    const PreTokenizerRow* row = find_pre_tokenizer(pre);
    if (row == nullptr) {
      fail("tokenizer.ggml.pre: expected a pre-tokenizer that is known, found \"" + pre + "\"");
    }
    parts_.kind = "byte-level BPE, " + (pre.empty() ? "default" : pre);
    for (const std::string_view pattern : row->patterns) {
      parts_.splitters.push_back(split_by_pattern(pattern, SplitBehavior::kIsolated, false));
    }
    parts_.splitters.push_back(spell_bytes(truth("tokenizer.ggml.add_space_prefix", false)));
    for (size_t id = 0; id < parts_.spellings.size(); ++id) {
      parts_.bytes.push_back(types_[id] == kNormal ? bytes_of_byte_level(parts_.spellings[id])
                                                   : parts_.spellings[id]);
    }
    const GgufValue* merges = gguf_.find("tokenizer.ggml.merges");
    if (merges == nullptr || merges->n_elements > kMaxVocabulary) {
      fail("expected tokenizer.ggml.merges with at most " + std::to_string(kMaxVocabulary) +
           " merges");
    }
    std::vector<std::pair<std::string, std::string>> pairs;
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
    BytePairEncoding::Settings settings;
    settings.ignore_merges = row->ignore_merges;
    const auto index =
        index_of_spellings(std::make_shared<const std::vector<std::string>>(parts_.spellings));
    parts_.encode_piece =
        [index, model = std::make_shared<const BytePairEncoding>(*index, pairs, settings)](
            std::string_view piece, std::vector<int32_t>& ids) { model->encode(piece, ids); };
  }

  bool truth(std::string_view key, bool otherwise) const {
    const GgufValue* value = gguf_.find(key);
    return value == nullptr ? otherwise : value->as_bool().value_or(otherwise);
  }

  int32_t special_id(const char* key) const {
    const auto id = gguf_.find_unsigned(std::string("tokenizer.ggml.") + key + "_token_id");
    // Files exist that mark "none" by the largest number.
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
      if (const int32_t id = special_id(key); id >= 0) parts_.ends.push_back(id);
    }
    for (const AddedToken& token : parts_.added) {
      if (ends_an_answer(token.spelling)) parts_.ends.push_back(token.id);
    }
    if (truth("tokenizer.ggml.add_bos_token", false) && parts_.bos >= 0) {
      parts_.before.push_back(parts_.bos);
    }
    if (truth("tokenizer.ggml.add_eos_token", false) && parts_.eos >= 0) {
      parts_.after.push_back(parts_.eos);
    }
  }

  const std::string& name_;
  const Gguf& gguf_;
  TokenizerParts parts_;
  std::vector<int64_t> types_;  // by id
};

}  // namespace

TokenizerParts read_gguf_tokenizer(const std::string& name, const Gguf& gguf) {
  return Reader(name, gguf).read();
}

}  // namespace vesper
