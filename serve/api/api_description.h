// openapi.json, the OpenAPI description of the API. The server shows it to clients, and its parsers
// take from it which fields a request has, with their ranges, so that the two cannot differ.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace vesper {

std::string_view api_description();

// The schema of an object: components/schemas of the description.
class ObjectSchema {
 public:
  // Throws Error(kInternal) if there is none of this name.
  explicit ObjectSchema(std::string name);

  bool has(const std::string& field) const { return fields_->contains(field); }
  // The schema of a field. Throws Error(kInternal) if the object has no such field.
  const nlohmann::ordered_json& field(const std::string& name) const;
  // A keyword of the schema of a field, such as "maximum". Of a field with alternatives: that of
  // the first one that has it. Throws Error(kInternal) if there is none.
  const nlohmann::ordered_json& keyword(const std::string& field, const char* word) const;
  // Calls visit(name) for each field.
  template <class Visit>
  void for_each_field(const Visit& visit) const {
    for (const auto& [name, schema] : fields_->items()) visit(name);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  const nlohmann::ordered_json* fields_;
};

}  // namespace vesper
