// Parts of JSON as nodes of a grammar, each made once. A text has no white space but one space,
// which may follow a colon or comma: so a model cannot fill its answer with blanks.
#pragma once

#include <string_view>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

class JsonText {
 public:
  explicit JsonText(Grammar& grammar) : grammar_(grammar) {}

  uint32_t any_value() { return grammar_.reference(rule(kValue)); }
  uint32_t any_object() { return grammar_.reference(rule(kObject)); }
  uint32_t any_array() { return grammar_.reference(rule(kArray)); }
  uint32_t any_string() { return grammar_.reference(rule(kString)); }
  uint32_t any_number() { return grammar_.reference(rule(kNumber)); }
  uint32_t any_integer() { return grammar_.reference(rule(kInteger)); }
  uint32_t any_character() { return grammar_.reference(rule(kCharacter)); }  // in one spelling

  // A string of this text, valid UTF-8, with its quotes.
  uint32_t string_of(std::string_view text);
  // A string whose inner part is `node`.
  uint32_t quoted(uint32_t node);
  uint32_t comma() { return grammar_.reference(rule(kComma)); }
  // A property, of nodes for its name, with quotes, and its value.
  uint32_t property(uint32_t name, uint32_t value);
  // `item`s with commas, in brackets such as "{" and "}".
  uint32_t list(std::string_view open, uint32_t item, uint32_t min, uint32_t max,
                std::string_view close);

 private:
  enum Rule { kValue, kObject, kArray, kString, kNumber, kInteger, kCharacter, kComma, kColon };

  uint32_t rule(Rule which);
  uint32_t node_of(Rule which);
  uint32_t text(std::string_view bytes) { return grammar_.literal(bytes); }
  uint32_t optional(uint32_t node) { return grammar_.repeat(node, 0, 1); }
  uint32_t digits(uint32_t min, uint32_t max);
  uint32_t positive_integer();
  uint32_t escape();

  Grammar& grammar_;
  uint32_t rules_[kColon + 1] = {};  // index + 1
};

}  // namespace vesper
