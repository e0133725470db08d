#include <algorithm>
#include <cmath>
#include <utility>

#include "error/error.h"
#include "llm/grammar/json_schema/keyword_reader.h"

namespace vesper {

using nlohmann::json;
using Kind = Formula::Kind;

const std::map<std::string_view, KeywordReader::Handler>& KeywordReader::handlers() {
  using R = KeywordReader;
  static const std::map<std::string_view, Handler> table = {
      {"$anchor", &R::read_annotation},
      {"$comment", &R::read_annotation},
      {"$defs", &R::read_annotation},
      {"$dynamicAnchor", &R::read_annotation},
      {"$id", &R::read_annotation},
      {"$dynamicRef", &R::read_dynamic_reference},
      {"$ref", &R::read_reference},
      {"$schema", &R::read_annotation},
      {"additionalItems", &R::read_additional_items},
      {"additionalProperties", &R::read_additional_properties},
      {"allOf", &R::read_all_of},
      {"anyOf", &R::read_any_of},
      {"const", &R::read_const},
      {"contains", &R::read_contains},
      {"contentEncoding", &R::read_annotation},
      {"contentMediaType", &R::read_annotation},
      {"contentSchema", &R::read_annotation},
      {"default", &R::read_annotation},
      {"definitions", &R::read_annotation},
      {"dependencies", &R::read_dependencies},
      {"dependentRequired", &R::read_dependencies},
      {"dependentSchemas", &R::read_dependencies},
      {"deprecated", &R::read_annotation},
      {"description", &R::read_annotation},
      {"discriminator", &R::read_annotation},
      {"else", &R::read_annotation},  // of "if"
      {"enum", &R::read_enum},
      {"example", &R::read_annotation},
      {"examples", &R::read_annotation},
      {"exclusiveMaximum", &R::read_exclusive_maximum},
      {"exclusiveMinimum", &R::read_exclusive_minimum},
      {"externalDocs", &R::read_annotation},
      {"format", &R::read_format},
      {"id", &R::read_annotation},
      {"if", &R::read_if},
      {"items", &R::read_items},
      {"maxContains", &R::read_annotation},  // of "contains"
      {"maxItems", &R::read_max_items},
      {"maxLength", &R::read_max_length},
      {"maxProperties", &R::read_max_properties},
      {"maximum", &R::read_maximum},
      {"minContains", &R::read_annotation},  // of "contains"
      {"minItems", &R::read_min_items},
      {"minLength", &R::read_min_length},
      {"minProperties", &R::read_min_properties},
      {"minimum", &R::read_minimum},
      {"multipleOf", &R::read_multiple_of},
      {"not", &R::read_not},
      {"nullable", &R::read_annotation},  // of "type"
      {"oneOf", &R::read_one_of},
      {"pattern", &R::read_pattern},
      {"patternProperties", &R::read_pattern_properties},
      {"prefixItems", &R::read_prefix_items},
      {"properties", &R::read_properties},
      {"propertyNames", &R::read_property_names},
      {"readOnly", &R::read_annotation},
      {"required", &R::read_required},
      {"then", &R::read_annotation},  // of "if"
      {"title", &R::read_annotation},
      {"type", &R::read_type},
      {"unevaluatedItems", &R::read_unevaluated_items},
      {"unevaluatedProperties", &R::read_unevaluated_properties},
      {"uniqueItems", &R::read_unique_items},
      {"writeOnly", &R::read_annotation},
      {"xml", &R::read_annotation},
  };
  return table;
}

Formula KeywordReader::run() {
  if (schema_.is_boolean()) return always(schema_.get<bool>());
  std::vector<Formula> parts;
  if (const json* type = find("type")) {
    here_ = place_of(place_, "type");
    parts.push_back(read_type(*type));
    if (parts[0].kind == Kind::kAny) return always(false);
  }
  for (const auto& [key, value] : schema_.items()) {
    here_ = place_of(place_, key);
    if (key == "type" || key.starts_with("x-")) continue;
    const auto handler = handlers().find(key);
    if (handler == handlers().end())
      SchemaDocument::fail(here_, "expected a supported keyword, found " + shown(key));
    Formula part = (this->*handler->second)(value);
    if (!part.is_true()) parts.push_back(std::move(part));
  }
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_schemas(const json& value, Kind kind) {
  std::vector<Formula> parts;
  for (const uint32_t schema : children(value)) parts.push_back(schema_formula(schema));
  return with_parts(kind, std::move(parts));
}

Formula KeywordReader::read_dynamic_reference(const json& value) {
  // Within one resource it is as "$ref".
  if (!document_.has_one_resource())
    SchemaDocument::fail(here_, "expected no $dynamicRef in a document with several $id");
  return read_reference(value);
}

Formula KeywordReader::read_one_of(const json& value) {
  const std::vector<uint32_t> schemas = children(value);
  const size_t n = schemas.size();
  std::vector<std::vector<bool>> disjoint(n, std::vector<bool>(n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j)
      disjoint[i][j] = disjoint[j][i] = questions_.are_disjoint(type_, schemas[i], schemas[j]);
  }
  std::vector<Formula> choices;
  for (size_t i = 0; i < n; ++i) {
    std::vector<Formula> only = {schema_formula(schemas[i])};
    for (size_t j = 0; j < n; ++j) {
      if (i != j && !disjoint[i][j]) only.push_back(schema_formula(schemas[j], true));
    }
    choices.push_back(with_parts(Kind::kAll, std::move(only)));
  }
  return with_parts(Kind::kAny, std::move(choices));
}

Formula KeywordReader::read_if(const json&) {
  const uint32_t condition = child_at("if");
  std::vector<Formula> cases[2];
  cases[0].push_back(schema_formula(condition));
  cases[1].push_back(schema_formula(condition, true));
  if (find("then")) cases[0].push_back(schema_formula(child_at("then")));
  if (find("else")) cases[1].push_back(schema_formula(child_at("else")));
  if (cases[0].size() + cases[1].size() == 2) return always(true);
  return with_parts(Kind::kAny, {with_parts(Kind::kAll, std::move(cases[0])),
                                 with_parts(Kind::kAll, std::move(cases[1]))});
}

TextPattern::TextPattern(const std::string& pattern) : regex_(parse_regex(pattern)) {}

const TextDfa& TextPattern::texts() {
  if (!texts_) texts_ = texts_with_match(regex_);
  return *texts_;
}

bool NameSet::contains(const std::string& name) const {
  const bool is_listed = std::find(names.begin(), names.end(), name) != names.end() ||
                         std::any_of(texts.begin(), texts.end(),
                                     [&](const TextDfa* dfa) { return dfa->accepts(name); });
  return is_listed != is_complement;
}

Formula formula_of(SchemaDocument& document, SchemaTexts& texts, SchemaQuestions& questions,
                   uint32_t schema, JsonType type) {
  return KeywordReader(document, texts, questions, schema, type).run();
}

}  // namespace vesper
