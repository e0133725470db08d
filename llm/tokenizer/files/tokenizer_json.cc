#include "llm/tokenizer/files/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/steps/byte_level.h"
#include "llm/tokenizer/steps/normalizations.h"

namespace vesper {
namespace {

using nlohmann::json;

void read_added_tokens(const std::string& name, const json& list, TokenizerParts& parts) {
  if (!list.is_array()) fail_in_file(name, "expected added_tokens to be a list");
  const bool normalizes = !parts.normalizations.empty();
  for (const json& entry : list) {
    AddedToken token = read_json_added_token(name, entry);
    const json* id = find_member(entry, "id");
    if (token.spelling.empty() || id == nullptr) {
      fail_in_file(name, "expected added tokens with content and id, found " + shown_json(&entry));
    }
    token.id = json_token_id(name, *id);
    token.normalized = normalizes && truth_member(name, entry, "normalized", !token.special);
    const auto place = static_cast<size_t>(token.id);
    if (place >= parts.spellings.size()) parts.spellings.resize(place + 1);
    parts.spellings[place] = token.spelling;
    if (token.normalized) {
      // It is searched in the normalized text.
      for (const Normalization& normalize : parts.normalizations) {
        token.spelling = normalize(token.spelling);
      }
    }
    parts.added.push_back(std::move(token));
  }
}

// The ids of a special token of a template.
std::vector<int32_t> template_ids(const std::string& name, const json& processor,
                                  const json& piece) {
  const json* special = find_member(processor, "special_tokens");
  const json* token = find_member(piece, "SpecialToken");
  const std::string spelling = token == nullptr ? "" : text_member(name, *token, "id", "");
  const json* entry = special == nullptr ? nullptr : find_member(*special, spelling.c_str());
  const json* ids = entry == nullptr ? nullptr : find_member(*entry, "ids");
  if (ids == nullptr || !ids->is_array()) {
    fail_in_file(name,
                 "expected ids for the special token of a template, found " + shown_json(&piece));
  }
  std::vector<int32_t> found;
  for (const json& id : *ids) found.push_back(json_token_id(name, id));
  return found;
}

// Calls `place(n)` for the list of a special token after n texts of the template `pieces`, and
// `on_text(type)` for each text.
template <class Place, class OnText>
void read_pieces(const std::string& name, const json& processor, const json& pieces,
                 const Place& place, const OnText& on_text) {
  size_t n_texts = 0;
  for (const json& piece : pieces) {
    if (const json* text = find_member(piece, "Sequence")) {
      const json* type = find_member(*text, "type_id");
      on_text(type != nullptr && *type == 1);
      ++n_texts;
      continue;
    }
    const std::vector<int32_t> ids = template_ids(name, processor, piece);
    std::vector<int32_t>& to = place(n_texts);
    to.insert(to.end(), ids.begin(), ids.end());
  }
}

void read_template(const std::string& name, const json& processor, TokenizerParts& parts) {
  const json* single = find_member(processor, "single");
  if (single == nullptr || !single->is_array())
    fail_in_file(name, "expected a template with single");
  read_pieces(
      name, processor,
      *single, [&](size_t n_texts) -> auto& { return n_texts > 0 ? parts.after : parts.before; },
      [](bool) {});
  const json* pair = find_member(processor, "pair");
  if (pair == nullptr || !pair->is_array()) return;
  PairTemplate read;
  size_t n_texts = 0;
  read_pieces(
      name, processor, *pair,
      [&](size_t n) -> auto& { return n == 0   ? read.before
                                      : n == 1 ? read.between
                                               : read.after; },
      [&](bool is_second_type) {
        ++n_texts;
        read.has_types = is_second_type;
      });
  if (n_texts == 2) parts.pair = std::move(read);
}

void read_post_processor(const std::string& name, const json& processor, TokenizerParts& parts) {
  const std::string type = text_member(name, processor, "type", "none");
  if (type == "TemplateProcessing") return read_template(name, processor, parts);
  const bool is_bert = type == "BertProcessing";
  if (is_bert || type == "RobertaProcessing") {
    const auto id_of = [&](const char* key) {
      const json* token = find_member(processor, key);
      if (token == nullptr || !token->is_array() || token->size() != 2) {
        fail_in_file(name, std::string("expected ") + key + " with a token and its id");
      }
      return json_token_id(name, (*token)[1]);
    };
    const int32_t begin = id_of("cls"), end = id_of("sep");
    parts.before.push_back(begin);
    parts.after.push_back(end);
    // RoBERTa has two separators and one type.
    parts.pair = {{begin}, is_bert ? std::vector{end} : std::vector{end, end}, {end}, is_bert};
    return;
  }
  if (type == "ByteLevel") return;  // only affects offsets
  fail_in_file(name, "expected a post-processor that is known, found \"" + type + "\"");
}

// How spellings of tokens are decoded to text.
struct Decoding {
  bool is_byte_level = false;
  bool has_byte_tokens = false;
  std::string space = "";       // replaced by a space
  std::string continuation;     // prefix of a token that continues a word
  std::string end_of_word;      // suffix of a token that ends a word
  bool spaces_between = false;  // tokens that do not continue a word begin with a space
  bool drops_first_space = false;
};

void read_decoder_step(const std::string& name, const json& step, Decoding& decoding) {
  const std::string type = text_member(name, step, "type", "none");
  if (type == "ByteLevel") {
    decoding.is_byte_level = true;
  } else if (type == "ByteFallback") {
    decoding.has_byte_tokens = true;
  } else if (type == "Metaspace") {
    decoding.space = text_member(name, step, "replacement", std::string(kSpaceMark));
    decoding.drops_first_space = text_member(name, step, "prepend_scheme", "always") != "never" &&
                                 truth_member(name, step, "add_prefix_space", true);
  } else if (type == "Replace") {
    const json* pattern = find_member(step, "pattern");
    if (pattern != nullptr && text_member(name, step, "content", "") == " ") {
      decoding.space = text_member(name, *pattern, "String", "");
    }
  } else if (type == "Strip") {
    const json* start = find_member(step, "start");
    decoding.drops_first_space |= start != nullptr && start->is_number() &&
                                  start->get<double>() >= 1 &&
                                  text_member(name, step, "content", " ") == " ";
  } else if (type == "WordPiece") {
    decoding.continuation = text_member(name, step, "prefix", "##");
    decoding.spaces_between = decoding.drops_first_space = true;
  } else if (type == "BPEDecoder") {
    decoding.end_of_word = text_member(name, step, "suffix", "</w>");
  } else if (type != "Fuse" && type != "CTC") {
    fail_in_file(name, "expected a decoder that is known, found \"" + type + "\"");
  }
}

std::string decoded(const std::string& spelling, const Decoding& decoding) {
  if (decoding.is_byte_level) return bytes_of_byte_level(spelling);
  if (decoding.has_byte_tokens) {
    if (const auto byte = byte_of_token(spelling)) return {*byte};
  }
  if (decoding.spaces_between) {
    return spelling.starts_with(decoding.continuation) && !decoding.continuation.empty()
               ? spelling.substr(decoding.continuation.size())
               : " " + spelling;
  }
  if (!decoding.end_of_word.empty() && spelling.ends_with(decoding.end_of_word)) {
    return spelling.substr(0, spelling.size() - decoding.end_of_word.size()) + " ";
  }
  return decoding.space.empty() ? spelling : replace_text(decoding.space, " ")(spelling);
}

}  // namespace

AddedToken read_json_added_token(const std::string& name, const json& entry) {
  AddedToken token;
  token.spelling = text_member(name, entry, "content", "");
  token.special = truth_member(name, entry, "special", false);
  token.takes_before = truth_member(name, entry, "lstrip", false);
  token.takes_after = truth_member(name, entry, "rstrip", false);
  token.single_word = truth_member(name, entry, "single_word", false);
  return token;
}

void read_json_decoder(const std::string& name, const json* decoder, TokenizerParts& parts) {
  Decoding decoding;
  if (decoder == nullptr) {
    decoding.spaces_between = decoding.drops_first_space = true;
  } else if (text_member(name, *decoder, "type", "none") == "Sequence") {
    const json* steps = find_member(*decoder, "decoders");
    if (steps == nullptr || !steps->is_array()) fail_in_file(name, "expected decoders");
    for (const json& step : *steps) read_decoder_step(name, step, decoding);
  } else {
    read_decoder_step(name, *decoder, decoding);
  }
  parts.drops_first_space = decoding.drops_first_space;
  parts.bytes.clear();
  std::vector<bool> is_added(parts.spellings.size());
  for (const AddedToken& token : parts.added) is_added[static_cast<size_t>(token.id)] = true;
  for (size_t id = 0; id < parts.spellings.size(); ++id) {
    parts.bytes.push_back(is_added[id] ? parts.spellings[id]
                                       : decoded(parts.spellings[id], decoding));
  }
}

TokenizerParts read_tokenizer_json(const std::string& name, const json& root) {
  TokenizerParts parts;
  const json* model = find_member(root, "model");
  if (model == nullptr) fail_in_file(name, "expected a model of a tokenizer, found none");
  read_json_model(name, *model, parts);
  if (const json* step = find_member(root, "normalizer")) read_json_normalizer(name, *step, parts);
  if (const json* step = find_member(root, "pre_tokenizer")) {
    read_json_pre_tokenizer(name, *step, parts);
  }
  if (parts.knows_bytes && parts.kind == "BPE") parts.kind = "byte-level BPE";
  if (const json* added = find_member(root, "added_tokens")) read_added_tokens(name, *added, parts);
  if (const json* processor = find_member(root, "post_processor"); processor != nullptr) {
    const json* steps = find_member(*processor, "processors");
    if (steps != nullptr && steps->is_array()) {
      for (const json& step : *steps) read_post_processor(name, step, parts);
    } else {
      read_post_processor(name, *processor, parts);
    }
  }
  read_json_decoder(name, find_member(root, "decoder"), parts);
  return parts;
}

}  // namespace vesper
