#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "error/error.h"
#include "llm/grammar/json_schema/keyword_reader.h"

namespace vesper {

using nlohmann::json;
using Kind = Formula::Kind;

namespace {

bool restrict_values(NumberShape& shape, const std::vector<Decimal>& values) {
  const auto is_one = [&](const Decimal& number) {
    return std::any_of(values.begin(), values.end(),
                       [&](const Decimal& value) { return compare(value, number) == 0; });
  };
  if (!shape.values) {
    shape.values = values;
  } else {
    std::erase_if(*shape.values, [&](const Decimal& number) { return !is_one(number); });
  }
  return !shape.values->empty();
}

bool restrict_values(StringShape& shape, const std::set<std::string>& values) {
  if (!shape.values) {
    shape.values = values;
  } else {
    std::erase_if(*shape.values, [&](const std::string& text) { return !values.contains(text); });
  }
  return !shape.values->empty();
}

void restrict_bound(std::optional<NumberBound>& bound, NumberBound other, bool is_min) {
  const int order = bound ? compare(other.value, bound->value) : 0;
  const bool is_tighter = is_min ? order > 0 : order < 0;
  if (!bound || is_tighter || (order == 0 && other.exclusive)) bound = std::move(other);
}

Formula bound_formula(const Decimal& value, bool is_min, bool exclusive) {
  return atom_of([=](Shape& shape, bool negated) {
    const bool as_min = is_min != negated;
    restrict_bound(as_min ? shape.number.set.min : shape.number.set.max,
                   {value, exclusive != negated}, as_min);
    return true;
  });
}

std::string_view name_of(JsonType type) {
  constexpr std::array<std::string_view, 7> kNames = {"null",   "boolean", "boolean", "number",
                                                      "string", "array",   "object"};
  return kNames[static_cast<size_t>(type)];
}

// The schema of a value that equals `value`, by keywords for its parts.
json schema_of_value(const json& value) {
  json schema = {{"type", value.type_name()}};
  const auto constant = [](const json& part) { return json{{"const", part}}; };
  if (value.is_array()) {
    schema["minItems"] = schema["maxItems"] = value.size();
    for (const json& item : value) schema["prefixItems"].push_back(constant(item));
  } else {
    schema["additionalProperties"] = false;
    for (const auto& [name, member] : value.items()) {
      schema["properties"][name] = constant(member);
      schema["required"].push_back(name);
    }
  }
  return schema;
}

}  // namespace

Formula KeywordReader::read_type(const json& value) {
  const json types = value.is_array() ? value : json::array({value});
  bool is_known = !types.empty(), is_type = false, is_integer = false;
  for (const json& type : types) {
    if (type == "integer" && is(JsonType::kNumber)) is_integer = true;
    is_type = is_type || type == name_of(type_);
    is_known = is_known && (type == "integer" ||
                            std::any_of(std::begin(kJsonTypes), std::end(kJsonTypes),
                                        [&](JsonType one) { return type == name_of(one); }));
  }
  if (!is_known) fail("types such as \"string\"", value);
  if (const json* nullable = find("nullable"); nullable && *nullable == true)
    is_type = is_type || is(JsonType::kNull);
  if (is_type || !is_integer) return always(is_type);
  return atom_of([](Shape& shape, bool negated) {
    (negated ? shape.number.set.integers : shape.number.set.fractions) = false;
    return shape.number.set.integers || shape.number.set.fractions;
  });
}

Formula KeywordReader::read_enum(const json& value) {
  if (!value.is_array()) fail("values in an array", value);
  return values_formula(value);
}

Formula KeywordReader::values_formula(const json& values) {
  std::set<std::string> texts;
  std::vector<Decimal> numbers;
  std::vector<Formula> schemas;
  bool has_literal = false;
  for (const json& value : values) {
    if (value.is_string() && is(JsonType::kString)) texts.insert(value.get<std::string>());
    if (value.is_number() && is(JsonType::kNumber)) numbers.push_back(decimal_of(value));
    if ((value.is_array() && is(JsonType::kArray)) || (value.is_object() && is(JsonType::kObject)))
      schemas.push_back(schema_formula(document_.add(schema_of_value(value), here_)));
    has_literal = has_literal || (value.is_null() && is(JsonType::kNull)) ||
                  (value == true && is(JsonType::kTrue)) ||
                  (value == false && is(JsonType::kFalse));
  }
  if (!texts.empty()) {
    return atom_of([texts = std::move(texts)](Shape& shape, bool negated) {
      if (!negated) return restrict_values(shape.string, texts);
      shape.string.excluded_values.insert(texts.begin(), texts.end());
      return true;
    });
  }
  if (!numbers.empty()) {
    return atom_of([numbers = std::move(numbers)](Shape& shape, bool negated) {
      if (!negated) return restrict_values(shape.number, numbers);
      auto& excluded = shape.number.set.excluded;
      excluded.insert(excluded.end(), numbers.begin(), numbers.end());
      return true;
    });
  }
  return has_literal ? always(true) : with_parts(Kind::kAny, std::move(schemas));
}

Formula KeywordReader::read_bound(const json& value, bool is_min, const char* exclusive) {
  const Decimal bound = number(value);
  if (!is(JsonType::kNumber)) return always(true);
  // A boolean in draft 4.
  const json* flag = find(exclusive);
  return bound_formula(bound, is_min, flag && *flag == true);
}

Formula KeywordReader::read_exclusive(const json& value, bool is_min) {
  if (value.is_boolean()) return always(true);
  const Decimal bound = number(value);
  return is(JsonType::kNumber) ? bound_formula(bound, is_min, true) : always(true);
}

Formula KeywordReader::read_multiple_of(const json& value) {
  const Decimal divisor = number(value);
  if (divisor.negative || divisor.is_zero()) fail("a number above 0", value);
  try {
    is_multiple(divisor, divisor);
  } catch (const Error& error) {
    SchemaDocument::fail(here_, error.what());
  }
  if (!is(JsonType::kNumber)) return always(true);
  return atom_of([divisor](Shape& shape, bool negated) {
    (negated ? shape.number.set.non_divisors : shape.number.set.divisors).push_back(divisor);
    return true;
  });
}

Formula KeywordReader::read_length(const json& value, bool is_min) {
  const uint32_t length = count(value);
  if (!is(JsonType::kString)) return always(true);
  return count_formula(length, is_min, [](Shape& shape, uint32_t min, uint32_t max) {
    LengthRange& range = shape.string.length;
    range = {std::max(range.min, min), std::min(range.max, max)};
    return range.min <= range.max;
  });
}

Formula KeywordReader::read_pattern(const json& value) {
  if (!value.is_string()) fail("a text", value);
  TextPattern& one = pattern(value.get<std::string>());
  return is(JsonType::kString) ? pattern_formula(one) : always(true);
}

Formula KeywordReader::read_format(const json& value) {
  if (!value.is_string()) fail("a text", value);
  if (!is(JsonType::kString)) return always(true);
  const std::string_view text = pattern_of_format(value.get<std::string>());
  if (text.empty()) fail("one of the formats " + known_formats(), value);
  return atom_of([&one = pattern(std::string(text)), here = here_](Shape& shape, bool negated) {
    // The pattern has fewer texts than the format.
    if (negated) SchemaDocument::fail(here, "a format cannot be negated");
    shape.string.patterns.push_back(&one);
    return true;
  });
}

}  // namespace vesper
