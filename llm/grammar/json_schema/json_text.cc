#include "llm/grammar/json_schema/json_text.h"

#include <string>

#include "llm/grammar/json_schema/json_schema.h"
#include "llm/grammar/json_schema/number_text.h"
#include "llm/grammar/regex/text_bytes.h"

namespace vesper {

uint32_t JsonText::rule(Rule which) {
  constexpr const char* kNames[] = {"value",   "object",    "array", "string", "number",
                                    "integer", "character", "comma", "colon"};
  if (rules_[which] == 0) {
    const uint32_t index = grammar_.add_rule(std::string("JSON ") + kNames[which]);
    rules_[which] = index + 1;
    grammar_.define(index, node_of(which));
  }
  return rules_[which] - 1;
}

uint32_t JsonText::digits(uint32_t min, uint32_t max) {
  return grammar_.repeat(grammar_.character_class({{'0', '9'}}), min, max);
}

// Without a sign and not 0.
uint32_t JsonText::positive_integer() {
  return grammar_.sequence(
      {grammar_.character_class({{'1', '9'}}), digits(0, kMaxIntegerDigits - 1)});
}

uint32_t JsonText::escape() {
  Grammar& g = grammar_;
  const CodePointRange digit{'0', '9'}, low{'a', 'f'}, high{'A', 'F'};
  const uint32_t hex = g.character_class({digit, low, high});
  const uint32_t d = g.character_class({{'d', 'd'}, {'D', 'D'}});
  const uint32_t not_d = g.character_class({digit, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}});
  // Surrogates come in pairs.
  const uint32_t plain = g.choice({g.sequence({not_d, hex, hex, hex}),
                                   g.sequence({d, g.character_class({{'0', '7'}}), hex, hex})});
  const uint32_t pair =
      g.sequence({d, g.character_class({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex, hex, text("\\u"),
                  d, g.character_class({{'c', 'f'}, {'C', 'F'}}), hex, hex});
  const uint32_t letter = g.character_class({{'"', '"'},
                                             {'/', '/'},
                                             {'\\', '\\'},
                                             {'b', 'b'},
                                             {'f', 'f'},
                                             {'n', 'n'},
                                             {'r', 'r'},
                                             {'t', 't'}});
  return g.sequence(
      {text("\\"), g.choice({letter, g.sequence({text("u"), g.choice({plain, pair})})})});
}

uint32_t JsonText::node_of(Rule which) {
  Grammar& g = grammar_;
  switch (which) {
    case kValue:
      return g.choice({any_object(), any_array(), any_string(), any_number(), text("true"),
                       text("false"), text("null")});
    case kObject:
      return list("{", property(any_string(), any_value()), 0, Grammar::kUnbounded, "}");
    case kArray:
      return list("[", any_value(), 0, Grammar::kUnbounded, "]");
    case kString: {
      const uint32_t plain = g.character_class({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}, true);
      return quoted(g.repeat(g.choice({plain, escape()}), 0));
    }
    case kNumber: {
      const uint32_t sign = g.character_class({{'+', '+'}, {'-', '-'}});
      const uint32_t e = g.character_class({{'e', 'e'}, {'E', 'E'}});
      return g.sequence({optional(text("-")), g.choice({text("0"), positive_integer()}),
                         optional(g.sequence({text("."), digits(1, kMaxFractionalDigits)})),
                         optional(g.sequence({e, optional(sign), digits(1, 2)}))});
    }
    case kInteger:
      // Not -0: readers differ on whether it is an integer.
      return g.choice({text("0"), g.sequence({optional(text("-")), positive_integer()})});
    case kCharacter:
      return add_characters(g, all_code_points(), TextSpelling::kJsonString);
    case kComma:
      return g.sequence({text(","), optional(text(" "))});
    case kColon:
      return g.sequence({text(":"), optional(text(" "))});
  }
  return g.empty();
}

uint32_t JsonText::string_of(std::string_view bytes) {
  std::string spelled = "\"";
  for (const char c : bytes) {
    const std::string escape = json_escape(static_cast<unsigned char>(c));
    spelled += escape.empty() ? std::string(1, c) : escape;
  }
  return text(spelled + "\"");
}

uint32_t JsonText::quoted(uint32_t node) {
  const uint32_t quote = text("\"");
  return grammar_.sequence({quote, node, quote});
}

uint32_t JsonText::property(uint32_t name, uint32_t value) {
  return grammar_.sequence({name, grammar_.reference(rule(kColon)), value});
}

uint32_t JsonText::list(std::string_view open, uint32_t item, uint32_t min, uint32_t max,
                        std::string_view close) {
  if (max == 0) return text(std::string(open) + std::string(close));
  const uint32_t rest_max = max == Grammar::kUnbounded ? max : max - 1;
  const uint32_t rest =
      grammar_.repeat(grammar_.sequence({comma(), item}), min > 0 ? min - 1 : 0, rest_max);
  const uint32_t items = grammar_.sequence({item, rest});
  return grammar_.sequence({text(open), min == 0 ? optional(items) : items, text(close)});
}

Grammar json_grammar() {
  Grammar grammar("JSON");
  const uint32_t root = grammar.add_rule("JSON text");
  JsonText parts(grammar);
  grammar.define(root, grammar.choice({parts.any_object(), parts.any_array()}));
  return grammar;
}

}  // namespace vesper
