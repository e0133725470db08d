// Reads the keywords of one schema for one type of values. Implemented in the files *_keywords.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "error/error.h"
#include "llm/grammar/json_schema/keywords.h"

namespace vesper {

constexpr uint32_t kMostCounted = 1'000'000'000;  // larger counts are taken as this

// A property of this name is there.
Formula has_name(const std::string& name);
// All properties of these names match the schema.
Formula values_of(NameSet names, uint32_t schema);
// Items [from, to) match the schema.
Formula items_of(uint32_t from, uint32_t to, uint32_t schema);

class KeywordReader {
 public:
  KeywordReader(SchemaDocument& document, SchemaTexts& texts, SchemaQuestions& questions,
                uint32_t schema, JsonType type)
      : document_(document),
        texts_(texts),
        questions_(questions),
        schema_(document.schema(schema)),
        place_(document.place(schema)),
        number_(schema),
        type_(type) {}

  Formula run();

 private:
  using Handler = Formula (KeywordReader::*)(const nlohmann::json& value);
  static const std::map<std::string_view, Handler>& handlers();

  [[noreturn]] void fail(const std::string& expected, const nlohmann::json& found) const {
    SchemaDocument::fail(here_, "expected " + expected + ", found " + shown(found));
  }

  bool is(JsonType type) const { return type_ == type; }
  const nlohmann::json* find(const char* key) const {
    const auto found = schema_.find(key);
    return found == schema_.end() ? nullptr : &*found;
  }

  uint32_t child(const nlohmann::json& value, const std::string& place) {
    return document_.number_of(value, place);
  }
  // The member `key` of this schema.
  uint32_t child_at(const char* key) { return child(schema_.at(key), place_of(place_, key)); }
  std::vector<uint32_t> children(const nlohmann::json& value) {
    if (!value.is_array() || value.empty()) fail("schemas in an array", value);
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < value.size(); ++i)
      numbers.push_back(child(value[i], here_ + "/" + std::to_string(i)));
    return numbers;
  }
  const nlohmann::json& object(const nlohmann::json& value) const {
    if (!value.is_object()) fail("an object", value);
    return value;
  }
  std::vector<std::string> names(const nlohmann::json& value) const {
    if (!value.is_array()) fail("names in an array", value);
    std::vector<std::string> out;
    for (const nlohmann::json& name : value) {
      if (!name.is_string()) fail("names", value);
      out.push_back(name.get<std::string>());
    }
    return out;
  }
  uint32_t count(const nlohmann::json& value) const {
    if (!value.is_number() || value.get<double>() < 0 ||
        value.get<double>() != std::floor(value.get<double>())) {
      fail("a whole number from 0", value);
    }
    return static_cast<uint32_t>(std::min<double>(value.get<double>(), kMostCounted));
  }
  Decimal number(const nlohmann::json& value) const {
    if (!value.is_number()) fail("a number", value);
    return decimal_of(value);
  }
  bool boolean(const nlohmann::json& value) const {
    if (!value.is_boolean()) fail("a boolean", value);
    return value.get<bool>();
  }
  TextPattern& pattern(const std::string& text) {
    const auto found = texts_.patterns.find(text);
    if (found != texts_.patterns.end()) return found->second;
    try {
      return texts_.patterns.try_emplace(text, text).first->second;
    } catch (const Error& error) {
      SchemaDocument::fail(here_,
                           std::string("wrong pattern ") + shown(text) + ": " + error.what());
    }
  }
  Formula pattern_formula(TextPattern& pattern) const {
    return atom_of([&pattern](Shape& shape, bool negated) {
      (negated ? shape.string.excluded_patterns : shape.string.patterns).push_back(&pattern);
      return true;
    });
  }

  Formula read_annotation(const nlohmann::json&) { return always(true); }
  Formula read_type(const nlohmann::json& value);
  Formula read_enum(const nlohmann::json& value);
  Formula read_const(const nlohmann::json& value) {
    return values_formula(nlohmann::json::array({value}));
  }
  Formula values_formula(const nlohmann::json& values);

  Formula read_minimum(const nlohmann::json& value) {
    return read_bound(value, true, "exclusiveMinimum");
  }
  Formula read_maximum(const nlohmann::json& value) {
    return read_bound(value, false, "exclusiveMaximum");
  }
  Formula read_exclusive_minimum(const nlohmann::json& value) {
    return read_exclusive(value, true);
  }
  Formula read_exclusive_maximum(const nlohmann::json& value) {
    return read_exclusive(value, false);
  }
  Formula read_bound(const nlohmann::json& value, bool is_min, const char* exclusive);
  Formula read_exclusive(const nlohmann::json& value, bool is_min);
  Formula read_multiple_of(const nlohmann::json& value);

  Formula read_min_length(const nlohmann::json& value) { return read_length(value, true); }
  Formula read_max_length(const nlohmann::json& value) { return read_length(value, false); }
  Formula read_length(const nlohmann::json& value, bool is_min);
  Formula read_pattern(const nlohmann::json& value);
  Formula read_format(const nlohmann::json& value);

  Formula read_properties(const nlohmann::json& value);
  Formula read_pattern_properties(const nlohmann::json& value);
  Formula read_additional_properties(const nlohmann::json& value);
  Formula read_unevaluated_properties(const nlohmann::json& value);
  Formula read_unevaluated_items(const nlohmann::json& value);
  // What a schema evaluates of an object or array, if the conditions hold.
  struct Evaluated {
    NameSet names;
    uint32_t n_items = 0;  // the first ones
    std::vector<Formula> conditions;
  };
  std::vector<Evaluated> evaluated_by(uint32_t schema, int depth);
  Formula only_positive(Formula formula) const;
  void combine_evaluated(std::vector<Evaluated>& all, const std::vector<Evaluated>& others) const;
  Formula read_property_names(const nlohmann::json& value);
  Formula read_required(const nlohmann::json& value);
  Formula read_min_properties(const nlohmann::json& value) {
    return read_n_properties(value, true);
  }
  Formula read_max_properties(const nlohmann::json& value) {
    return read_n_properties(value, false);
  }
  Formula read_n_properties(const nlohmann::json& value, bool is_min);
  Formula read_dependencies(const nlohmann::json& value);

  Formula read_items(const nlohmann::json& value);
  Formula read_prefix_items(const nlohmann::json& value);
  Formula read_additional_items(const nlohmann::json& value);
  Formula read_min_items(const nlohmann::json& value) { return read_n_items(value, true); }
  Formula read_max_items(const nlohmann::json& value) { return read_n_items(value, false); }
  Formula read_n_items(const nlohmann::json& value, bool is_min);
  Formula read_contains(const nlohmann::json& value);
  Formula read_unique_items(const nlohmann::json& value);

  Formula read_all_of(const nlohmann::json& value) {
    return read_schemas(value, Formula::Kind::kAll);
  }
  Formula read_any_of(const nlohmann::json& value) {
    return read_schemas(value, Formula::Kind::kAny);
  }
  Formula read_schemas(const nlohmann::json& value, Formula::Kind kind);
  Formula read_one_of(const nlohmann::json& value);
  Formula read_not(const nlohmann::json&) { return schema_formula(child_at("not"), true); }
  Formula read_if(const nlohmann::json& value);
  Formula read_reference(const nlohmann::json& value) {
    return schema_formula(document_.resolve(value, here_));
  }
  Formula read_dynamic_reference(const nlohmann::json& value);

  SchemaDocument& document_;
  SchemaTexts& texts_;
  SchemaQuestions& questions_;
  const nlohmann::json& schema_;
  const std::string place_;  // a copy: the document may add schemas
  const uint32_t number_;
  const JsonType type_;
  std::string here_;  // of the current keyword
};

}  // namespace vesper
