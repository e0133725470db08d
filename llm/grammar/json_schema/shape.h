// What a conjunction of schemas demands of values of one JSON type, without alternatives. Made by
// ShapeFinder from keywords; written as a grammar by SchemaGrammar.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llm/grammar/json_schema/number_text.h"
#include "llm/grammar/regex/regex.h"

namespace vesper {

// The types that a schema can tell apart. An integer is a number.
enum class JsonType : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
constexpr JsonType kJsonTypes[] = {JsonType::kNull,   JsonType::kFalse,  JsonType::kTrue,
                                   JsonType::kNumber, JsonType::kString, JsonType::kArray,
                                   JsonType::kObject};

// A schema holds, or does not.
struct SchemaLiteral {
  uint32_t schema = 0;  // of the SchemaDocument
  bool negated = false;
  auto operator<=>(const SchemaLiteral&) const = default;
};
// All of these; sorted, without repetitions. Of none: any value.
using Conjunction = std::vector<SchemaLiteral>;

// A pattern and the texts in which it occurs. The automaton is made when it is first needed.
class TextPattern {
 public:
  // Throws Error(kUsage) without a setting.
  explicit TextPattern(const std::string& pattern);
  const RegexNode& regex() const { return regex_; }
  const TextDfa& texts();

 private:
  RegexNode regex_;
  std::optional<TextDfa> texts_;
};

struct StringShape {
  LengthRange length;  // in code points
  std::vector<TextPattern*> patterns;
  std::vector<TextPattern*> excluded_patterns;
  std::optional<std::set<std::string>> values;
  std::set<std::string> excluded_values;

  bool is_any() const {
    return length.min == 0 && length.max == kNoLimit && patterns.empty() &&
           excluded_patterns.empty() && !values && excluded_values.empty();
  }
};

struct NumberShape {
  NumberSet set;
  std::optional<std::vector<Decimal>> values;
};

struct ArrayShape {
  uint32_t min = 0, max = kNoLimit;
  struct Items {  // items [from, to) match `what`
    uint32_t from, to;
    SchemaLiteral what;
  };
  std::vector<Items> items;
  struct Contains {  // at least min and at most max of the items [from, to) match `what`
    uint32_t from, to;
    SchemaLiteral what;
    uint32_t min, max;
  };
  std::vector<Contains> contains;
  bool is_unique = false;
  std::string unique_place;
};

// A set of names of properties: those listed and those that one of the automata accepts; or all
// others.
struct NameSet {
  std::vector<std::string> names;
  std::vector<const TextDfa*> texts;
  bool is_complement = false;

  // By listed names and automata.
  bool contains(const std::string& name) const;
};

struct ObjectShape {
  uint32_t min = 0, max = kNoLimit;
  std::string count_place;          // of the keyword for them
  std::map<std::string, bool> has;  // by name: required, or forbidden
  struct Values {                   // properties with such a name have such a value
    std::shared_ptr<const NameSet> names;
    SchemaLiteral what;
  };
  std::vector<Values> values;
  std::vector<Values> some;  // one property with such a name has such a value
};

struct Shape {
  StringShape string;
  NumberShape number;
  ArrayShape array;
  ObjectShape object;
};

}  // namespace vesper
