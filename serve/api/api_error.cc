#include "serve/api/api_error.h"

#include <nlohmann/json.hpp>

#include "error/error.h"
#include "serve/http/http_exchange.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

unsigned status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kInput:
      return 400;
    case ErrorKind::kModel:
    case ErrorKind::kDevice:
      return 503;
    case ErrorKind::kStopped:
      return 499;  // as nginx: the client has left
    case ErrorKind::kOutput:
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

std::string_view type_of(unsigned status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

void throw_field(const std::string& field, const std::string& expected, const std::string& found) {
  throw ApiError(400, field + ": expected " + expected + ", found " + found, field);
}

ApiError as_api_error(const std::exception& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) {
    return ApiError(http->status(), http->what());
  }
  if (dynamic_cast<const UnknownModel*>(&error) != nullptr) {
    return ApiError(404, error.what(), "model", "model_not_found");
  }
  if (const auto* own = dynamic_cast<const Error*>(&error)) {
    return ApiError(status_of(own->kind()), own->what(), own->setting());
  }
  return ApiError(500, error.what());
}

ApiError as_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return as_api_error(caught);
  }
}

std::string error_body(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json body = {{"error",
                                        {{"message", error.what()},
                                         {"type", type_of(error.status())},
                                         {"param", or_null(error.param())},
                                         {"code", or_null(error.code())}}}};
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace vesper
