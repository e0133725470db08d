// HttpServer: listens on addresses and serves each connection on a thread of its own (HTTP/1.1,
// without TLS: docs/serve.md names a reverse proxy). In: a function that answers one exchange.
// Called by serve/server. Boost.Beast parses and writes HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/http_exchange.h"

namespace vesper {

struct HttpLimits {
  uint32_t n_connections = 512;  // further ones get 503
  uint32_t max_header_bytes = 32768;
  std::chrono::milliseconds idle{60000};    // between requests of a connection
  std::chrono::milliseconds header{15000};  // from the first byte of a header to its end
  std::chrono::milliseconds stall{30000};   // a body or response without progress
};

struct HttpAnswers {
  // Answers a request, in the connection's thread; several at once. It may throw HttpError before
  // the response has begun, and ConnectionLost.
  std::function<void(HttpExchange& exchange)> handle;
  // Sends the response for an HttpError; the exchange may have no header.
  std::function<void(HttpExchange& exchange, const HttpError& error)> fail;
};

class HttpServer {
 public:
  // Throws Error(kUsage) if an address is none of this machine or in use. `host`: a name or
  // address; all its addresses are used. Port 0: a free one.
  HttpServer(const std::string& host, uint16_t port, HttpLimits limits, HttpAnswers answers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // "127.0.0.1:8080", "[::1]:8080"
  const std::vector<std::string>& addresses() const;
  size_t n_connections() const;

  // Accepts connections until stop(). Then waits until the running exchanges have ended, at most
  // `grace`, and closes the rest.
  void run(std::chrono::milliseconds grace);
  // Async-signal-safe. A second call ends the grace period.
  void stop();
  bool is_stopping() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
