#include "serve/api/request_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error/error.h"

namespace vesper {

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string excerpt(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = value.is_object()  ? "an object"
                     : value.is_array() ? "a list of " + std::to_string(value.size())
                                        : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

Json parse_json(std::string_view text) {
  constexpr int kMostDepth = 64;
  const auto check_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth) {
      throw ApiError(400, "expected JSON of at most 64 levels, found more");
    }
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& error) {
    const std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const size_t at = what.find("] ");
    throw ApiError(400, "expected JSON: " + (at == std::string::npos ? what : what.substr(at + 2)));
  }
}

namespace {

bool is_integer_in(const Json& value, int64_t low, int64_t high) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX) &&
         value.get<int64_t>() >= low && value.get<int64_t>() <= high;
}

}  // namespace

RequestFields::RequestFields(const Json& object, const char* schema, std::string path)
    : RequestFields(object, std::move(path)) {
  schema_.emplace(schema);
}

RequestFields::RequestFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object.is_object()) return;
  const std::string name = path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);
  throw_field(name, "an object", excerpt(object));
}

void RequestFields::ignore(const std::string& name) {
  if (schema_) schema_->field(name);  // throws
  used_.insert(name);
}

const Json* RequestFields::find(const std::string& name) {
  ignore(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& RequestFields::require(const std::string& name, const std::string& expected) {
  const Json* value = find(name);
  if (value == nullptr) throw_field(path_of(name), expected, "nothing");
  return *value;
}

std::optional<bool> RequestFields::boolean(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw_field(path_of(name), "true or false", excerpt(*value));
  return value->get<bool>();
}

std::optional<double> RequestFields::number(const std::string& name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    throw_field(path_of(name), "a number from " + Json(low).dump() + " to " + Json(high).dump(),
                excerpt(*value));
  }
  return number;
}

std::optional<int64_t> RequestFields::integer(const std::string& name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!is_integer_in(*value, low, high)) {
    throw_field(path_of(name),
                "an integer from " + std::to_string(low) + " to " + std::to_string(high),
                excerpt(*value));
  }
  return value->get<int64_t>();
}

std::optional<std::string> RequestFields::text(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw_field(path_of(name), "a text", excerpt(*value));
  return value->get<std::string>();
}

void RequestFields::check_size(const std::string& name, const Json& value,
                               const std::string& noun) const {
  const auto most = keyword(name, value.is_object() ? "maxProperties" : "maxItems").get<size_t>();
  if (value.size() <= most) return;
  throw_field(path_of(name), "at most " + std::to_string(most) + " " + noun,
              std::to_string(value.size()));
}

std::vector<Json> RequestFields::values_of(const std::string& name) const {
  std::vector<Json> values;
  for (const Json& value : keyword(name, "enum")) {
    if (!value.is_null()) values.push_back(value);
  }
  return values;
}

std::optional<double> RequestFields::number(const std::string& name) {
  return number(name, keyword(name, "minimum").get<double>(),
                keyword(name, "maximum").get<double>());
}

std::optional<int64_t> RequestFields::integer(const std::string& name) {
  return integer(name, keyword(name, "minimum").get<int64_t>(),
                 keyword(name, "maximum").get<int64_t>());
}

std::optional<std::string> RequestFields::choice(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::vector<Json> values = values_of(name);
  if (std::ranges::find(values, *value) == values.end()) {
    std::string expected;
    for (const Json& allowed : values) {
      const bool is_last = values.size() > 1 && &allowed == &values.back();
      expected += (expected.empty() ? "" : is_last ? " or " : ", ") + allowed.dump();
    }
    throw_field(path_of(name), expected, excerpt(*value));
  }
  return value->get<std::string>();
}

std::string RequestFields::require_choice(const std::string& name) {
  require(name, values_of(name).front().dump());
  return *choice(name);
}

void RequestFields::allow_only(const std::string& name) { allow_only(name, values_of(name)); }

void RequestFields::allow_only(const std::string& name, const std::vector<Json>& values) {
  const Json* value = find(name);
  if (value == nullptr || std::ranges::find(values, *value) != values.end()) return;
  std::string expected = "no such field";
  for (const Json& allowed : values) expected += " or " + allowed.dump();
  throw_field(path_of(name), expected, excerpt(*value));
}

void RequestFields::check_all_used() const {
  for (const auto& [name, value] : object_.items()) {
    if (used_.contains(name) || value.is_null()) continue;
    throw ApiError(400, path_of(name.substr(0, 64)) + ": this server has no such field",
                   path_of(name.substr(0, 64)), "unknown_field");
  }
  if (!schema_) return;
  schema_->for_each_field([&](const std::string& name) {
    if (used_.contains(name)) return;
    throw Error(ErrorKind::kInternal,
                "openapi.json: the field " + name + " of " + schema_->name() + " is not read");
  });
}

std::vector<TextOrIds> read_texts(RequestFields& fields, const std::string& name,
                                  const std::string& noun) {
  const char* expected = "a text, token ids, or a list of one of these";
  const Json& value = fields.require(name, expected);
  const Json& id_schema = fields.keyword(name, "items");  // of the first list, that of ids
  const auto low = id_schema.at("minimum").get<int32_t>();
  const auto high = id_schema.at("maximum").get<int32_t>();
  const auto ids_of = [&](const Json& list) {
    std::vector<int32_t> ids;
    for (const Json& id : list) {
      if (!is_integer_in(id, low, high)) throw_field(name, expected, excerpt(id));
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  };
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() || value.empty()) throw_field(name, expected, excerpt(value));
  if (value.front().is_number()) return {ids_of(value)};
  fields.check_size(name, value, noun);
  std::vector<TextOrIds> texts;
  for (const Json& entry : value) {
    if (entry.is_string()) {
      texts.emplace_back(entry.get<std::string>());
    } else if (entry.is_array() && !entry.empty()) {
      texts.emplace_back(ids_of(entry));
    } else {
      throw_field(name, expected, excerpt(entry));
    }
  }
  return texts;
}

}  // namespace vesper
