// The server: routes of requests to the API, and what precedes and follows each of them. In: the
// models and the settings of the command line. Called by program.cc. Calls http, access and api.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api_request.h"
#include "serve/http/http_server.h"
#include "serve/http/web_socket.h"
#include "serve/models/model_registry.h"

namespace vesper {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string keys_file = {};           // empty: everybody may
  std::vector<std::string> hosts = {};  // see HostCheck
  std::vector<std::string> origins = {};
  HttpLimits http = {};
  ApiLimits api = {};
  WebSocketLimits live = {};
  // A client that sends no audio while nobody speaks keeps its session for some minutes.
  WebSocketLimits realtime = {.idle = std::chrono::minutes(10)};
  uint32_t n_live_streams = 4;  // at once; each has a speech session of its own
  std::chrono::milliseconds grace{30000};
};

class Server {
 public:
  // Listens, and reads the keys. Throws Error(kUsage, kInput).
  Server(ModelRegistry& models, const ServerOptions& options);
  ~Server();

  // The methods and paths that it answers, besides the page.
  static std::vector<std::pair<std::string_view, std::string_view>> routes();

  uint16_t port() const;
  const std::vector<std::string>& addresses() const;
  // Answers requests until stop(), then until the running ones have ended.
  void run();
  void stop();
  void reload_keys();  // an error is logged

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
