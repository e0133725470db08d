// JSON Schema as a grammar. In: a schema (draft 2020-12, and what drafts 4 to 7 and OpenAPI 3.0 say
// differently). Out: a syntax tree of the JSON texts that match it. Called by session.
//
// docs/json-schema.md lists what is supported. A text is compact but for one space that may follow
// a colon or comma, numbers and strings have one spelling, and properties come in any order. So a
// text of the grammar always matches the schema, but not every text that matches is one of the
// grammar.
#pragma once

#include <string_view>

#include "llm/grammar/rules/grammar.h"

namespace vesper {

struct JsonSchemaOptions {
  // Properties and items that the schema neither describes nor forbids are generated beside
  // described ones. Without it a model cannot go on with properties of its own invention.
  bool undescribed_values = false;
};

// Throws Error(kUsage), setting "JSON schema", that names the place as a JSON pointer: not JSON, a
// keyword that is unknown or not supported, a reference to nothing, a schema that is too large. A
// schema that no text matches is found by CompiledGrammar.
Grammar grammar_of_json_schema(std::string_view schema, const JsonSchemaOptions& options = {});

// A JSON object or array.
Grammar json_grammar();

}  // namespace vesper
