#include "serve/http/web_socket.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <optional>
#include <utility>

#include "serve/http/http_exchange.h"
#include "serve/http/http_exchange_impl.h"

namespace vesper {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

namespace {

// HttpServer shuts its own descriptor down when the server stops, which ends this one too.
asio::ip::tcp::socket duplicate(asio::io_context& io, int descriptor) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  asio::ip::tcp::socket socket(io);
  error_code error;
  if (copy >= 0) socket.assign(asio::ip::tcp::v4(), copy, error);  // the family is only reported
  if (copy < 0 || error) throw ConnectionLost();
  return socket;
}

}  // namespace

// All but the atomic members belong to the thread of run().
struct WebSocket::State {
  State(int descriptor, const WebSocketLimits& given)
      : limits(given), stream(duplicate(io, descriptor)), timer(io), pause(io) {}

  void read() {
    stream.async_read(received, [this](const error_code& error, size_t) {
      if (error) return end_reading(/*is_connected=*/false);
      const auto bytes = received.cdata();
      if (!has_ended_reading) {
        events.on_message({static_cast<const char*>(bytes.data()), bytes.size()},
                          stream.got_text());
      }
      received.consume(received.size());
      last_message = Clock::now();  // on_message may have waited for longer than `idle`
      read_when_due();              // also after the end, for the client's part of the handshake
    });
  }

  // Reads the next message now, or after a pause if many came in the last second.
  void read_when_due() {
    constexpr std::chrono::seconds kSecond{1};
    if (last_message - second_began > kSecond) {
      second_began = last_message;
      n_in_second = 0;
    }
    if (++n_in_second < limits.messages_per_s) return read();
    pause.expires_at(second_began + kSecond);
    pause.async_wait([this](const error_code& error) {
      if (!error && !is_over) read();
    });
  }

  void end_reading(bool is_connected) {
    if (std::exchange(has_ended_reading, true)) return;
    events.on_end(is_connected);
  }

  void watch() {
    constexpr std::chrono::milliseconds kUntilAsked{200};
    timer.expires_after(kUntilAsked);
    timer.async_wait([this](const error_code& error) {
      if (error || is_over) return;
      const bool is_idle = Clock::now() - last_message > limits.idle;
      if (is_idle || (events.is_ending && events.is_ending())) {
        end_reading(/*is_connected=*/true);
      }
      watch();
    });
  }

  void write() {
    if (is_writing || is_over) return;
    if (unsent.empty()) {
      if (closing) begin_close();
      return;
    }
    is_writing = true;
    stream.text(true);
    stream.async_write(asio::buffer(unsent.front()), [this](const error_code& error, size_t) {
      is_writing = false;
      n_unsent_bytes -= unsent.front().size();
      unsent.pop_front();
      if (error) return end();
      write();
    });
  }

  // Counts a message as unsent. Ends the connection and returns false beyond max_unsent_bytes.
  // Any thread may call it.
  bool reserve(size_t n_bytes) {
    if (n_unsent_bytes.fetch_add(n_bytes) + n_bytes <= limits.max_unsent_bytes) return true;
    asio::post(io, [this] { end(); });
    return false;
  }

  void push(std::string message) {
    if (closing || is_over) {
      n_unsent_bytes -= message.size();
      return;
    }
    unsent.push_back(std::move(message));
    write();
  }

  void close_after_unsent(const websocket::close_reason& reason) {
    if (closing) return;
    closing = reason;
    write();
  }

  void begin_close() {
    is_over = true;
    timer.cancel();
    stream.async_close(*closing, [this](const error_code&) { end(); });
  }

  void end() {
    is_over = true;
    timer.cancel();
    error_code ignored;
    beast::get_lowest_layer(stream).close(ignored);
    end_reading(/*is_connected=*/false);
    io.stop();  // Beast's timer of pings would go on
  }

  using Clock = std::chrono::steady_clock;
  const WebSocketLimits limits;
  asio::io_context io{1};
  websocket::stream<asio::ip::tcp::socket> stream;
  asio::steady_timer timer;  // of watch()
  asio::steady_timer pause;  // before a read
  beast::flat_buffer received;
  Events events;
  Clock::time_point last_message = Clock::now(), second_began = last_message;
  uint32_t n_in_second = 0;  // messages
  std::deque<std::string> unsent;
  std::optional<websocket::close_reason> closing;  // after the unsent messages
  bool is_writing = false;
  bool has_ended_reading = false;
  bool is_over = false;  // nothing more is sent
  std::atomic<size_t> n_unsent_bytes{0};
};

WebSocket::WebSocket(HttpExchange& exchange, std::string_view protocol,
                     const WebSocketLimits& limits) {
  HttpExchange::Impl& impl = exchange.impl();
  const http::request<http::buffer_body>& request = impl.parser->get();
  if (!beast::iequals(request[http::field::upgrade], "websocket")) {
    exchange.set_header("Upgrade", "websocket");
    throw HttpError(426, "expected a WebSocket upgrade");
  }
  // A client sends nothing before it has the answer.
  if (!impl.parser->is_done() || impl.buffer.size() > 0) {
    throw HttpError(400, "expected no data before the answer to the upgrade");
  }
  // RFC 6455, section 4.2.1: the key is 16 bytes in base64. Beast's refusal would have no length.
  constexpr size_t kKeyCharacters = 24;
  if (!websocket::is_upgrade(request) || exchange.header("Sec-WebSocket-Version") != "13" ||
      exchange.header("Sec-WebSocket-Key").size() != kKeyCharacters) {
    throw HttpError(400, "malformed WebSocket upgrade");
  }
  state_ = std::make_unique<State>(impl.stream.descriptor(), limits);
  auto& stream = state_->stream;
  // The handshake and the close have the same limit.
  stream.set_option(websocket::stream_base::timeout{
      .handshake_timeout = limits.gone, .idle_timeout = limits.gone, .keep_alive_pings = true});
  stream.set_option(websocket::stream_base::decorator([&](websocket::response_type& response) {
    response.set(http::field::server, "vesper");
    const beast::string_view name(protocol.data(), protocol.size());
    if (http::token_list(request[http::field::sec_websocket_protocol]).exists(name)) {
      response.set(http::field::sec_websocket_protocol, name);
    }
  }));
  stream.read_message_max(limits.max_message_bytes);
  error_code error;
  stream.accept(request, error);
  impl.closes = true;
  impl.status = 101;
  impl.stream.set_upgraded();
  if (error) throw ConnectionLost();
}

WebSocket::~WebSocket() = default;

void WebSocket::run(Events events) {
  state_->events = std::move(events);
  state_->read();
  state_->watch();
  state_->io.run();
  state_->end_reading(/*is_connected=*/false);
}

void WebSocket::send(std::string text) {
  if (!state_->reserve(text.size())) return;
  asio::post(state_->io, [state = state_.get(), message = std::move(text)]() mutable {
    state->push(std::move(message));
  });
}

void WebSocket::send_last(std::string text, WebSocketClose code) {
  if (!state_->reserve(text.size())) return;
  asio::post(state_->io, [state = state_.get(), message = std::move(text), code]() mutable {
    state->push(std::move(message));
    state->close_after_unsent(static_cast<websocket::close_code>(code));
  });
}

void WebSocket::close(WebSocketClose code, std::string_view reason) {
  constexpr size_t kMostReasonBytes = 123;  // RFC 6455, section 5.5
  const websocket::close_reason given(
      static_cast<websocket::close_code>(code),
      beast::string_view(reason.data(), std::min(reason.size(), kMostReasonBytes)));
  asio::post(state_->io, [state = state_.get(), given] { state->close_after_unsent(given); });
}

}  // namespace vesper
