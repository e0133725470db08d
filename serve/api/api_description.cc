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
  const auto reference = found->find("$ref");
  if (reference == found->end()) return *found;
  const std::string path = reference->get<std::string>();  // "#/components/schemas/NAME"
  return schema_named(path.substr(path.rfind('/') + 1));
}

}  // namespace vesper
