#include "serve/http/http_exchange.h"

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_cat.hpp>
#include <limits>
#include <utility>

#include "serve/http/http_exchange_impl.h"

namespace vesper {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// The text that `encoded` stands for. Throws HttpError(400).
std::string percent_decoded(std::string_view encoded) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string text;
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      text += encoded[i];
      continue;
    }
    const int high = i + 2 < encoded.size() ? digit(encoded[i + 1]) : -1;
    const int low = i + 2 < encoded.size() ? digit(encoded[i + 2]) : -1;
    if (high < 0 || low < 0) throw HttpError(400, "expected %XX in the address");
    text += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return text;
}

// The path of a request target: percent-decoded, without query. Throws HttpError(400).
std::string path_of(std::string_view target) {
  std::string path = percent_decoded(target.substr(0, target.find_first_of("?#")));
  if (path.empty() || path.front() != '/')
    throw HttpError(400, "expected a path that begins with /");
  return path;
}

bool is_time_out(const error_code& error) { return error == asio::error::timed_out; }

// An error while reading. Throws HttpError for what the client did wrong, else ConnectionLost.
[[noreturn]] void throw_read_error(const error_code& error) {
  if (is_time_out(error)) throw HttpError(408, "the request came too slowly");
  if (error == http::error::header_limit) throw HttpError(431, "the header is too large");
  if (error == http::error::body_limit) throw HttpError(413, "the body is too large");
  if (error == http::error::bad_version) throw HttpError(505, "expected HTTP/1.0 or HTTP/1.1");
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    throw HttpError(400, "malformed HTTP: " + error.message());
  }
  throw ConnectionLost();
}

}  // namespace

bool HttpExchange::Impl::read_header(uint32_t max_header_bytes) {
  parser.emplace();
  parser->header_limit(max_header_bytes);
  // read_body() has a limit. "No limit" (boost::none) refuses every body in Boost 1.74.
  parser->body_limit(std::numeric_limits<uint64_t>::max());
  error_code error;
  http::read_header(stream, buffer, *parser, error);
  if (error) {
    closes = true;
    // Nothing of a request: the end of the connection.
    if (error == http::error::end_of_stream) return false;
    if (!parser->got_some()) {
      if (is_time_out(error) || error.category() == boost::system::system_category()) return false;
    }
    throw_read_error(error);
  }
  const auto& request = parser->get();
  method = std::string(request.method_string());
  const auto target = request.target();
  if (target.size() > 2048) throw HttpError(414, "the path is too long");
  path = path_of({target.data(), target.size()});
  return true;
}

void HttpExchange::Impl::continue_if_expected() {
  const auto expected = parser->get()[http::field::expect];
  if (expected.empty()) return;
  if (!beast::iequals(expected, "100-continue")) {
    throw HttpError(417, "expected 100-continue in the header Expect");
  }
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  write(asio::buffer(kContinue.data(), kContinue.size()));
}

void HttpExchange::Impl::read_body(uint64_t max_bytes,
                                   const std::function<void(std::string_view)>& take) {
  const auto length = parser->content_length();
  if (length && *length > max_bytes) throw HttpError(413, "the body is too large");
  if (parser->is_done()) return;
  continue_if_expected();
  std::array<char, 65536> piece;
  uint64_t n_bytes = 0;
  while (!parser->is_done()) {
    auto& body = parser->get().body();
    body.data = piece.data();
    body.size = piece.size();
    error_code error;
    http::read(stream, buffer, *parser, error);
    if (error == http::error::need_buffer) error = {};
    if (error) {
      closes = true;
      throw_read_error(error);
    }
    const size_t n = piece.size() - body.size;
    n_bytes += n;
    if (n_bytes > max_bytes) throw HttpError(413, "the body is too large");
    if (n > 0) take({piece.data(), n});
  }
}

bool HttpExchange::Impl::keeps_alive() const {
  return !closes && n_stops_ == 0 && parser && parser->is_done() && parser->get().keep_alive();
}

http::response<http::empty_body> HttpExchange::Impl::response_header(
    unsigned code, std::string_view content_type) const {
  const bool has_request = parser && parser->is_header_done();
  http::response<http::empty_body> response(static_cast<http::status>(code),
                                            has_request ? parser->get().version() : 11);
  response.set(http::field::server, "vesper");
  response.set("X-Content-Type-Options", "nosniff");
  if (!content_type.empty()) {
    response.set(http::field::content_type,
                 beast::string_view(content_type.data(), content_type.size()));
  }
  for (const auto& [name, value] : headers) response.set(name, value);
  response.keep_alive(keeps_alive());
  return response;
}

template <class Buffers>
void HttpExchange::Impl::write(const Buffers& buffers) {
  error_code error;
  asio::write(stream, buffers, error);
  if (error) {
    closes = true;
    throw ConnectionLost();
  }
}

void HttpExchange::Impl::respond(unsigned code, std::string_view content_type,
                                 std::string_view body) {
  // What is left of a body is not read: it may be large.
  if (!parser || !parser->is_done()) closes = true;
  auto response = response_header(code, content_type);
  // A 204 has no content, and a 304 not that of its length (RFC 9110, sections 8.6 and 15.4.5).
  if (code != 204 && code != 304) response.content_length(body.size());
  status = code;
  error_code error;
  http::response_serializer<http::empty_body> serializer(response);
  http::write_header(stream, serializer, error);
  if (error) {
    closes = true;
    throw ConnectionLost();
  }
  if (method == "HEAD") return;
  write(asio::buffer(body.data(), body.size()));
  n_bytes_sent = body.size();
}

void HttpExchange::Impl::begin_events() {
  if (!parser->is_done()) closes = true;
  const bool is_chunked = parser->get().version() >= 11;
  if (!is_chunked) closes = true;  // the end of the connection is that of the body
  auto response = response_header(200, "text/event-stream; charset=utf-8");
  response.set(http::field::cache_control, "no-cache");
  if (is_chunked) response.chunked(true);
  status = 200;
  error_code error;
  http::response_serializer<http::empty_body> serializer(response);
  http::write_header(stream, serializer, error);
  if (error) {
    closes = true;
    throw ConnectionLost();
  }
}

void HttpExchange::Impl::send_event(std::string_view data) {
  const std::string message = "data: " + std::string(data) + "\n\n";
  n_bytes_sent += message.size();
  if (parser->get().version() >= 11) {
    write(http::make_chunk(asio::buffer(message)));
  } else {
    write(asio::buffer(message));
  }
}

void HttpExchange::Impl::end_events() {
  if (parser->get().version() >= 11) write(http::make_chunk_last());
}

const std::string& HttpExchange::method() const { return impl_.method; }
const std::string& HttpExchange::path() const { return impl_.path; }
const std::string& HttpExchange::peer() const { return impl_.peer; }

std::string HttpExchange::query(std::string_view name) const {
  const auto target = impl_.parser->get().target();
  std::string_view left(target.data(), target.size());
  left = left.substr(0, left.find('#'));
  left.remove_prefix(std::min(left.find('?'), left.size()));
  while (!left.empty()) {
    left.remove_prefix(1);  // ? or &
    const std::string_view field = left.substr(0, left.find('&'));
    const size_t equals = std::min(field.find('='), field.size());
    if (percent_decoded(field.substr(0, equals)) == name) {
      return percent_decoded(field.substr(std::min(equals + 1, field.size())));
    }
    left.remove_prefix(field.size());
  }
  return "";
}

std::string_view HttpExchange::header(std::string_view name) const {
  const auto& request = impl_.parser->get();
  const auto found = request.find(beast::string_view(name.data(), name.size()));
  if (found == request.end()) return {};
  return {found->value().data(), found->value().size()};
}

size_t HttpExchange::count_headers(std::string_view name) const {
  return impl_.parser->get().count(beast::string_view(name.data(), name.size()));
}

void HttpExchange::read_body(uint64_t max_bytes,
                             const std::function<void(std::string_view)>& take) {
  impl_.read_body(max_bytes, take);
}

std::string HttpExchange::read_body(uint64_t max_bytes) {
  std::string body;
  impl_.read_body(max_bytes, [&](std::string_view piece) { body += piece; });
  return body;
}

void HttpExchange::set_header(std::string_view name, std::string_view value) {
  impl_.headers.emplace_back(name, value);
}

void HttpExchange::respond(unsigned status, std::string_view content_type, std::string_view body) {
  impl_.respond(status, content_type, body);
}

void HttpExchange::begin_events() { impl_.begin_events(); }
void HttpExchange::send_event(std::string_view data) { impl_.send_event(data); }
void HttpExchange::end_events() { impl_.end_events(); }
bool HttpExchange::has_begun_response() const { return impl_.status != 0; }
unsigned HttpExchange::status() const { return impl_.status; }
uint64_t HttpExchange::n_bytes_sent() const { return impl_.n_bytes_sent; }
bool HttpExchange::client_has_left() const { return impl_.stream.peer_has_left(); }

}  // namespace vesper
