#include "serve/api/api_description.h"

#include <utility>

#include "error/error.h"
#include "serve/embedded_files.h"

namespace vesper {
namespace {

using Json = nlohmann::ordered_json;

const Json& schemas() {
  static const Json description = Json::parse(api_description());
  return description.at("components").at("schemas");
}

const Json& schema_named(const std::string& name) {
  const auto found = schemas().find(name);
  if (found == schemas().end()) {
    throw Error(ErrorKind::kInternal, "openapi.json: no schema " + name);
  }
  return *found;
}

// The schema that `schema` refers to, or itself.
const Json& resolved(const Json& schema) {
  const auto reference = schema.find("$ref");
  if (reference == schema.end()) return schema;
  const std::string path = reference->get<std::string>();  // "#/components/schemas/NAME"
  return schema_named(path.substr(path.rfind('/') + 1));
}

}  // namespace

std::string_view api_description() {
  const auto bytes = embedded_api().front().bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ObjectSchema::ObjectSchema(std::string name)
    : name_(std::move(name)), fields_(&schema_named(name_).at("properties")) {}

const Json& ObjectSchema::field(const std::string& name) const {
  const auto found = fields_->find(name);
  if (found == fields_->end()) {
    throw Error(ErrorKind::kInternal, "openapi.json: " + name_ + " has no field " + name);
  }
  return resolved(*found);
}

const Json& ObjectSchema::keyword(const std::string& field_name, const char* word) const {
  const Json& schema = field(field_name);
  if (const auto found = schema.find(word); found != schema.end()) return *found;
  if (const auto alternatives = schema.find("anyOf"); alternatives != schema.end()) {
    for (const Json& alternative : *alternatives) {
      const Json& target = resolved(alternative);
      if (const auto found = target.find(word); found != target.end()) return *found;
    }
  }
  throw Error(ErrorKind::kInternal,
              "openapi.json: the field " + field_name + " of " + name_ + " has no " + word);
}

}  // namespace vesper
