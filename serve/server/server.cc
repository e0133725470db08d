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
#include "serve/api/chat.h"
#include "serve/api/embeddings.h"
#include "serve/api/model_list.h"
#include "serve/api/tokens.h"
#include "serve/api/transcriptions.h"
#include "serve/live/live_stream.h"
#include "serve/page/page_files.h"
#include "serve/server/log.h"
#include "serve/server/metrics.h"

namespace vesper {
namespace {

// Whose requests a route answers.
enum class Access { kEverybody, kClients };

struct Route {
  std::string_view method, path;
  Access access;
  void (*answer)(const ApiRequest& request);
};

constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions", Access::kClients, chat_completions},
    Route{"POST", "/v1/completions", Access::kClients, completions},
    Route{"POST", "/v1/embeddings", Access::kClients, embeddings},
    Route{"POST", "/v1/audio/transcriptions", Access::kClients, transcriptions},
    Route{"POST", "/v1/audio/translations", Access::kClients, translations},
    Route{"GET", "/v1/models", Access::kClients, list_models},
    Route{"POST", "/tokenize", Access::kClients, tokenize},
    Route{"POST", "/detokenize", Access::kClients, detokenize},
};

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

// What follows `prefix` in the first item of a list, separated by commas, that begins with it.
std::string_view item_after(std::string_view list, std::string_view prefix) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    item.remove_prefix(std::min(item.find_first_not_of(" \t"), item.size()));
    item = item.substr(0, item.find_last_not_of(" \t") + 1);
    if (item.starts_with(prefix)) return item.substr(prefix.size());
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return {};
}

}  // namespace

struct Server::State {
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
  // Answers what is not of the API. false: there is no such page.
  bool answer_own(HttpExchange& exchange);
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

bool Server::State::answer_own(HttpExchange& exchange) {
  const std::string& path = exchange.path();
  if (exchange.method() != "GET" && exchange.method() != "HEAD") return false;
  if (path == "/health/live") {
    respond_json(exchange, "{\"status\":\"ok\"}");
  } else if (path == "/health" || path == "/health/ready") {
    const bool is_ready = models.is_ready() && !http.is_stopping();
    exchange.respond(is_ready ? 200 : 503, "application/json",
                     is_ready ? "{\"status\":\"ok\"}" : "{\"status\":\"loading\"}");
  } else if (const std::optional<PageFile> file = page_file(path)) {
    answer_page(exchange, *file);
  } else {
    return false;
  }
  return true;
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
  if (answer_own(exchange)) {
    route_name = exchange.path();
    return;
  }
  const std::string& path = exchange.path();
  const Route* route = nullptr;
  std::string methods;
  for (const Route& entry : kRoutes) {
    if (entry.path != path) continue;
    methods = entry.method;
    if (entry.method == exchange.method()) route = &entry;
  }
  const bool is_metrics = path == "/metrics";
  const bool is_model = path.starts_with("/v1/models/");
  const bool is_live = path == "/v1/audio/stream";
  if (is_metrics || is_model || is_live) methods = "GET";
  if (methods.empty())
    throw ApiError(404, "this server has no " + path.substr(0, 120), "", "unknown_url");
  route_name = is_model ? "/v1/models/{model}" : path;
  if (exchange.method() == "OPTIONS") {
    exchange.set_header("Allow", methods + ", OPTIONS");
    exchange.set_header("Access-Control-Allow-Methods", methods);
    exchange.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
    exchange.set_header("Access-Control-Max-Age", "3600");
    exchange.respond(204, "", "");
    return;
  }
  if (exchange.method() != methods) {
    exchange.set_header("Allow", methods + ", OPTIONS");
    throw ApiError(405, path + ": expected the method " + methods, "", "wrong_method");
  }
  const Client client = client_of(exchange);
  client_name = client.name;
  std::chrono::seconds retry_after{1};
  const auto running = client_limits.begin(client, std::chrono::steady_clock::now(), retry_after);
  if (!running) {
    exchange.set_header("Retry-After", std::to_string(retry_after.count()));
    throw ApiError(429, "the key has reached its limit of requests", "", "rate_limit_exceeded");
  }
  if (is_metrics) {
    exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8",
                     metrics.text(models, http.n_connections()));
    return;
  }
  const ApiRequest request{exchange, models, options.api, id, client.name};
  if (is_live) {
    serve_live_stream(request, live_sessions, options.live, [this] { return http.is_stopping(); });
  } else if (is_model) {
    describe_model(request, path.substr(std::string_view("/v1/models/").size()));
  } else {
    route->answer(request);
  }
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
