#include "serve/http/socket_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace vesper {

namespace asio = boost::asio;

SocketStream::SocketStream(UniqueFd socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

void SocketStream::set_limits(std::chrono::milliseconds stall,
                              std::optional<Clock::time_point> deadline) {
  stall_ = stall;
  deadline_ = deadline;
}

bool SocketStream::wait(short events) {
  Clock::time_point until = Clock::now() + stall_;
  if (deadline_) until = std::min(until, *deadline_);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waited{socket_.get(), events, 0};
    const int n = ::poll(&waited, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) return false;
  }
}

bool SocketStream::wait_readable() {
  if (!wait(POLLIN)) return false;
  char byte;
  const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0;
}

bool SocketStream::peer_has_left() const {
  pollfd waited{socket_.get(), POLLRDHUP, 0};
  return ::poll(&waited, 1, 0) > 0;
}

void SocketStream::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

size_t SocketStream::receive(void* data, size_t n_bytes, boost::system::error_code& error) {
  for (;;) {
    if (!wait(POLLIN)) {
      error = asio::error::timed_out;
      return 0;
    }
    const ssize_t n = ::recv(socket_.get(), data, n_bytes, 0);
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0) {
      error = asio::error::eof;
      return 0;
    }
    if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) continue;
    error.assign(errno, boost::system::system_category());
    return 0;
  }
}

size_t SocketStream::send(const void* data, size_t n_bytes, boost::system::error_code& error) {
  for (;;) {
    const ssize_t n = ::send(socket_.get(), data, n_bytes, MSG_NOSIGNAL);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      error.assign(errno, boost::system::system_category());
      return 0;
    }
    if (!wait(POLLOUT)) {
      error = asio::error::timed_out;
      return 0;
    }
  }
}

}  // namespace vesper
