#include "tests/serve/loopback_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace vesper {

LoopbackClient::LoopbackClient(uint16_t port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval limit{20, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void LoopbackClient::send(std::string_view bytes) {
  // A server that has closed the connection is found by the next read.
  do_all(bytes.size(), [&](size_t done, size_t left) {
    return ::send(socket_.get(), bytes.data() + done, left, MSG_NOSIGNAL);
  });
}

bool LoopbackClient::receive() {
  std::array<char, 4096> bytes;
  const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (n <= 0) return false;
  received_.append(bytes.data(), static_cast<size_t>(n));
  return true;
}

HttpReply LoopbackClient::read_reply() {
  HttpReply reply;
  size_t end;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!receive()) return reply;
  }
  reply.status = std::stoi(received_.substr(std::string("HTTP/1.1 ").size(), 3));
  for (size_t at = received_.find("\r\n"); at < end;) {
    const size_t next = received_.find("\r\n", at + 2);
    const std::string line = received_.substr(at + 2, next - at - 2);
    const size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
    if (colon != std::string::npos) reply.headers[name] = line.substr(colon + 2);
    at = next;
  }
  received_.erase(0, end + 4);
  if (reply.headers["transfer-encoding"] == "chunked") {
    for (size_t size = 1; size > 0;) {
      while ((end = received_.find("\r\n")) == std::string::npos) {
        if (!receive()) return reply;
      }
      size = std::stoul(received_, nullptr, 16);
      while (received_.size() < end + 2 + size + 2) {
        if (!receive()) return reply;
      }
      reply.body += received_.substr(end + 2, size);
      received_.erase(0, end + 2 + size + 2);
    }
    return reply;
  }
  if (!reply.headers.contains("content-length")) return reply;
  const size_t n_bytes = std::stoul(reply.headers["content-length"]);
  while (received_.size() < n_bytes && receive()) {
  }
  reply.body = received_.substr(0, n_bytes);
  received_.erase(0, n_bytes);
  return reply;
}

std::string LoopbackClient::read_rest() {
  while (receive()) {
  }
  return std::exchange(received_, {});
}

void LoopbackClient::close(bool resets) {
  const linger at_once{1, 0};
  if (resets) ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket_.reset();
}

HttpReply request(uint16_t port, const std::string& method, const std::string& path,
                  const std::string& body, const std::string& headers) {
  LoopbackClient client(port);
  client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  return client.read_reply();
}

}  // namespace vesper
