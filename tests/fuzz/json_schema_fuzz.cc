// JSON Schemas, and regular expressions as grammars of their own.
#include "error/error.h"
#include "llm/grammar/automaton/compiled_grammar.h"
#include "llm/grammar/json_schema/json_schema.h"
#include "llm/grammar/regex/regex.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":9},
          "b":{"enum":["x",1,null,{"c":[]}]}},"required":["a"],"additionalProperties":false})",
      R"({"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"},"maxItems":2}},
          "anyOf":[{"$ref":"#/$defs/n"},{"type":"string","pattern":"^a[b-d]+\\d{2}$"}]})",
      R"({"oneOf":[{"type":"number","multipleOf":0.5,"exclusiveMaximum":7},{"type":"string",
          "format":"date"}],"not":{"const":3}})",
      R"({"type":"object","patternProperties":{"^x":{"minLength":2,"maxLength":4}},"minProperties":1,
          "propertyNames":{"maxLength":3},"unevaluatedProperties":false,"if":{"required":["x"]},
          "then":{"maxProperties":2},"dependentRequired":{"xa":["xb"]}})",
      R"({"type":"array","prefixItems":[true,{"const":1}],"contains":{"type":"null"},
          "maxContains":2,"uniqueItems":false,"unevaluatedItems":{"type":"boolean"}})",
      R"((a|[^b-d\w])*?\p{Lu}{2,5}(?:x+|\u{1F600})$)",
  };
}

void use(Bytes input) {
  const std::string_view text = text_of(input);
  try {
    const CompiledGrammar grammar(grammar_of_json_schema(text));
  } catch (const Error&) {
    // Perhaps it is a pattern.
  }
  const CompiledGrammar grammar(grammar_of_regex(text));
}

}  // namespace vesper::fuzz
