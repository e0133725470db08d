#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/models/byte_pair_encoding.h"
#include "llm/tokenizer/models/unigram.h"
#include "llm/tokenizer/models/word_piece.h"

namespace vesper {
namespace {

using nlohmann::json;

// Fills parts.spellings. The last of several tokens with one spelling counts.
std::shared_ptr<const Vocabulary> read_vocabulary(const std::string& name, const json& model,
                                                  TokenizerParts& parts) {
  const json* ids = find_member(model, "vocab");
  if (ids == nullptr || !ids->is_object()) {
    fail_in_file(name, "expected model.vocab with token ids by spelling, found " + shown_json(ids));
  }
  for (const auto& [spelling, id] : ids->items()) {
    const auto place = static_cast<size_t>(json_token_id(name, id));
    if (place >= parts.spellings.size()) parts.spellings.resize(place + 1);
    parts.spellings[place] = spelling;
  }
  return std::make_shared<const Vocabulary>(parts.spellings, Vocabulary::Duplicates::kLast);
}

// The id of a token that the model names, or -1.
int32_t named_token(const std::string& name, const json& model, const char* key,
                    const Vocabulary& vocabulary) {
  const std::string spelling = text_member(name, model, key, "");
  if (spelling.empty()) return -1;
  const int32_t id = vocabulary.find(spelling);
  if (id < 0) {
    fail_in_file(name, std::string("expected ") + key + " to be a token, found " + spelling);
  }
  return id;
}

void read_bpe(const std::string& name, const json& model, TokenizerParts& parts) {
  const auto vocabulary = read_vocabulary(name, model, parts);
  const json* list = find_member(model, "merges");
  if (list == nullptr || !list->is_array() || list->size() > kMaxVocabulary) {
    fail_in_file(name, "expected merges of a BPE model");
  }
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(list->size());
  for (const json& merge : *list) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get_ref<const std::string&>(),
                          merge[1].get_ref<const std::string&>());
      continue;
    }
    const std::string_view text =
        merge.is_string() ? std::string_view(merge.get_ref<const std::string&>()) : "";
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) {
      fail_in_file(name, "expected merges of two parts, found " + shown_json(&merge));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  MergeListEncoding::Settings settings;
  settings.ignore_merges = truth_member(name, model, "ignore_merges", false);
  settings.byte_fallback = truth_member(name, model, "byte_fallback", false);
  settings.fuses_unknown = truth_member(name, model, "fuse_unk", false);
  settings.unknown = parts.unknown = named_token(name, model, "unk_token", *vocabulary);
  settings.continuing_prefix = text_member(name, model, "continuing_subword_prefix", "");
  settings.end_of_word_suffix = text_member(name, model, "end_of_word_suffix", "");
  parts.kind = "BPE";
  parts.encode_piece = piece_encoder<MergeListEncoding>(vocabulary, merges, settings);
}

// Parses a number like Hugging Face's tokenizers (serde_json's fast path): its digits as an
// integer, then one division or multiplication. The error of one unit in the last place decides
// between equal splits.
double score_of(double number) {
  std::array<char, 64> room{};
  const auto [end, error] = std::to_chars(room.data(), room.data() + room.size(), std::fabs(number),
                                          std::chars_format::scientific);
  if (error != std::errc() || !std::isfinite(number)) return number;
  uint64_t digits = 0;
  int n_decimals = 0, exponent = 0;
  const char* at = room.data();
  for (bool behind_point = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      behind_point = true;
    } else {
      digits = digits * 10 + static_cast<uint64_t>(*at - '0');
      n_decimals += behind_point ? 1 : 0;
    }
  }
  if (at != end) std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
  const int power = exponent - n_decimals;
  if (std::abs(power) > 22) return number;  // larger powers of ten are inexact
  const double scale = std::pow(10.0, std::abs(power));
  const auto whole = static_cast<double>(digits);
  const double magnitude = power < 0 ? whole / scale : whole * scale;
  return number < 0 ? -magnitude : magnitude;
}

void read_unigram(const std::string& name, const json& model, TokenizerParts& parts) {
  const json* vocabulary = find_member(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_array() || vocabulary->size() > kMaxVocabulary) {
    fail_in_file(name, "expected a unigram model with vocab, found " + shown_json(vocabulary));
  }
  std::vector<SentencePiece> pieces;
  pieces.reserve(vocabulary->size());
  for (const json& piece : *vocabulary) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      fail_in_file(name, "expected pieces with their scores, found " + shown_json(&piece));
    }
    pieces.push_back({piece[0].get<std::string>(), score_of(piece[1].get<double>())});
    parts.spellings.push_back(pieces.back().text);
  }
  const json* unknown = find_member(model, "unk_id");
  parts.unknown = unknown == nullptr ? -1 : json_token_id(name, *unknown);
  parts.kind = "unigram";
  parts.encode_piece = piece_encoder<Unigram>(std::move(pieces), parts.unknown,
                                              truth_member(name, model, "byte_fallback", false));
}

void read_word_piece(const std::string& name, const json& model, TokenizerParts& parts) {
  const auto vocabulary = read_vocabulary(name, model, parts);
  WordPiece::Settings settings;
  settings.unknown = text_member(name, model, "unk_token", settings.unknown);
  settings.continuation =
      text_member(name, model, "continuing_subword_prefix", settings.continuation);
  if (const uint32_t most = count_member(name, model, "max_input_chars_per_word"); most != 0) {
    settings.max_word_characters = most;
  }
  parts.unknown = vocabulary->find(settings.unknown);
  parts.kind = "WordPiece";
  parts.encode_piece = piece_encoder<WordPiece>(vocabulary, settings);
}

void read_word_level(const std::string& name, const json& model, TokenizerParts& parts) {
  const auto vocabulary = read_vocabulary(name, model, parts);
  parts.unknown = named_token(name, model, "unk_token", *vocabulary);
  parts.kind = "whole words";
  parts.encode_piece = [vocabulary, unknown = parts.unknown](std::string_view piece,
                                                             std::vector<int32_t>& ids) {
    const int32_t found = vocabulary->find(piece);
    const int32_t id = found < 0 ? unknown : found;
    if (id >= 0) ids.push_back(id);
  };
}

}  // namespace

int32_t json_token_id(const std::string& name, const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxVocabulary) {
    fail_in_file(name, "expected a token id below " + std::to_string(kMaxVocabulary) + ", found " +
                           shown_json(&value));
  }
  return value.get<int32_t>();
}

void read_json_model(const std::string& name, const json& model, TokenizerParts& parts) {
  std::string type = text_member(name, model, "type", "");
  // Files without a type.
  if (type.empty() && find_member(model, "merges") != nullptr) type = "BPE";
  if (type == "BPE") return read_bpe(name, model, parts);
  if (type == "Unigram") return read_unigram(name, model, parts);
  if (type == "WordPiece") return read_word_piece(name, model, parts);
  if (type == "WordLevel") return read_word_level(name, model, parts);
  fail_in_file(name, "expected a tokenizer of type BPE, Unigram, WordPiece or WordLevel, found \"" +
                         type + "\"");
}

}  // namespace vesper
