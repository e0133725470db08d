// The fields of a JSON request. Each is read once, with its type and range; what is left over at
// the end is an error that names it, because ignoring it would give an answer that was not asked
// for. Requests of the API have their fields and ranges in openapi.json; a field that is read but
// not described there, or described but not read, is an internal error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api_description.h"
#include "serve/api/api_error.h"
#include "serve/models/text_or_ids.h"

namespace vesper {

using Json = nlohmann::ordered_json;

// A JSON text of a client. Throws ApiError(400) for what is not JSON, or is nested more than 64
// levels deep.
Json parse_json(std::string_view text);

// A response as text. Invalid UTF-8, such as half a character at the end of an answer, becomes
// U+FFFD.
std::string dump_json(const Json& value);

// A short text of a value, for messages.
std::string excerpt(const Json& value);

class RequestFields {
 public:
  // `object` must outlive this. `path` precedes the names in messages: "messages[0].". Throws
  // ApiError if it is not an object.
  explicit RequestFields(const Json& object, std::string path = "");
  // With the schema of this name in openapi.json.
  RequestFields(const Json& object, const char* schema, std::string path);

  // The value of a field; null if it is absent or null.
  const Json* find(const std::string& name);
  // Throw ApiError naming the field, what was expected and what was found.
  const Json& require(const std::string& name, const std::string& expected);
  std::optional<bool> boolean(const std::string& name);
  std::optional<double> number(const std::string& name, double low, double high);
  std::optional<int64_t> integer(const std::string& name, int64_t low, int64_t high);
  std::optional<std::string> text(const std::string& name);
  // With the range of the schema. Throw Error(kInternal) if it has none.
  std::optional<double> number(const std::string& name);
  std::optional<int64_t> integer(const std::string& name);
  // One of the texts that the schema lists.
  std::optional<std::string> choice(const std::string& name);
  std::string require_choice(const std::string& name);
  // A keyword of the schema of a field: ObjectSchema::keyword().
  const Json& keyword(const std::string& name, const char* word) const {
    return schema_->keyword(name, word);
  }
  // Throws ApiError if the list or the object of a field has more entries, which messages call
  // `noun`, than the schema allows.
  void check_size(const std::string& name, const Json& value, const std::string& noun) const;

  // A field that only describes the request, such as "user".
  void ignore(const std::string& name);
  // A field that is honoured only with one of these values, or absent.
  void allow_only(const std::string& name, const std::vector<Json>& values);
  void allow_only(const std::string& name);  // with those of the schema
  // Throws ApiError if there is a field that was not read.
  void check_all_used() const;

  std::string path_of(const std::string& name) const { return path_ + name; }

 private:
  // The values of "enum" but null.
  std::vector<Json> values_of(const std::string& name) const;

  const Json& object_;
  std::string path_;
  std::optional<ObjectSchema> schema_;
  std::set<std::string> used_;
};

// The field `name`: a text, token ids, or a list of these, which messages call `noun`. Throws
// ApiError naming the field. The ids are not compared with a vocabulary.
std::vector<TextOrIds> read_texts(RequestFields& fields, const std::string& name,
                                  const std::string& noun);

}  // namespace vesper
