// unevaluatedProperties and unevaluatedItems: what keywords beside them evaluate, by alternatives
// of anyOf, oneOf, if and dependent schemas.
#include <algorithm>
#include <utility>

#include "error/error.h"
#include "llm/grammar/json_schema/keyword_reader.h"

namespace vesper {

using nlohmann::json;
using Kind = Formula::Kind;

namespace {

constexpr int kDeepest = 50;
constexpr size_t kMostAlternatives = 200;

}  // namespace

// Keeps each of `all` with each of `others`.
void KeywordReader::combine_evaluated(std::vector<Evaluated>& all,
                                      const std::vector<Evaluated>& others) const {
  std::vector<Evaluated> combined;
  for (const Evaluated& a : all) {
    for (const Evaluated& b : others) {
      Evaluated both = a;
      both.names.names.insert(both.names.names.end(), b.names.names.begin(), b.names.names.end());
      both.names.texts.insert(both.names.texts.end(), b.names.texts.begin(), b.names.texts.end());
      both.n_items = std::max(a.n_items, b.n_items);
      both.conditions.insert(both.conditions.end(), b.conditions.begin(), b.conditions.end());
      combined.push_back(std::move(both));
    }
  }
  if (combined.size() > kMostAlternatives)
    SchemaDocument::fail(here_, "expected fewer alternatives beside it");
  all = std::move(combined);
}

std::vector<KeywordReader::Evaluated> KeywordReader::evaluated_by(uint32_t schema, int depth) {
  std::vector<Evaluated> all(1);
  const json& value = document_.schema(schema);
  const std::string place = document_.place(schema);
  if (depth > kDeepest) SchemaDocument::fail(here_, "expected fewer nested schemas beside it");
  if (!value.is_object()) return all;
  Evaluated& here = all[0];
  const auto place_at = [&](const std::string& key, const json& member) {
    return child(member, place_of(place, key));
  };
  const auto any_name = [&]() -> const TextDfa* { return &pattern("").texts(); };
  if (const auto properties = value.find("properties"); properties != value.end()) {
    for (const auto& [name, unused] : object(*properties).items()) here.names.names.push_back(name);
  }
  if (const auto patterns = value.find("patternProperties"); patterns != value.end()) {
    for (const auto& [text, unused] : object(*patterns).items())
      here.names.texts.push_back(&pattern(text).texts());
  }
  const bool is_nested = schema != number_;
  if (value.contains("additionalProperties") ||
      (is_nested && value.contains("unevaluatedProperties"))) {
    here.names.texts.push_back(any_name());
  }
  for (const char* key : {"prefixItems", "items"}) {
    const auto items = value.find(key);
    if (items == value.end()) continue;
    here.n_items = std::max(here.n_items, items->is_array() ? uint32_t(items->size()) : kNoLimit);
  }
  if (value.contains("additionalItems") || (is_nested && value.contains("unevaluatedItems")))
    here.n_items = kNoLimit;
  if (is(JsonType::kArray) && value.contains("contains"))
    SchemaDocument::fail(here_, "expected no contains beside it, found one");

  for (const char* key : {"$ref", "$dynamicRef"}) {
    if (value.contains(key)) {
      const uint32_t target = document_.resolve(value[key], place_of(place, key));
      combine_evaluated(all, evaluated_by(target, depth + 1));
    }
  }
  if (const auto parts = value.find("allOf"); parts != value.end() && parts->is_array()) {
    for (size_t i = 0; i < parts->size(); ++i) {
      const uint32_t part = child((*parts)[i], place + "/allOf/" + std::to_string(i));
      combine_evaluated(all, evaluated_by(part, depth + 1));
    }
  }
  const auto add_case = [&](std::vector<Evaluated>& cases, Formula condition, uint32_t of) {
    for (Evaluated& one : evaluated_by(of, depth + 1)) {
      one.conditions.push_back(condition);
      cases.push_back(std::move(one));
    }
  };
  for (const std::string key : {"anyOf", "oneOf"}) {
    const auto parts = value.find(key);
    if (parts == value.end() || !parts->is_array()) continue;
    std::vector<Evaluated> cases;
    for (size_t i = 0; i < parts->size(); ++i) {
      const uint32_t part = child((*parts)[i], place_of(place, key) + "/" + std::to_string(i));
      add_case(cases, schema_formula(part), part);
    }
    combine_evaluated(all, cases);
  }
  if (const auto condition = value.find("if"); condition != value.end()) {
    const uint32_t number = place_at("if", *condition);
    std::vector<Evaluated> cases;
    add_case(cases, schema_formula(number), number);
    if (const auto then = value.find("then"); then != value.end())
      combine_evaluated(cases, evaluated_by(place_at("then", *then), depth + 1));
    std::vector<Evaluated> other(1);
    other[0].conditions.push_back(schema_formula(number, true));
    if (const auto otherwise = value.find("else"); otherwise != value.end())
      combine_evaluated(other, evaluated_by(place_at("else", *otherwise), depth + 1));
    cases.insert(cases.end(), other.begin(), other.end());
    combine_evaluated(all, cases);
  }
  if (const auto dependent = value.find("dependentSchemas");
      dependent != value.end() && dependent->is_object() && is(JsonType::kObject)) {
    for (const auto& [name, part] : dependent->items()) {
      std::vector<Evaluated> cases(1);
      cases[0].conditions.push_back(negation_of(has_name(name)));
      add_case(cases, has_name(name),
               child(part, place_of(place_of(place, "dependentSchemas"), name)));
      combine_evaluated(all, cases);
    }
  }
  return all;
}

// One alternative of those that hold is enough: a text that another alternative would admit as well
// is left out, so the texts are fewer, and none is wrong.
Formula KeywordReader::read_unevaluated_properties(const json& value) {
  const uint32_t what = child(value, here_);
  if (!is(JsonType::kObject) || value == true) return always(true);
  std::vector<Formula> cases;
  for (Evaluated& one : evaluated_by(number_, 0)) {
    one.names.is_complement = true;
    one.conditions.push_back(values_of(std::move(one.names), what));
    cases.push_back(with_parts(Kind::kAll, std::move(one.conditions)));
  }
  return only_positive(with_parts(Kind::kAny, std::move(cases)));
}

Formula KeywordReader::read_unevaluated_items(const json& value) {
  const uint32_t what = child(value, here_);
  if (!is(JsonType::kArray) || value == true) return always(true);
  std::vector<Formula> cases;
  for (Evaluated& one : evaluated_by(number_, 0)) {
    if (one.n_items != kNoLimit) one.conditions.push_back(items_of(one.n_items, kNoLimit, what));
    cases.push_back(with_parts(Kind::kAll, std::move(one.conditions)));
  }
  return only_positive(with_parts(Kind::kAny, std::move(cases)));
}

// A formula that has fewer values than its keyword cannot be negated, unless it has one case.
Formula KeywordReader::only_positive(Formula formula) const {
  if (formula.parts.size() == 1) return formula;
  return with_parts(Kind::kAll, {std::move(formula), atom_of([here = here_](Shape&, bool negated) {
                                   if (negated)
                                     SchemaDocument::fail(here, "it cannot be negated here");
                                   return true;
                                 })});
}

}  // namespace vesper
