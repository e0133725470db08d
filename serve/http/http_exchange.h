// One HTTP request and its response. In: a header that http_server has read. Out: the body in
// pieces, then one response, whole or as server-sent events. Used by the thread of a connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vesper {

// A request that HTTP itself refuses: a body that is too large (413), too slow (408) or malformed
// (400).
class HttpError : public std::runtime_error {
 public:
  HttpError(unsigned status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  unsigned status() const { return status_; }

 private:
  unsigned status_;
};

// The client has left, or takes the response too slowly. Nothing can be sent to it.
struct ConnectionLost {};

class HttpExchange {
 public:
  class Impl;  // http_exchange_impl.h
  explicit HttpExchange(Impl& impl) : impl_(impl) {}

  const std::string& method() const;  // "GET"
  const std::string& path() const;    // percent-decoded, without the query
  const std::string& peer() const;    // the client's address
  // A field of the query, percent-decoded; empty if there is none. Throws HttpError(400).
  std::string query(std::string_view name) const;
  // The value of a header, of the first if it is repeated; empty if there is none.
  std::string_view header(std::string_view name) const;
  // How often a header is given.
  size_t count_headers(std::string_view name) const;

  // Reads the body and passes it on in pieces. Throws HttpError(413) if it has more than
  // `max_bytes`, HttpError(400, 408), ConnectionLost, and what `take` throws.
  void read_body(uint64_t max_bytes, const std::function<void(std::string_view)>& take);
  std::string read_body(uint64_t max_bytes);

  // A header of the response, set before it begins.
  void set_header(std::string_view name, std::string_view value);
  // Sends a whole response. Throws ConnectionLost.
  void respond(unsigned status, std::string_view content_type, std::string_view body);
  // A response of server-sent events (HTML standard, section 9.2): one message for each `data`,
  // which is one line. Throw ConnectionLost.
  void begin_events();
  void send_event(std::string_view data);
  void end_events();

  // For what HTTP does not do itself (WebSocket).
  Impl& impl() { return impl_; }

  bool has_begun_response() const;
  unsigned status() const;        // of the response; 0 before it
  uint64_t n_bytes_sent() const;  // of its body
  // Whether the client has closed the connection. Does not wait.
  bool client_has_left() const;

 private:
  Impl& impl_;
};

}  // namespace vesper
