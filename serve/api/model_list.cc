#include "serve/api/model_list.h"

#include "serve/api/request_fields.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

Json model_json(const ModelRegistry::Entry& entry) {
  return {{"id", entry.name},
          {"object", "model"},
          {"created", entry.written},
          {"owned_by", "vesper"},
          {"kind", kind_name(entry.kind)},
          {"loaded", entry.is_loaded}};
}

}  // namespace

void list_models(const ApiRequest& request) {
  Json data = Json::array();
  for (const auto& entry : request.models.list()) data.push_back(model_json(entry));
  respond_json(request.exchange, Json({{"object", "list"}, {"data", std::move(data)}}).dump());
}

void describe_model(const ApiRequest& request, const std::string& name) {
  for (const auto& entry : request.models.list()) {
    if (entry.name != name) continue;
    respond_json(request.exchange, model_json(entry).dump());
    return;
  }
  throw ApiError(404, "this server has no model \"" + name.substr(0, 80) + "\"", "model",
                 "model_not_found");
}

}  // namespace vesper
