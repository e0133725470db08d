// A client that sends any bytes over a loopback connection, and reads what the server answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "audio/sources/unlinked_file.h"

namespace vesper {

struct HttpReply {
  int status = 0;                                   // 0: the connection ended without a response
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};                            // without chunks
};

class LoopbackClient {
 public:
  explicit LoopbackClient(uint16_t port);

  void send(std::string_view bytes);
  // The next response; waits for at most 20 s.
  HttpReply read_reply();
  // What has not been read until the server closes the connection, or nothing comes for 20 s.
  std::string read_rest();
  // Closes the connection; `resets`: so that the server gets an error.
  void close(bool resets = false);

 private:
  bool receive();

  UniqueFd socket_;
  std::string received_;
};

// Headers of a request for a WebSocket (RFC 6455, section 4.1), without the key.
inline constexpr const char* kWebSocketHeaders =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";

// A request with a body, on a connection of its own.
HttpReply request(uint16_t port, const std::string& method, const std::string& path,
                  const std::string& body = "", const std::string& headers = "");

}  // namespace vesper
