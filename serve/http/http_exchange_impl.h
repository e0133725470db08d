// The state of an HttpExchange, apart from it because Boost.Beast's headers are large.
#pragma once

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string>

#include "serve/http/http_exchange.h"
#include "serve/http/socket_stream.h"

namespace vesper {

class HttpExchange::Impl {
 public:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;

  // `n_stops`: not 0 when the server stops: then no further request follows.
  Impl(SocketStream& socket, boost::beast::flat_buffer& received, std::string peer_address,
       const std::atomic<int>& n_stops)
      : stream(socket), buffer(received), peer(std::move(peer_address)), n_stops_(n_stops) {}

  // Reads the header. false: the client sent nothing and left, or was idle until the limits. Throws
  // HttpError (400, 408, 414, 431, 505) and ConnectionLost.
  bool read_header(uint32_t max_header_bytes);
  void read_body(uint64_t max_bytes, const std::function<void(std::string_view)>& take);
  void respond(unsigned code, std::string_view content_type, std::string_view body);
  void begin_events();
  void send_event(std::string_view data);
  void end_events();
  // Whether another request may follow on this connection.
  bool keeps_alive() const;

  SocketStream& stream;
  boost::beast::flat_buffer& buffer;  // received bytes that are not parsed yet
  std::string peer;
  std::optional<Parser> parser;
  std::string method, path;
  std::vector<std::pair<std::string, std::string>> headers;  // of the response
  unsigned status = 0;
  uint64_t n_bytes_sent = 0;
  bool closes = false;  // the connection ends after this response

 private:
  const std::atomic<int>& n_stops_;

  boost::beast::http::response<boost::beast::http::empty_body> response_header(
      unsigned code, std::string_view content_type) const;
  void continue_if_expected();
  template <class Buffers>
  void write(const Buffers& buffers);
};

}  // namespace vesper
