#include <algorithm>
#include <memory>
#include <utility>

#include "error/error.h"
#include "llm/grammar/json_schema/keyword_reader.h"

namespace vesper {

using nlohmann::json;
using Kind = Formula::Kind;

namespace {

bool demand_name(Shape& shape, const std::string& name, bool required) {
  return shape.object.has.try_emplace(name, required).first->second == required;
}

}  // namespace

Formula has_name(const std::string& name) {
  return atom_of([name](Shape& shape, bool negated) { return demand_name(shape, name, !negated); });
}

Formula values_of(NameSet names, uint32_t schema) {
  return atom_of([names = std::make_shared<const NameSet>(std::move(names)), schema](Shape& shape,
                                                                                     bool negated) {
    const ObjectShape::Values values{names, {schema, negated}};
    const bool one_name = !names->is_complement && names->texts.empty() && names->names.size() == 1;
    if (negated && !one_name) {
      shape.object.some.push_back(values);
      return true;
    }
    shape.object.values.push_back(values);
    return !negated || demand_name(shape, names->names[0], true);
  });
}

Formula KeywordReader::read_properties(const json& value) {
  std::vector<Formula> parts;
  for (const auto& [name, schema] : object(value).items()) {
    const uint32_t what = child(schema, place_of(here_, name));
    if (is(JsonType::kObject)) parts.push_back(values_of({.names = {name}, .texts = {}}, what));
  }
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_pattern_properties(const json& value) {
  std::vector<Formula> parts;
  for (const auto& [text, schema] : object(value).items()) {
    const uint32_t what = child(schema, place_of(here_, text));
    TextPattern& one = pattern(text);
    if (is(JsonType::kObject))
      parts.push_back(values_of({.names = {}, .texts = {&one.texts()}}, what));
  }
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_additional_properties(const json& value) {
  const uint32_t what = child(value, here_);
  if (!is(JsonType::kObject)) return always(true);
  NameSet names{.names = {}, .texts = {}, .is_complement = true};
  if (const json* properties = find("properties")) {
    for (const auto& [name, schema] : properties->items()) names.names.push_back(name);
  }
  if (const json* patterns = find("patternProperties")) {
    for (const auto& [text, schema] : patterns->items())
      names.texts.push_back(&pattern(text).texts());
  }
  // A schema that says so describes any other properties.
  if (value == true) {
    return atom_of([values = ObjectShape::Values{std::make_shared<const NameSet>(std::move(names)),
                                                 {what, false}}](Shape& shape, bool negated) {
      if (!negated) shape.object.values.push_back(values);
      return !negated;
    });
  }
  return values_of(std::move(names), what);
}

Formula KeywordReader::read_property_names(const json& value) {
  const uint32_t what = child(value, here_);
  if (!is(JsonType::kObject) || value == true) return always(true);
  auto names = texts_.names.find(what);
  if (names == texts_.names.end())
    names = texts_.names.emplace(what, questions_.strings_of(what)).first;
  return values_of({.names = {}, .texts = {&names->second}, .is_complement = true},
                   document_.add(false, here_));
}

Formula KeywordReader::read_required(const json& value) {
  std::vector<Formula> parts;
  if (value.is_boolean()) fail("names in an array", value);
  for (const std::string& name : names(value)) {
    if (is(JsonType::kObject)) parts.push_back(has_name(name));
  }
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_n_properties(const json& value, bool is_min) {
  const uint32_t n = count(value);
  if (!is(JsonType::kObject)) return always(true);
  return count_formula(n, is_min, [here = here_](Shape& shape, uint32_t min, uint32_t max) {
    ObjectShape& object = shape.object;
    object.count_place = here;
    object.min = std::max(object.min, min);
    object.max = std::min(object.max, max);
    return object.min <= object.max;
  });
}

Formula KeywordReader::read_dependencies(const json& value) {
  std::vector<Formula> parts;
  for (const auto& [name, dependency] : object(value).items()) {
    std::vector<Formula> demanded;
    if (dependency.is_array()) {
      for (const std::string& other : names(dependency)) demanded.push_back(has_name(other));
    } else {
      demanded.push_back(schema_formula(child(dependency, place_of(here_, name))));
    }
    if (is(JsonType::kObject)) {
      parts.push_back(with_parts(
          Kind::kAny, {negation_of(has_name(name)), with_parts(Kind::kAll, std::move(demanded))}));
    }
  }
  return with_parts(Kind::kAll, std::move(parts));
}

}  // namespace vesper
