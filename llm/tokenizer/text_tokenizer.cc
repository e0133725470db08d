#include "llm/tokenizer/text_tokenizer.h"

#include <algorithm>
#include <array>

#include "error/error.h"

namespace vesper {
namespace {

// Spellings of tokens that end an answer. Files name one end-of-sequence token, but a chat model
// has several: of turns, of messages, of the base model's texts.
bool ends_an_answer(std::string_view spelling) {
  constexpr std::array<std::string_view, 20> kEnds = {"<|im_end|>",
                                                      "<|endoftext|>",
                                                      "<|eot_id|>",
                                                      "<|eom_id|>",
                                                      "<|end_of_text|>",
                                                      "<|end|>",
                                                      "<end_of_turn>",
                                                      "<|END_OF_TURN_TOKEN|>",
                                                      "<|end_of_turn|>",
                                                      "<end_of_utterance>",
                                                      "<|endofturn|>",
                                                      "[|endofturn|]",
                                                      "<|eot|>",
                                                      "<|return|>",
                                                      "<|call|>",
                                                      "<\xef\xbd\x9c"
                                                      "end\xe2\x96\x81"
                                                      "of\xe2\x96\x81"
                                                      "sentence\xef\xbd\x9c>",
                                                      "<EOT>",
                                                      "_<EOT>",
                                                      "<turn|>",
                                                      "<|role_end|>"};
  return std::find(kEnds.begin(), kEnds.end(), spelling) != kEnds.end();
}

}  // namespace

TextTokenizer::TextTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  const size_t n = parts_.spellings.size();
  if (!parts_.bytes.empty()) parts_.bytes.resize(n);
  const auto check = [&](int32_t id, const std::string& what) {
    if (id < 0 || static_cast<size_t>(id) >= n) {
      throw Error(ErrorKind::kModel, "expected " + what + " among " + std::to_string(n) +
                                         " tokens, found token " + std::to_string(id));
    }
  };
  is_special_.resize(n);
  for (const AddedToken& token : parts_.added) {
    check(token.id, "the added token \"" + token.spelling + "\"");
    if (token.special) is_special_[static_cast<size_t>(token.id)] = true;
    if (ends_an_answer(token.spelling)) parts_.stop_ids.push_back(token.id);
  }
  for (const int32_t id : parts_.before) check(id, "a token before a text");
  for (const int32_t id : parts_.after) check(id, "a token after a text");
  if (parts_.pair) {
    for (const auto* ids : {&parts_.pair->before, &parts_.pair->between, &parts_.pair->after}) {
      for (const int32_t id : *ids) check(id, "a token of a pair");
    }
  }
  for (int32_t* id : {&parts_.bos, &parts_.eos, &parts_.pad, &parts_.unknown}) {
    if (*id != -1) check(*id, "a special token");
  }
  const auto has_token = [&](std::string_view spelling) {
    return std::any_of(parts_.added.begin(), parts_.added.end(),
                       [&](const AddedToken& token) { return token.spelling == spelling; });
  };
  has_channels_ = has_token("<|channel|>") && has_token("<|message|>") && has_token("<|return|>");
  if (has_channels_) {
    std::erase_if(parts_.stop_ids, [&](int32_t id) {
      return static_cast<size_t>(id) < n && parts_.spellings[static_cast<size_t>(id)] == "<|end|>";
    });
  }
  std::vector<int32_t>& stop_ids = parts_.stop_ids;
  if (parts_.eos >= 0) stop_ids.push_back(parts_.eos);
  for (const int32_t id : stop_ids) check(id, "a token that ends an answer");
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());

  vocabulary_ = Vocabulary(std::move(parts_.spellings), Vocabulary::Duplicates::kFirst);
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : parts_.added) {
    (token.normalized ? normalized : raw).push_back(token);
  }
  raw_added_ = AddedTokens(std::move(raw));
  normalized_added_ = AddedTokens(std::move(normalized));
}

void TextTokenizer::encode_text(std::string_view text, bool at_start,
                                std::vector<int32_t>& ids) const {
  std::vector<TextPiece> pieces = {{std::string(text), at_start}};
  std::vector<TextPiece> parts;
  for (const PieceSplitter& split : parts_.splitters) {
    parts.clear();
    for (const TextPiece& piece : pieces) split(piece, parts);
    std::swap(pieces, parts);
  }
  for (const TextPiece& piece : pieces) {
    if (!piece.text.empty()) parts_.encode_piece(piece.text, ids);
  }
}

std::vector<int32_t> TextTokenizer::encode(std::string_view text, bool parse_special,
                                           bool add_special) const {
  if (text.size() >= UINT32_MAX / 4) {
    throw Error(ErrorKind::kInput, "expected less than 1 GiB of text, found " +
                                       std::to_string(text.size()) + " bytes");
  }
  if (valid_utf8_prefix(text) != text.size()) {
    return encode(valid_utf8(text), parse_special, add_special);
  }
  std::vector<int32_t> ids;
  if (add_special) ids = parts_.before;
  raw_added_.split(text, parse_special, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
      return;
    }
    bool at_start = part.data() == text.data();
    std::string normal(part);
    for (const Normalization& normalize : parts_.normalizations) normal = normalize(normal);
    normalized_added_.split(normal, parse_special,
                            [&](std::string_view inner, const AddedToken* added) {
                              if (added != nullptr) {
                                ids.push_back(added->id);
                              } else {
                                encode_text(inner, at_start, ids);
                              }
                              at_start = false;
                            });
  });
  if (add_special) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
  return ids;
}

std::string_view TextTokenizer::bytes_of(int32_t id) const {
  if (parts_.bytes.empty()) return spelling_of(id);
  if (id < 0 || static_cast<size_t>(id) >= parts_.bytes.size()) return {};
  return parts_.bytes[static_cast<size_t>(id)];
}

std::string_view TextTokenizer::spelling_of(int32_t id) const { return vocabulary_.spelling(id); }

bool TextTokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < is_special_.size() &&
         is_special_[static_cast<size_t>(id)];
}

bool TextTokenizer::is_end(int32_t id) const {
  return std::binary_search(parts_.stop_ids.begin(), parts_.stop_ids.end(), id);
}

int32_t TextTokenizer::find(std::string_view spelling) const { return vocabulary_.find(spelling); }

std::string TextTokenizer::decode(std::span<const int32_t> ids, bool with_special) const {
  TextStream stream(*this, with_special);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

std::string TextStream::push(int32_t id) {
  const bool is_special = tokenizer_->is_special(id);
  if (is_special && !with_special_) return "";
  std::string_view bytes = tokenizer_->bytes_of(id);
  if (at_start_ && tokenizer_->drops_first_space() && !is_special && bytes.starts_with(' ')) {
    bytes.remove_prefix(1);
  }
  at_start_ = false;
  return stream_.push(bytes);
}

std::string TextStream::finish() {
  at_start_ = true;
  return stream_.finish();
}

}  // namespace vesper
