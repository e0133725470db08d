// The schemas of a JSON Schema document. In: its text. Out: numbered schemas with their places, and
// the schemas that references name.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vesper {

class SchemaDocument {
 public:
  // Throws Error(kUsage), "JSON schema": not JSON, or more than 100 nested levels.
  explicit SchemaDocument(std::string_view text);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  uint32_t root() { return number_of(document_, "#"); }
  // The number of a schema inside of the document. Throws unless it is an object or a boolean.
  uint32_t number_of(const nlohmann::json& schema, const std::string& place);
  // A schema that the document implies.
  uint32_t add(nlohmann::json schema, const std::string& place);
  // What "$ref" at `place` names: a resource of the document (the one around `place`, or one with
  // that "$id"), or with #/a/pointer or #anchor a schema inside of it.
  uint32_t resolve(const nlohmann::json& reference, const std::string& place);

  const nlohmann::json& schema(uint32_t number) const { return *schemas_[number].value; }
  // A JSON pointer as a fragment, #/properties/name.
  const std::string& place(uint32_t number) const { return schemas_[number].place; }
  bool has_one_resource() const { return resources_.size() == 1; }

  // "JSON schema: at #/properties/name: message".
  [[noreturn]] static void fail(const std::string& place, const std::string& message);

 private:
  struct Schema {
    const nlohmann::json* value;
    std::string place;
  };

  // A schema with an "$id", or the whole document.
  struct Resource {
    Schema root;
    std::string uri;
  };

  void find_resources(const nlohmann::json& value, const std::string& place, size_t resource);
  size_t resource_around(const std::string& place) const;

  nlohmann::json document_;
  std::deque<nlohmann::json> added_;
  std::vector<Schema> schemas_;
  std::unordered_map<const nlohmann::json*, uint32_t> numbers_;
  std::vector<Resource> resources_;
  std::map<std::pair<size_t, std::string>, Schema> anchors_;  // by resource and name
};

// The place of a member.
std::string place_of(const std::string& place, const std::string& key);
// A value as part of a message, shortened.
std::string shown(const nlohmann::json& value);

}  // namespace vesper
