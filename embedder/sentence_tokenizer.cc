#include "embedder/sentence_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/weights/json_file.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr size_t kMaxVocabulary = 4'000'000;

[[noreturn]] void fail(const std::string& name, const std::string& message) {
  throw Error(ErrorKind::kModel, name + ": " + message);
}

std::string shown(const json* value) {
  return value == nullptr ? "none" : value->dump(-1, ' ', true).substr(0, 60);
}

// A member of type text, or `otherwise`.
std::string text_member(const std::string& name, const json& object, const char* key,
                        const std::string& otherwise) {
  const json* value = find_member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    fail(name, std::string("expected ") + key + " to be a text, found " + shown(value));
  }
  return value->get<std::string>();
}

bool truth_member(const std::string& name, const json& object, const char* key, bool otherwise) {
  const json* value = find_member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    fail(name, std::string("expected ") + key + " to be true or false, found " + shown(value));
  }
  return value->get<bool>();
}

int32_t token_id(const std::string& name, const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxVocabulary) {
    fail(name, "expected a token id below " + std::to_string(kMaxVocabulary) + ", found " +
                   shown(&value));
  }
  return value.get<int32_t>();
}

std::vector<std::string> vocabulary_of(const std::string& name, const json& ids_by_spelling) {
  if (!ids_by_spelling.is_object()) fail(name, "expected model.vocab with token ids by spelling");
  std::vector<std::string> vocabulary;
  for (const auto& [spelling, id] : ids_by_spelling.items()) {
    const auto place = static_cast<size_t>(token_id(name, id));
    if (place >= vocabulary.size()) vocabulary.resize(place + 1);
    vocabulary[place] = spelling;
  }
  return vocabulary;
}

BertNormalization bert_normalization(const std::string& name, const json* normalizer) {
  const std::string type =
      normalizer == nullptr ? "none" : text_member(name, *normalizer, "type", "none");
  if (type != "BertNormalizer") {
    fail(name, "expected normalizer BertNormalizer beside a WordPiece model, found " + type);
  }
  BertNormalization normalization;
  normalization.clean_text = truth_member(name, *normalizer, "clean_text", true);
  normalization.space_chinese_characters =
      truth_member(name, *normalizer, "handle_chinese_chars", true);
  normalization.lower_case = truth_member(name, *normalizer, "lowercase", true);
  normalization.strip_accents =
      truth_member(name, *normalizer, "strip_accents", normalization.lower_case);
  return normalization;
}

std::string bytes_of_base64(const std::string& name, const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) fail(name, "expected precompiled_charsmap in base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes += static_cast<char>(bits >> n_bits & 255);
    }
  }
  return bytes;
}

// The steps of a member that is one step, or a sequence of them under `list`.
std::vector<const json*> steps_of(const std::string& name, const json& root, const char* key,
                                  const char* list) {
  const json* step = find_member(root, key);
  if (step == nullptr) return {};
  if (text_member(name, *step, "type", "") != "Sequence") return {step};
  std::vector<const json*> steps;
  const json* parts = find_member(*step, list);
  if (parts == nullptr || !parts->is_array()) fail(name, std::string("expected ") + list);
  for (const json& part : *parts) steps.push_back(&part);
  return steps;
}

// Of the normalizers and pre-tokenizers that stand beside unigram models.
Unigram::Settings unigram_settings(const std::string& name, const json& root) {
  Unigram::Settings settings;
  settings.joins_spaces = settings.splits_white_space = settings.prefixes_words = false;
  for (const json* step : steps_of(name, root, "normalizer", "normalizers")) {
    const std::string type = text_member(name, *step, "type", "none");
    if (type == "Precompiled") {
      settings.charsmap =
          bytes_of_base64(name, text_member(name, *step, "precompiled_charsmap", ""));
    } else if (type == "Strip") {
      settings.strips_start = truth_member(name, *step, "strip_left", true);
      settings.strips_end = truth_member(name, *step, "strip_right", true);
    } else if (type == "Replace") {
      const json* pattern = find_member(*step, "pattern");
      if (pattern == nullptr || text_member(name, *pattern, "Regex", "") != " {2,}") {
        fail(name, "expected a normalizer that joins spaces, found " + shown(step));
      }
      settings.joins_spaces = true;
    } else {
      fail(name, "expected a normalizer of SentencePiece, found " + type);
    }
  }
  for (const json* step : steps_of(name, root, "pre_tokenizer", "pretokenizers")) {
    const std::string type = text_member(name, *step, "type", "none");
    if (type == "WhitespaceSplit") {
      settings.splits_white_space = true;
    } else if (type == "Metaspace" && truth_member(name, *step, "split", true) &&
               text_member(name, *step, "replacement", "\u2581") == "\u2581") {
      settings.prefixes_words = text_member(name, *step, "prepend_scheme", "always") != "never" &&
                                truth_member(name, *step, "add_prefix_space", true);
    } else {
      fail(name, "expected a pre-tokenizer of SentencePiece, found " + shown(step));
    }
  }
  return settings;
}

std::unique_ptr<Unigram> read_unigram(const std::string& name, const json& root,
                                      const json& model) {
  if (truth_member(name, model, "byte_fallback", false)) {
    fail(name, "expected a unigram model without byte_fallback");
  }
  const json* vocabulary = find_member(model, "vocab");
  const json* unknown = find_member(model, "unk_id");
  if (vocabulary == nullptr || !vocabulary->is_array() || vocabulary->size() > kMaxVocabulary ||
      unknown == nullptr) {
    fail(name, "expected a unigram model with vocab and unk_id");
  }
  std::vector<Unigram::Piece> pieces;
  pieces.reserve(vocabulary->size());
  for (const json& piece : *vocabulary) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      fail(name, "expected pieces with their scores, found " + shown(&piece));
    }
    pieces.push_back({piece[0].get<std::string>(), piece[1].get<double>()});
  }
  return std::make_unique<Unigram>(std::move(pieces), token_id(name, *unknown),
                                   unigram_settings(name, root));
}

std::unique_ptr<WordPiece> read_word_piece(const std::string& name, const json& root,
                                           const json& model) {
  WordPiece::Settings settings;
  settings.normalization = bert_normalization(name, find_member(root, "normalizer"));
  settings.unknown = text_member(name, model, "unk_token", settings.unknown);
  settings.continuation =
      text_member(name, model, "continuing_subword_prefix", settings.continuation);
  if (const uint32_t most = count_member(name, model, "max_input_chars_per_word"); most != 0) {
    settings.max_word_characters = most;
  }
  const json* vocabulary = find_member(model, "vocab");
  return std::make_unique<WordPiece>(
      vocabulary_of(name, vocabulary == nullptr ? json() : *vocabulary), settings);
}

// The special tokens around a text, as a post-processor states them.
struct Surroundings {
  std::vector<int32_t> before, after;
};

void read_template(const std::string& name, const json& processor, Surroundings& around) {
  const json* single = find_member(processor, "single");
  const json* special = find_member(processor, "special_tokens");
  if (single == nullptr || !single->is_array()) fail(name, "expected a template with single");
  bool past_text = false;
  for (const json& piece : *single) {
    if (find_member(piece, "Sequence") != nullptr) {
      past_text = true;
      continue;
    }
    const json* token = find_member(piece, "SpecialToken");
    const std::string spelling = token == nullptr ? "" : text_member(name, *token, "id", "");
    const json* entry = special == nullptr ? nullptr : find_member(*special, spelling.c_str());
    const json* ids = entry == nullptr ? nullptr : find_member(*entry, "ids");
    if (ids == nullptr || !ids->is_array()) {
      fail(name, "expected ids for the special token of a template, found " + shown(&piece));
    }
    for (const json& id : *ids) {
      (past_text ? around.after : around.before).push_back(token_id(name, id));
    }
  }
}

void read_post_processor(const std::string& name, const json& processor, Surroundings& around) {
  const std::string type = text_member(name, processor, "type", "none");
  if (type == "TemplateProcessing") return read_template(name, processor, around);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto add = [&](const char* key, std::vector<int32_t>& to) {
      const json* token = find_member(processor, key);
      if (token == nullptr || !token->is_array() || token->size() != 2) {
        fail(name, std::string("expected ") + key + " with a token and its id");
      }
      to.push_back(token_id(name, (*token)[1]));
    };
    add("cls", around.before);
    return add("sep", around.after);
  }
  if (type == "ByteLevel") return;  // concerns offsets alone
  fail(name, "expected a post-processor that is known, found " + type);
}

}  // namespace

SentenceTokenizer::SentenceTokenizer(const ModelFiles& files) {
  if (files.has("tokenizer.json")) {
    read_tokenizer_json(*files.open("tokenizer.json"));
  } else if (files.has("vocab.txt")) {
    read_vocabulary_text(files);
  } else {
    fail(files.folder().string(),
         "expected tokenizer.json or vocab.txt beside the weights, found neither (token ids can "
         "be given by --input-ids)");
  }
  // The longest spelling counts where several begin at one place.
  std::stable_sort(added_.begin(), added_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.spelling.size() > b.spelling.size();
  });
}

void SentenceTokenizer::read_tokenizer_json(const MappedFile& file) {
  const std::string& name = file.name();
  const json root = parse_json(file);
  const json* model = find_member(root, "model");
  const std::string type = model == nullptr ? "none" : text_member(name, *model, "type", "none");
  if (type == "WordPiece") {
    words_ = read_word_piece(name, root, *model);
  } else if (type == "Unigram") {
    unigram_ = read_unigram(name, root, *model);
  } else {
    fail(name, "expected a tokenizer of type WordPiece or Unigram, found " + type);
  }
  if (const json* added = find_member(root, "added_tokens"); added != nullptr) {
    if (!added->is_array()) fail(name, "expected added_tokens to be a list");
    for (const json& token : *added) {
      const std::string spelling = text_member(name, token, "content", "");
      const json* id = find_member(token, "id");
      if (spelling.empty() || id == nullptr)
        fail(name, "expected added tokens with content and id");
      added_.push_back({spelling, token_id(name, *id)});
    }
  }
  if (const json* processor = find_member(root, "post_processor"); processor != nullptr) {
    Surroundings around;
    const json* parts = find_member(*processor, "processors");
    if (parts != nullptr && parts->is_array()) {
      for (const json& part : *parts) read_post_processor(name, part, around);
    } else {
      read_post_processor(name, *processor, around);
    }
    before_ = std::move(around.before);
    after_ = std::move(around.after);
  }
}

void SentenceTokenizer::read_vocabulary_text(const ModelFiles& files) {
  const auto file = files.open("vocab.txt");
  std::vector<std::string> vocabulary;
  std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  while (!text.empty()) {  // the last line's end may be missing
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    vocabulary.emplace_back(line);
    if (vocabulary.size() > kMaxVocabulary) {
      fail(file->name(), "expected at most " + std::to_string(kMaxVocabulary) + " tokens");
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  WordPiece::Settings settings;
  if (files.has("tokenizer_config.json")) {
    const auto config_file = files.open("tokenizer_config.json");
    const json config = parse_json(*config_file);
    BertNormalization& normalization = settings.normalization;
    normalization.lower_case = truth_member(config_file->name(), config, "do_lower_case", true);
    normalization.strip_accents =
        truth_member(config_file->name(), config, "strip_accents", normalization.lower_case);
    normalization.space_chinese_characters =
        truth_member(config_file->name(), config, "tokenize_chinese_chars", true);
  }
  words_ = std::make_unique<WordPiece>(std::move(vocabulary), settings);
  for (const char* spelling : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    const int32_t id = words_->find(spelling);
    if (id >= 0) added_.push_back({spelling, id});
  }
  for (const auto& [spelling, place] : {std::pair("[CLS]", &before_), {"[SEP]", &after_}}) {
    const int32_t id = words_->find(spelling);
    if (id < 0) fail(file->name(), std::string("expected a token ") + spelling + ", found none");
    place->push_back(id);
  }
}

uint32_t SentenceTokenizer::n_vocab() const {
  return static_cast<uint32_t>(words_ ? words_->vocabulary().size() : unigram_->n_pieces());
}

std::string SentenceTokenizer::spelling(int32_t id) const {
  const auto added = std::find_if(added_.begin(), added_.end(),
                                  [&](const AddedToken& token) { return token.id == id; });
  if (added != added_.end()) return added->spelling;
  if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) return {};
  return words_ ? words_->vocabulary()[static_cast<size_t>(id)] : unigram_->piece(id);
}

void SentenceTokenizer::encode_part(std::string_view text, std::vector<int32_t>& ids) const {
  if (words_) {
    words_->encode(text, ids);
  } else {
    unigram_->encode(text, ids);
  }
}

TokenizedText SentenceTokenizer::encode(std::string_view text, uint32_t max_tokens) const {
  TokenizedText result;
  std::vector<int32_t>& ids = result.ids;
  ids = before_;
  // Up to the next added token, the text is the model's; then comes that token.
  while (!text.empty()) {
    size_t begin = text.size();
    const AddedToken* next = nullptr;
    for (const AddedToken& token : added_) {
      const size_t at = text.substr(0, begin + token.spelling.size()).find(token.spelling);
      if (at == std::string_view::npos || at >= begin) continue;
      begin = at;
      next = &token;
    }
    encode_part(text.substr(0, begin), ids);
    text.remove_prefix(begin);
    if (next == nullptr) break;
    ids.push_back(next->id);
    text.remove_prefix(next->spelling.size());
  }
  result.n_tokens = static_cast<uint32_t>(ids.size() + after_.size());
  if (result.n_tokens > max_tokens) ids.resize(max_tokens - after_.size());
  ids.insert(ids.end(), after_.begin(), after_.end());
  return result;
}

}  // namespace vesper
