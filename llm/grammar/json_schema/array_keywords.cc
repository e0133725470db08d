#include <algorithm>
#include <utility>

#include "error/error.h"
#include "llm/grammar/json_schema/keyword_reader.h"

namespace vesper {

using nlohmann::json;
using Kind = Formula::Kind;

namespace {

bool restrict_count(Shape& shape, uint32_t min, uint32_t max) {
  shape.array.min = std::max(shape.array.min, min);
  shape.array.max = std::min(shape.array.max, max);
  return shape.array.min <= shape.array.max;
}

}  // namespace

Formula items_of(uint32_t from, uint32_t to, uint32_t schema) {
  return atom_of([=](Shape& shape, bool negated) {
    ArrayShape& array = shape.array;
    if (!negated) {
      array.items.push_back({from, to, {schema, false}});
      return true;
    }
    if (to == from + 1) {
      array.items.push_back({from, to, {schema, true}});
    } else {
      array.contains.push_back({from, to, {schema, true}, 1, kNoLimit});
    }
    return restrict_count(shape, from + 1, kNoLimit);
  });
}

Formula KeywordReader::read_prefix_items(const json& value) {
  std::vector<Formula> parts;
  uint32_t i = 0;
  for (const uint32_t item : children(value)) {
    if (is(JsonType::kArray)) parts.push_back(items_of(i, i + 1, item));
    ++i;
  }
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_items(const json& value) {
  // A tuple before draft 2020-12.
  if (value.is_array()) return value.empty() ? always(true) : read_prefix_items(value);
  const uint32_t item = child(value, here_);
  const json* prefix = find("prefixItems");
  const auto from = prefix ? static_cast<uint32_t>(prefix->size()) : 0;
  return is(JsonType::kArray) ? items_of(from, kNoLimit, item) : always(true);
}

Formula KeywordReader::read_additional_items(const json& value) {
  const uint32_t item = child(value, here_);
  const json* items = find("items");
  if (!is(JsonType::kArray) || !items || !items->is_array()) return always(true);
  return items_of(static_cast<uint32_t>(items->size()), kNoLimit, item);
}

Formula KeywordReader::read_n_items(const json& value, bool is_min) {
  const uint32_t n = count(value);
  return is(JsonType::kArray) ? count_formula(n, is_min, restrict_count) : always(true);
}

Formula KeywordReader::read_contains(const json& value) {
  const uint32_t what = child(value, here_);
  const json* lowest = find("minContains");
  const json* highest = find("maxContains");
  const uint32_t min = lowest ? count(*lowest) : 1;
  if (!is(JsonType::kArray)) return always(true);
  const auto restrict = [what](Shape& shape, uint32_t from, uint32_t to) {
    shape.array.contains.push_back({0, kNoLimit, {what, false}, from, to});
    return restrict_count(shape, from, kNoLimit);
  };
  std::vector<Formula> parts;
  if (min > 0) parts.push_back(count_formula(min, true, restrict));
  if (highest) parts.push_back(count_formula(count(*highest), false, restrict));
  return with_parts(Kind::kAll, std::move(parts));
}

Formula KeywordReader::read_unique_items(const json& value) {
  if (!boolean(value) || !is(JsonType::kArray)) return always(true);
  return atom_of([here = here_](Shape& shape, bool negated) {
    if (negated) SchemaDocument::fail(here, "uniqueItems cannot be negated");
    shape.array.is_unique = true;
    shape.array.unique_place = here;
    return true;
  });
}

}  // namespace vesper
