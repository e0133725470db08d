#include "llm/tokenizer/files/sentence_piece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "error/error.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/models/byte_pair_encoding.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/precompiled_normalizer.h"

namespace vesper {
namespace {

// Iterates over the fields of a protobuf message.
class Message {
 public:
  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;              // of an integer, or of 4 bytes
    std::span<const uint8_t> bytes;  // of a string or a message
  };

  Message(const std::string& name, std::span<const uint8_t> bytes) : name_(name), rest_(bytes) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t tag = take_number();
    field = {tag >> 3, 0, {}};
    switch (tag & 7) {
      case 0:
        field.value = take_number();
        break;
      case 1:
        take_bytes(8);
        break;
      case 2:
        field.bytes = take_bytes(take_number());
        break;
      case 5: {
        uint32_t value = 0;
        std::memcpy(&value, take_bytes(4).data(), sizeof value);
        field.value = value;
        break;
      }
      default:
        fail("expected a field of protobuf, found wire type " + std::to_string(tag & 7));
    }
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, name_ + ": " + message);
  }

  uint64_t take_number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = take_bytes(1).front();
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("expected a number of at most 64 bits");
  }

  std::span<const uint8_t> take_bytes(uint64_t n) {
    if (n > rest_.size()) {
      fail("expected " + std::to_string(n) + " more bytes, found " + std::to_string(rest_.size()));
    }
    const auto taken = rest_.first(static_cast<size_t>(n));
    rest_ = rest_.subspan(static_cast<size_t>(n));
    return taken;
  }

  const std::string& name_;
  std::span<const uint8_t> rest_;
};

std::string text_of(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

SentencePiece read_piece(const std::string& name, std::span<const uint8_t> bytes) {
  SentencePiece piece;
  Message message(name, bytes);
  for (Message::Field field; message.next(field);) {
    if (field.number == 1) {
      piece.text = text_of(field.bytes);
    } else if (field.number == 2) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else if (field.number == 3) {
      if (field.value < 1 || field.value > 6) {
        throw Error(ErrorKind::kModel, name + ": expected a type of piece from 1 to 6, found " +
                                           std::to_string(field.value));
      }
      piece.type = static_cast<SentencePiece::Type>(field.value);
    }
  }
  if (!std::isfinite(piece.score)) {
    throw Error(ErrorKind::kModel, name + ": expected finite scores of pieces");
  }
  return piece;
}

void read_trainer(const std::string& name, std::span<const uint8_t> bytes,
                  SentencePieceModel& model) {
  Message message(name, bytes);
  for (Message::Field field; message.next(field);) {
    const auto id = static_cast<int32_t>(static_cast<uint32_t>(field.value));
    switch (field.number) {
      case 3:
        if (field.value != 1 && field.value != 2) {
          throw Error(ErrorKind::kModel, name +
                                             ": expected a model of type unigram (1) or BPE (2), "
                                             "found " +
                                             std::to_string(field.value));
        }
        model.is_bpe = field.value == 2;
        break;
      case 24:
        if (field.value != 0) {
          throw Error(ErrorKind::kModel,
                      name + ": expected spaces before words, found them behind words");
        }
        break;
      case 35:
        model.byte_fallback = field.value != 0;
        break;
      case 40:
        model.unknown = id;
        break;
      case 41:
        model.bos = id;
        break;
      case 42:
        model.eos = id;
        break;
      case 43:
        model.pad = id;
        break;
      default:
        break;
    }
  }
}

void read_normalizer(const std::string& name, std::span<const uint8_t> bytes,
                     SentencePieceModel& model) {
  Message message(name, bytes);
  for (Message::Field field; message.next(field);) {
    switch (field.number) {
      case 2:
        model.charsmap = text_of(field.bytes);
        break;
      case 3:
        model.add_dummy_prefix = field.value != 0;
        break;
      case 4:
        model.remove_extra_whitespaces = field.value != 0;
        break;
      default:
        break;
    }
  }
}

// SentencePiece's normalizer: replacements, then spaces.
Normalization normalization_of(const SentencePieceModel& model) {
  auto table = std::make_shared<const PrecompiledNormalizer>(model.charsmap);
  return [table, prefix = model.add_dummy_prefix,
          joins = model.remove_extra_whitespaces](std::string_view text) {
    const std::string replaced = valid_utf8(table->normalize_longest(text));
    std::string_view rest = replaced;
    while (joins && rest.starts_with(' ')) rest.remove_prefix(1);
    while (joins && rest.ends_with(' ')) rest.remove_suffix(1);
    std::string out;
    if (rest.empty()) return out;
    if (prefix) out = kSpaceMark;
    char before = '\0';
    for (const char c : rest) {
      if (c != ' ') {
        out += c;
      } else if (!joins || before != ' ') {
        out += kSpaceMark;
      }
      before = c;
    }
    // Includes U+2581 in the text.
    while (joins && out.ends_with(kSpaceMark)) out.resize(out.size() - kSpaceMark.size());
    return out;
  };
}

// The highest score merges first.
PieceEncoder bpe_of(const SentencePieceModel& model, const TokenizerParts& parts) {
  RankedEncoding::Settings settings;
  std::vector<double> scores;
  for (const SentencePiece& piece : model.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<AddedToken> user_defined;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    settings.ranks.push_back(static_cast<int32_t>(place - scores.begin()));
    if (piece.type != SentencePiece::Type::kUserDefined) continue;
    AddedToken token;
    token.spelling = piece.text;
    token.id = static_cast<int32_t>(id);
    user_defined.push_back(std::move(token));
  }
  settings.unmerged = AddedTokens(std::move(user_defined));
  settings.unknown = parts.unknown;
  if (model.byte_fallback) settings.byte_tokens = find_byte_tokens(parts.spellings);
  return piece_encoder<RankedEncoding>(
      std::make_shared<const Vocabulary>(
          parts.spellings, Vocabulary::Duplicates::kFirst,
          [&](int32_t id) { return model.pieces[static_cast<size_t>(id)].is_text(); }),
      std::move(settings));
}

}  // namespace

SentencePieceModel read_sentence_piece_model(const std::string& name,
                                             std::span<const uint8_t> bytes) {
  SentencePieceModel model;
  Message message(name, bytes);
  for (Message::Field field; message.next(field);) {
    if (field.number == 1) {
      if (model.pieces.size() == kMaxVocabulary) {
        throw Error(ErrorKind::kModel,
                    name + ": expected at most " + std::to_string(kMaxVocabulary) + " pieces");
      }
      model.pieces.push_back(read_piece(name, field.bytes));
    } else if (field.number == 2) {
      read_trainer(name, field.bytes, model);
    } else if (field.number == 3) {
      read_normalizer(name, field.bytes, model);
    }
  }
  if (model.pieces.empty()) {
    throw Error(ErrorKind::kModel, name + ": expected a SentencePiece model, found no pieces");
  }
  return model;
}

TokenizerParts tokenizer_of_sentence_piece(const SentencePieceModel& model) {
  TokenizerParts parts;
  parts.kind = model.is_bpe ? "SentencePiece BPE" : "SentencePiece unigram";
  const auto n = static_cast<int32_t>(model.pieces.size());
  const auto id_or_none = [&](int32_t id) { return id >= 0 && id < n ? id : -1; };
  parts.unknown = id_or_none(model.unknown);
  parts.bos = id_or_none(model.bos);
  parts.eos = id_or_none(model.eos);
  parts.pad = id_or_none(model.pad);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    parts.spellings.push_back(piece.text);
    const bool is_control = piece.type == SentencePiece::Type::kControl;
    const auto byte = byte_of_token(piece.text);
    if (piece.type == SentencePiece::Type::kUnknown) {
      parts.bytes.emplace_back(" \u2047 ");  // SentencePiece's text for unknown characters
    } else if (is_control) {
      parts.bytes.push_back(piece.text);
    } else if (piece.type == SentencePiece::Type::kByte && byte) {
      parts.bytes.push_back({*byte});
    } else {
      parts.bytes.push_back(replace_text(std::string(kSpaceMark), " ")(piece.text));
    }
    if (is_control) {
      AddedToken token;
      token.spelling = piece.text;
      token.id = static_cast<int32_t>(id);
      token.special = true;
      parts.added.push_back(std::move(token));
    }
  }
  parts.normalizations = {normalization_of(model)};
  parts.drops_first_space = model.add_dummy_prefix;
  if (model.is_bpe) {
    parts.encode_piece = bpe_of(model, parts);
  } else {
    parts.encode_piece =
        piece_encoder<Unigram>(model.pieces, parts.unknown, model.byte_fallback, true);
  }
  return parts;
}

}  // namespace vesper
