#include "llm/tokenizer/files/vocabulary_and_merges.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/steps/text_splitters.h"

namespace vesper {
namespace {

using nlohmann::json;

// Properties of a transformers class that its files do not state.
struct TokenizerClass {
  std::vector<std::string_view> names;
  std::string_view pre_tokenizer;  // a name of pre_tokenizer_table.cc
  bool is_composed = false;        // texts are normalized to NFC
  // Its tokens if the files name none; with `wraps`, the first is before every text and the second
  // after it.
  std::vector<std::string_view> special = {"<|endoftext|>"};
  bool wraps = false;
};

const TokenizerClass* find_class(std::string_view name) {
  static const std::vector<TokenizerClass> classes = {
      {{"", "GPT2Tokenizer", "CodeGenTokenizer", "WhisperTokenizer"}, "gpt-2"},
      {{"Qwen2Tokenizer"}, "qwen2", true},
      {{"RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "MvpTokenizer"},
       "gpt-2",
       false,
       {"<s>", "</s>", "<pad>", "<unk>", "<mask>"},
       true},
  };
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const TokenizerClass& each) {
    return std::find(each.names.begin(), each.names.end(), name) != each.names.end();
  });
  return found == classes.end() ? nullptr : &*found;
}

json merge_list(const std::vector<std::string_view>& lines) {
  json merges = json::array();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || (i == 0 && lines[i].starts_with("#version"))) continue;
    merges.push_back(std::string(lines[i]));
  }
  return merges;
}

}  // namespace

TokenizerParts read_vocabulary_and_merges(const std::string& name, const json& vocabulary,
                                          const std::vector<std::string_view>& merges,
                                          const json& config) {
  const std::string class_name = text_member(name, config, "tokenizer_class", "");
  const TokenizerClass* of = find_class(class_name);
  if (of == nullptr) {
    throw Error(ErrorKind::kModel, name + ": expected a tokenizer_class that is known, found \"" +
                                       class_name + "\" (a tokenizer.json would say what it does)");
  }
  json pieces = {{"type", "ByteLevel"},
                 {"add_prefix_space", truth_member(name, config, "add_prefix_space", false)}};
  if (of->pre_tokenizer != "gpt-2") {  // the ByteLevel step has its pattern
    const auto& patterns = find_pre_tokenizer(of->pre_tokenizer)->patterns;
    pieces = {{"type", "Sequence"},
              {"pretokenizers",
               json::array(
                   {{{"type", "Split"},
                     {"pattern", {{"Regex", std::string(patterns.front())}}},
                     {"behavior", "Isolated"}},
                    {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}})}};
  }
  json root = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merge_list(merges)}}},
               {"pre_tokenizer", std::move(pieces)},
               {"decoder", {{"type", "ByteLevel"}}}};
  if (of->is_composed) root["normalizer"] = {{"type", "NFC"}};
  const auto id_of = [&](std::string_view spelling) {
    return find_member(vocabulary, std::string(spelling).c_str());
  };
  if (of->wraps) {
    const auto processor_token = [&](size_t i) {
      const json* id = id_of(of->special[i]);
      if (id == nullptr) {
        throw Error(ErrorKind::kModel, name + ": expected a token " + std::string(of->special[i]) +
                                           " in vocab.json, found none");
      }
      return json::array({std::string(of->special[i]), *id});
    };
    root["post_processor"] = {
        {"type", "RobertaProcessing"}, {"cls", processor_token(0)}, {"sep", processor_token(1)}};
  }
  if (find_member(config, "added_tokens_decoder") == nullptr) {
    for (const std::string_view spelling : of->special) {
      if (const json* id = id_of(spelling)) {
        root["added_tokens"].push_back({{"id", *id},
                                        {"content", std::string(spelling)},
                                        {"special", true},
                                        {"lstrip", spelling == "<mask>"}});
      }
    }
  }
  return read_tokenizer_json(name, root);
}

}  // namespace vesper
