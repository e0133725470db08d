// The keywords of JSON Schema as logical formulas. In: a schema of the document and a type of
// values. Out: a formula.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "llm/grammar/json_schema/formula.h"
#include "llm/grammar/json_schema/schema_document.h"
#include "llm/grammar/json_schema/shape.h"

namespace vesper {

// Patterns by their texts, automata of names by the schemas that they are of.
struct SchemaTexts {
  std::map<std::string, TextPattern, std::less<>> patterns;
  std::map<uint32_t, TextDfa> names;
};

// What keywords ask of those who know the shapes.
class SchemaQuestions {
 public:
  virtual ~SchemaQuestions() = default;
  // Whether it is known that no value of this type matches both schemas.
  virtual bool are_disjoint(JsonType type, uint32_t a, uint32_t b) = 0;
  // The texts that match a schema as strings.
  virtual TextDfa strings_of(uint32_t schema) = 0;
};

// Throws Error(kUsage), "JSON schema", for a keyword that is unknown, misused or not supported.
Formula formula_of(SchemaDocument& document, SchemaTexts& texts, SchemaQuestions& questions,
                   uint32_t schema, JsonType type);

// The pattern of a format, or empty if it is not known.
std::string_view pattern_of_format(std::string_view format);
// The names of these formats, with commas.
std::string known_formats();

}  // namespace vesper
