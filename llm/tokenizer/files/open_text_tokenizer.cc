#include "llm/tokenizer/files/open_text_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/files/gguf_tokenizer.h"
#include "llm/tokenizer/files/sentence_piece_model.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/files/vocabulary_and_merges.h"
#include "llm/tokenizer/models/word_piece.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"

namespace vesper {
namespace {

using nlohmann::json;

// BERT's list of tokens, one per line. `config`: tokenizer_config.json, or null.
TokenizerParts read_vocabulary_text(const MappedFile& file, const json& config) {
  const std::string& name = file.name();
  TokenizerParts parts;
  const std::vector<std::string_view> lines = file.lines();
  if (lines.size() > kMaxVocabulary) {
    fail_in_file(name, "expected at most " + std::to_string(kMaxVocabulary) + " tokens");
  }
  parts.spellings.assign(lines.begin(), lines.end());
  BertNormalization normalization;
  normalization.lower_case = truth_member(name, config, "do_lower_case", true);
  normalization.strip_accents =
      truth_member(name, config, "strip_accents", normalization.lower_case);
  normalization.space_chinese_characters =
      truth_member(name, config, "tokenize_chinese_chars", true);
  parts.kind = "WordPiece";
  parts.normalizations = {normalize_as_bert(normalization)};
  parts.splitters = {split_at_white_space(), split_at_punctuation(SplitBehavior::kIsolated)};
  const auto words =
      std::make_shared<const Vocabulary>(parts.spellings, Vocabulary::Duplicates::kFirst);
  for (const char* spelling : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    AddedToken token;
    token.spelling = spelling;
    token.id = words->find(spelling);
    token.special = true;
    if (token.id >= 0) parts.added.push_back(std::move(token));
  }
  for (const auto& [spelling, place] :
       {std::pair("[CLS]", &parts.before), {"[SEP]", &parts.after}}) {
    const int32_t id = words->find(spelling);
    if (id < 0) fail_in_file(name, std::string("expected a token ") + spelling + ", found none");
    place->push_back(id);
  }
  parts.pair = {parts.before, parts.after, parts.after, true};
  parts.encode_piece = piece_encoder<WordPiece>(words, WordPiece::Settings{});
  const json decoder = {{"type", "WordPiece"}};
  read_json_decoder(name, &decoder, parts);
  return parts;
}

// Special tokens of tokenizer_config.json, config.json and generation_config.json.
class SpecialTokens {
 public:
  SpecialTokens(const ModelFiles& files, TokenizerParts& parts) : files_(files), parts_(parts) {}

  void read(const json& config) {
    const std::string name = (files_.folder() / "tokenizer_config.json").string();
    // Without a tokenizer.json, this has the added tokens.
    const json* decoder = find_member(config, "added_tokens_decoder");
    if (parts_.added.empty() && decoder != nullptr && decoder->is_object()) {
      for (const auto& [id, entry] : decoder->items()) add_token(name, id, entry);
    }
    take_named(name, config, "bos_token", parts_.bos);
    take_named(name, config, "eos_token", parts_.eos);
    take_named(name, config, "pad_token", parts_.pad);
    for (const char* file_name : {"generation_config.json", "config.json"}) {
      if (!files_.has(file_name)) continue;
      const auto file = files_.open(file_name);
      const json root = parse_json(*file);
      if (const json* eos = find_member(root, "eos_token_id")) {
        for (const json& id : eos->is_array() ? *eos : json::array({*eos})) {
          const int32_t end = json_token_id(file->name(), id);
          // A model may have more embedding rows than its tokenizer has tokens.
          if (static_cast<size_t>(end) < parts_.spellings.size()) parts_.stop_ids.push_back(end);
        }
      }
    }
  }

 private:
  void add_token(const std::string& name, const std::string& id, const json& entry) {
    AddedToken token = read_json_added_token(name, entry);
    int64_t number = -1;
    if (id.size() < 8 && id.find_first_not_of("0123456789") == std::string::npos && !id.empty()) {
      number = std::stoll(id);
    }
    if (number < 0 || number >= static_cast<int64_t>(kMaxVocabulary) || token.spelling.empty()) {
      fail_in_file(name,
                   "expected added tokens by id, with their content; found " + shown_json(&entry));
    }
    token.id = static_cast<int32_t>(number);
    const auto place = static_cast<size_t>(number);
    if (place >= parts_.spellings.size()) {
      parts_.spellings.resize(place + 1);
      parts_.bytes.resize(place + 1);
    }
    parts_.spellings[place] = parts_.bytes[place] = token.spelling;
    parts_.added.push_back(std::move(token));
  }

  // A token given by its spelling, or by an object with it.
  void take_named(const std::string& name, const json& config, const char* key, int32_t& id) {
    const json* member = find_member(config, key);
    if (member == nullptr) return;
    const std::string spelling = member->is_object() ? text_member(name, *member, "content", "")
                                                     : text_member(name, config, key, "");
    const auto found = std::find(parts_.spellings.begin(), parts_.spellings.end(), spelling);
    if (found != parts_.spellings.end() && !spelling.empty()) {
      id = static_cast<int32_t>(found - parts_.spellings.begin());
    }
  }

  const ModelFiles& files_;
  TokenizerParts& parts_;
};

// Adds the file to errors of the tokenizer's parts.
template <typename Make>
std::unique_ptr<TextTokenizer> named(const std::string& name, const Make& make) try {
  return std::make_unique<TextTokenizer>(make());
} catch (const Error& error) {
  const std::string message = error.what();
  if (message.starts_with(name)) throw;
  throw Error(error.kind(), name + ": " + message);
}

}  // namespace

std::unique_ptr<TextTokenizer> open_text_tokenizer(const ModelFiles& files) {
  const std::string folder = files.folder().string();
  const json config = files.has("tokenizer_config.json")
                          ? parse_json(*files.open("tokenizer_config.json"))
                          : json::object();
  return named(folder, [&] {
    TokenizerParts parts;
    if (files.has("tokenizer.json")) {
      const auto file = files.open("tokenizer.json");
      parts = read_tokenizer_json(file->name(), parse_json(*file));
    } else if (files.has("tokenizer.model")) {
      const auto file = files.open("tokenizer.model");
      parts = tokenizer_of_sentence_piece(read_sentence_piece_model(file->name(), file->bytes()));
      if (truth_member(folder, config, "add_bos_token", true) && parts.bos >= 0) {
        parts.before.push_back(parts.bos);
      }
      if (truth_member(folder, config, "add_eos_token", false) && parts.eos >= 0) {
        parts.after.push_back(parts.eos);
      }
    } else if (files.has("vocab.json") && files.has("merges.txt")) {
      const auto merges = files.open("merges.txt");
      parts = read_vocabulary_and_merges(folder, parse_json(*files.open("vocab.json")),
                                         merges->lines(), config);
    } else if (files.has("vocab.txt")) {
      parts = read_vocabulary_text(*files.open("vocab.txt"), config);
    } else {
      fail_in_file(
          folder,
          "expected tokenizer.json, tokenizer.model, vocab.json with merges.txt, or vocab.txt "
          "beside the weights, found none (token ids can be given instead of text)");
    }
    SpecialTokens(files, parts).read(config);
    return parts;
  });
}

std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path,
                                                   const Gguf& gguf) {
  const std::string name = path.string();
  return named(name, [&] { return read_gguf_tokenizer(name, gguf); });
}

std::unique_ptr<TextTokenizer> open_text_tokenizer(const std::filesystem::path& path) {
  const ModelFiles files = model_folder(path);
  std::shared_ptr<const MappedFile> file;
  if (path == files.folder()) {
    const auto names = files.names_ending_with(".gguf");
    const bool is_split = !names.empty() && names.front().find("-00001-of-") != std::string::npos;
    if (names.size() == 1 || is_split) file = files.open(names.front());
  } else {
    file = std::make_shared<const MappedFile>(path);
  }
  if (file == nullptr || !is_gguf(*file)) return open_text_tokenizer(files);
  return named(path.string(),
               [&] { return read_gguf_tokenizer(path.string(), read_gguf_files(files, file)); });
}

}  // namespace vesper
