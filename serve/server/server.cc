#include "serve/server/server.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include "error/error.h"
#include "serve/access/api_keys.h"
#include "serve/access/client_limits.h"
#include "serve/access/host_check.h"
#include "serve/api/api_description.h"
#include "serve/api/chat.h"
#include "serve/api/embeddings.h"
#include "serve/api/model_list.h"
#include "serve/api/tokens.h"
#include "serve/api/transcriptions.h"
#include "serve/http/header_list.h"
#include "serve/live/live_stream.h"
#include "serve/live/realtime_stream.h"
#include "serve/page/page_files.h"
#include "serve/server/log.h"
#include "serve/server/metrics.h"

namespace vesper {
namespace {

// 96 random bits: requests of several servers do not collide in a log.
std::string random_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%016llx%08x", static_cast<unsigned long long>(random()),
                static_cast<unsigned>(random() >> 32));
  return text.data();
}

std::string_view bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != kScheme[i]) return {};
  }
  return authorization.substr(kScheme.size());
}

// What follows `prefix` in the first item of a list that begins with it.
std::string_view item_after(std::string_view list, std::string_view prefix) {
  for (const std::string_view item : list_items(list)) {
    if (item.starts_with(prefix)) return item.substr(prefix.size());
  }
  return {};
}

}  // namespace

struct Server::State {
  // Whose requests a route answers.
  enum class Access { kEverybody, kClients };
  struct Route {
    std::string_view method, path;  // "/v1/models/{model}": any name there, as in openapi.json
    Access access;
    void (*answer)(State& server, const ApiRequest& request);
  };
  static const std::vector<Route>& routes();
  // The route of a request. Sets `methods` to those of the path; empty: there is no such path.
  static const Route* find_route(std::string_view method, std::string_view path,
                                 std::string& methods);

  State(ModelRegistry& served, const ServerOptions& settings)
      : models(served),
        options(settings),
        host_check(settings.host, settings.hosts, settings.origins),
        live_sessions(served, settings.n_live_streams),
        http(settings.host, settings.port, settings.http,
             {[this](HttpExchange& exchange) { handle(exchange); },
              [](HttpExchange& exchange, const HttpError& error) {
                exchange.respond(error.status(), "application/json",
                                 error_body(as_api_error(error)));
              }}) {
    if (!options.keys_file.empty()) keys.emplace(options.keys_file);
  }

  void handle(HttpExchange& exchange);
  void answer(HttpExchange& exchange, const std::string& id, std::string& client,
              std::string& route);
  void answer_health(HttpExchange& exchange) const;
  static void answer_page(HttpExchange& exchange, const PageFile& file);
  void check_site(HttpExchange& exchange) const;
  Client client_of(const HttpExchange& exchange) const;
  void fail(HttpExchange& exchange, const ApiError& error) const;

  ModelRegistry& models;
  ServerOptions options;
  HostCheck host_check;
  std::optional<ApiKeys> keys;
  ClientLimits client_limits;
  Metrics metrics;
  LiveSessions live_sessions;
  HttpServer http;  // last: its threads use the others
};

// Refuses what a browser sends for another web site.
void Server::State::check_site(HttpExchange& exchange) const {
  const std::string_view host = exchange.header("Host");
  if (exchange.count_headers("Host") > 1 || !host_check.allows_host(host)) {
    throw ApiError(403,
                   "Host: expected an address, localhost or an allowed name, found \"" +
                       std::string(host.substr(0, 80)) + "\"",
                   "", "host_not_allowed");
  }
  const std::string_view origin = exchange.header("Origin");
  if (origin.empty()) return;
  if (!host_check.allows_origin(origin, host)) {
    throw ApiError(
        403, "Origin: this web site may not use the server: " + std::string(origin.substr(0, 80)),
        "", "origin_not_allowed");
  }
  if (host_check.is_listed_origin(origin)) {
    exchange.set_header("Access-Control-Allow-Origin", origin);
    exchange.set_header("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    exchange.set_header("Vary", "Origin");
  }
}

Client Server::State::client_of(const HttpExchange& exchange) const {
  if (!keys) return {exchange.peer()};
  std::string_view key = bearer_key(exchange.header("Authorization"));
  // A browser's WebSocket has no such header. OpenAI's service takes the key in this one, too.
  if (key.empty()) {
    key = item_after(exchange.header("Sec-WebSocket-Protocol"), "openai-insecure-api-key.");
  }
  const std::optional<Client> client = keys->find(key);
  if (!client) {
    throw ApiError(401, "Authorization: expected \"Bearer\" and a key of this server", "",
                   "invalid_api_key");
  }
  return *client;
}

void Server::State::answer_health(HttpExchange& exchange) const {
  const bool is_ready = models.is_ready() && !http.is_stopping();
  exchange.respond(is_ready ? 200 : 503, "application/json",
                   is_ready ? "{\"status\":\"ok\"}" : "{\"status\":\"loading\"}");
}

template <void (*kAnswer)(const ApiRequest& request)>
void answer_api(auto&, const ApiRequest& request) {
  kAnswer(request);
}

const std::vector<Server::State::Route>& Server::State::routes() {
  constexpr Access kEverybody = Access::kEverybody, kClients = Access::kClients;
  constexpr auto health = [](State& server, const ApiRequest& request) {
    server.answer_health(request.exchange);
  };
  static const std::vector<Route> routes = {
      {"POST", "/v1/chat/completions", kClients, answer_api<chat_completions>},
      {"POST", "/v1/completions", kClients, answer_api<completions>},
      {"POST", "/v1/embeddings", kClients, answer_api<embeddings>},
      {"POST", "/v1/audio/transcriptions", kClients, answer_api<transcriptions>},
      {"POST", "/v1/audio/translations", kClients, answer_api<translations>},
      {"GET", "/v1/audio/stream", kClients,
       [](State& server, const ApiRequest& request) {
         serve_live_stream(request, server.live_sessions, server.options.live,
                           [&server] { return server.http.is_stopping(); });
       }},
      {"GET", "/v1/realtime", kClients,
       [](State& server, const ApiRequest& request) {
         serve_realtime_stream(request, server.live_sessions, server.options.realtime,
                               [&server] { return server.http.is_stopping(); });
       }},
      {"GET", "/v1/models", kClients, answer_api<list_models>},
      {"GET", "/v1/models/{model}", kClients,
       [](State&, const ApiRequest& request) {
         const std::string& path = request.exchange.path();
         describe_model(request, path.substr(std::string_view("/v1/models/").size()));
       }},
      {"POST", "/tokenize", kClients, answer_api<tokenize>},
      {"POST", "/detokenize", kClients, answer_api<detokenize>},
      {"GET", "/metrics", kClients,
       [](State& server, const ApiRequest& request) {
         request.exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8",
                                  server.metrics.text(server.models, server.http.n_connections()));
       }},
      {"GET", "/health", kEverybody, health},
      {"GET", "/health/ready", kEverybody, health},
      {"GET", "/health/live", kEverybody,
       [](State&, const ApiRequest& request) {
         respond_json(request.exchange, "{\"status\":\"ok\"}");
       }},
      {"GET", "/openapi.json", kEverybody,
       [](State&, const ApiRequest& request) {
         respond_json(request.exchange, std::string(api_description()));
       }},
  };
  return routes;
}

const Server::State::Route* Server::State::find_route(std::string_view method,
                                                      std::string_view path, std::string& methods) {
  const auto fits = [&](std::string_view pattern) {
    const size_t name = pattern.find('{');
    return name == pattern.npos ? pattern == path : path.starts_with(pattern.substr(0, name));
  };
  for (const Route& route : routes()) {
    if (!fits(route.path)) continue;
    const bool is_get = route.method == "GET";
    methods = std::string(route.method) + (is_get ? ", HEAD, OPTIONS" : ", OPTIONS");
    return method == route.method || (is_get && method == "HEAD") ? &route : nullptr;
  }
  return nullptr;
}

void Server::State::answer_page(HttpExchange& exchange, const PageFile& file) {
  exchange.set_header("ETag", file.etag);
  exchange.set_header("Cache-Control", "no-cache");  // asks by ETag, so a new server has a new page
  exchange.set_header("Content-Security-Policy", kContentSecurityPolicy);
  exchange.set_header("Permissions-Policy", kPermissionsPolicy);
  exchange.set_header("Referrer-Policy", "no-referrer");
  exchange.set_header("Cross-Origin-Opener-Policy", "same-origin");
  if (has_etag(exchange.header("If-None-Match"), file.etag)) {
    exchange.respond(304, "", "");
  } else {
    exchange.respond(200, file.content_type, file.bytes);
  }
}

void Server::State::answer(HttpExchange& exchange, const std::string& id, std::string& client_name,
                           std::string& route_name) {
  check_site(exchange);
  const std::string& path = exchange.path();
  const bool is_read = exchange.method() == "GET" || exchange.method() == "HEAD";
  if (const std::optional<PageFile> file = page_file(path); file && is_read) {
    route_name = path;
    return answer_page(exchange, *file);
  }
  std::string methods;
  const Route* route = find_route(exchange.method(), path, methods);
  if (methods.empty()) {
    throw ApiError(404, "this server has no " + path.substr(0, 120), "", "unknown_url");
  }
  if (exchange.method() == "OPTIONS") {
    exchange.set_header("Allow", methods);
    exchange.set_header("Access-Control-Allow-Methods", methods);
    exchange.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
    exchange.set_header("Access-Control-Max-Age", "3600");
    return exchange.respond(204, "", "");
  }
  if (route == nullptr) {
    exchange.set_header("Allow", methods);
    throw ApiError(405, path.substr(0, 120) + ": expected the method " + methods, "",
                   "wrong_method");
  }
  route_name = route->path;
  ApiRequest request{exchange, models, options.api, id, client_name};
  if (route->access == Access::kEverybody) return route->answer(*this, request);
  const Client client = client_of(exchange);
  request.client = client_name = client.name;
  std::chrono::seconds retry_after{1};
  const auto running = client_limits.begin(client, std::chrono::steady_clock::now(), retry_after);
  if (!running) {
    exchange.set_header("Retry-After", std::to_string(retry_after.count()));
    throw ApiError(429, "the key has reached its limit of requests", "", "rate_limit_exceeded");
  }
  route->answer(*this, request);
}

void Server::State::fail(HttpExchange& exchange, const ApiError& error) const {
  if (error.status() == 401) exchange.set_header("WWW-Authenticate", "Bearer");
  if (!exchange.has_begun_response()) {
    exchange.respond(error.status(), "application/json", error_body(error));
    return;
  }
  // Events have begun: the client learns of the error by one of them.
  exchange.send_event(error_body(error));
  exchange.end_events();
}

void Server::State::handle(HttpExchange& exchange) {
  const auto start = std::chrono::steady_clock::now();
  const std::string id = random_id();
  exchange.set_header("X-Request-Id", id);
  std::string client = exchange.peer(), route = "other", message;
  unsigned status = 0;
  try {
    try {
      answer(exchange, id, client, route);
    } catch (const HttpError&) {
      throw;
    } catch (const std::exception& error) {
      const ApiError refusal = as_api_error(error);
      message = refusal.what();
      status = refusal.status();
      fail(exchange, refusal);
    }
  } catch (const ConnectionLost&) {
    message = "the client has left";
    status = 499;  // as nginx
  } catch (const HttpError& error) {
    message = error.what();
    status = error.status();
    if (!exchange.has_begun_response()) fail(exchange, as_api_error(error));
  }
  if (status == 0) status = exchange.status();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  metrics.add_request(route, status, seconds);
  LogFields fields = {{"id", id},
                      {"client", client},
                      {"method", exchange.method()},
                      {"path", exchange.path()},
                      {"status", std::to_string(status)},
                      {"bytes", std::to_string(exchange.n_bytes_sent())},
                      {"ms", std::to_string(static_cast<int64_t>(seconds * 1000))}};
  if (!message.empty()) fields.emplace_back("error", message);
  write_log("request", fields);
  if (status == 499) throw ConnectionLost();
}

Server::Server(ModelRegistry& models, const ServerOptions& options)
    : state_(std::make_unique<State>(models, options)) {}
Server::~Server() = default;

uint16_t Server::port() const { return state_->http.port(); }
const std::vector<std::string>& Server::addresses() const { return state_->http.addresses(); }
void Server::run() { state_->http.run(state_->options.grace); }
void Server::stop() { state_->http.stop(); }

std::vector<std::pair<std::string_view, std::string_view>> Server::routes() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const State::Route& route : State::routes()) list.emplace_back(route.method, route.path);
  return list;
}

void Server::reload_keys() {
  if (!state_->keys) return;
  try {
    state_->keys->reload();
    write_log("keys", {{"n", std::to_string(state_->keys->size())}});
  } catch (const Error& error) {
    write_log("keys", {{"error", error.what()}});
  }
}

}  // namespace vesper
