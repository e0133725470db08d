// WebSocket: a connection that HTTP has upgraded (RFC 6455). In: the request and its socket. Out:
// messages to and from the client. Boost.Beast does the framing, pings and the closing handshake.
// Used by serve/live.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace vesper {

class HttpExchange;

struct WebSocketLimits {
  size_t max_message_bytes = size_t{1} << 20;  // a larger message ends the connection (1009)
  // Bytes of messages that the client has not taken yet. Beyond it the connection ends, so that a
  // slow reader costs no memory.
  size_t max_unsent_bytes = size_t{1} << 20;
  std::chrono::milliseconds idle{30000};  // without a message from the client
  std::chrono::milliseconds gone{30000};  // without an answer to a ping
  // Messages that are read in a second, on average: 20 times those of a client that sends 50 pieces
  // of audio in each. A client that sends more waits.
  uint32_t messages_per_s = 1000;
};

// Codes of RFC 6455, section 7.4.1.
enum class WebSocketClose : uint16_t {
  kNormal = 1000,
  kGoingAway = 1001,
  kPolicyViolation = 1008,
  kInternalError = 1011,
  kTryAgainLater = 1013,
};

class WebSocket {
 public:
  struct Events {
    // A message of the client. While it runs, no further message is read, so a client that sends
    // faster than its messages are handled waits. Must not throw.
    std::function<void(std::string_view bytes, bool is_text)> on_message;
    // No message will follow. Called once. `is_connected`: the client was idle, or is_ending
    // returned true, and messages can still be sent; otherwise the client has left or closes.
    std::function<void(bool is_connected)> on_end;
    // Asked several times a second; true ends reading. May be absent.
    std::function<bool()> is_ending;
  };

  // Answers the upgrade. `protocol`: chosen if the client's Sec-WebSocket-Protocol lists it. Throws
  // HttpError(426) for a request that is no upgrade to a WebSocket, HttpError(400) for a malformed
  // one, and ConnectionLost.
  WebSocket(HttpExchange& exchange, std::string_view protocol, const WebSocketLimits& limits);
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  // Handles the connection until it has ended. All events are called in this thread.
  void run(Events events);

  // Any thread may call these, also after the connection has ended: then they do nothing.
  void send(std::string text);
  // Sends `text`, then ends the connection. Drops what any thread sends later.
  void send_last(std::string text, WebSocketClose code);
  // Ends the connection after the messages that were sent before. Drops what is sent later.
  void close(WebSocketClose code, std::string_view reason = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
