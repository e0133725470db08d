#include "llm/weights/whisper/vocabulary_file.h"

#include <algorithm>
#include <string_view>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/steps/byte_level.h"

namespace vesper {
namespace {

using nlohmann::json;

void place_token(const std::string& name, const std::string& spelling, const json& id,
                 uint32_t n_vocab, std::vector<std::string>& vocabulary) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= n_vocab) {
    fail_in_file(name, "expected token ids below " + std::to_string(n_vocab) + ", found " +
                           id.dump(-1, ' ', true).substr(0, 60));
  }
  const auto place = id.get<size_t>();
  if (place >= vocabulary.size()) vocabulary.resize(place + 1);
  vocabulary[place] = bytes_of_byte_level(spelling);
}

void place_tokens(const std::string& name, const json& ids_by_spelling, uint32_t n_vocab,
                  std::vector<std::string>& vocabulary) {
  if (!ids_by_spelling.is_object())
    fail_in_file(name, "expected an object of token ids by spelling");
  for (const auto& [spelling, id] : ids_by_spelling.items()) {
    place_token(name, spelling, id, n_vocab, vocabulary);
  }
}

}  // namespace

std::vector<std::string> read_ctranslate2_vocabulary(const ModelFiles& files) {
  std::vector<std::string> vocabulary;
  if (files.has("vocabulary.json")) {
    const auto file = files.open("vocabulary.json");
    const json list = parse_json(*file);
    if (!list.is_array()) fail_in_file(file->name(), "expected a list of tokens");
    vocabulary.reserve(list.size());
    for (const json& token : list) {
      if (!token.is_string()) {
        fail_in_file(file->name(),
                     "expected token " + std::to_string(vocabulary.size()) + " to be a string");
      }
      vocabulary.push_back(bytes_of_byte_level(token.get_ref<const std::string&>()));
    }
  } else if (files.has("vocabulary.txt")) {
    const auto file = files.open("vocabulary.txt");
    for (const std::string_view line : file->lines()) {
      vocabulary.push_back(bytes_of_byte_level(line));
    }
  }
  return vocabulary;
}

std::vector<std::string> read_tiktoken_vocabulary(const ModelFiles& files, uint32_t n_vocab) {
  constexpr uint32_t kEnglishVocabulary = 51864;
  const char* name = n_vocab == kEnglishVocabulary ? "gpt2.tiktoken" : "multilingual.tiktoken";
  std::vector<std::string> vocabulary;
  if (!files.has(name)) return vocabulary;
  const auto file = files.open(name);
  for (const std::string_view line : file->lines()) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || vocabulary.size() == n_vocab ||
        line.substr(space + 1) != std::to_string(vocabulary.size())) {
      fail_in_file(file->name(), "expected token " + std::to_string(vocabulary.size()) +
                                     " in base64 and its id in line " +
                                     std::to_string(vocabulary.size() + 1));
    }
    vocabulary.push_back(bytes_of_base64(file->name(), line.substr(0, space)));
  }
  return vocabulary;
}

std::vector<std::string> read_hugging_face_vocabulary(const ModelFiles& files, uint32_t n_vocab) {
  std::vector<std::string> vocabulary;
  if (files.has("vocab.json")) {
    for (const char* name : {"vocab.json", "added_tokens.json"}) {
      if (!files.has(name)) continue;
      const auto file = files.open(name);
      place_tokens(file->name(), parse_json(*file), n_vocab, vocabulary);
    }
  } else if (files.has("tokenizer.json")) {
    const auto file = files.open("tokenizer.json");
    const json tokenizer = parse_json(*file);
    const json* model = find_member(tokenizer, "model");
    const json* ids = model == nullptr ? nullptr : find_member(*model, "vocab");
    if (ids == nullptr) fail_in_file(file->name(), "expected a member model.vocab");
    place_tokens(file->name(), *ids, n_vocab, vocabulary);
    if (const json* added = find_member(tokenizer, "added_tokens"); added != nullptr) {
      if (!added->is_array()) fail_in_file(file->name(), "expected added_tokens to be a list");
      for (const json& token : *added) {
        const json* id = find_member(token, "id");
        const json* content = find_member(token, "content");
        if (id == nullptr || content == nullptr || !content->is_string()) {
          fail_in_file(file->name(), "expected added tokens to have an id and a content");
        }
        place_token(file->name(), content->get_ref<const std::string&>(), *id, n_vocab, vocabulary);
      }
    }
  }
  return vocabulary;
}

}  // namespace vesper
