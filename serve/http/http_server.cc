#include "serve/http/http_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "error/error.h"
#include "serve/http/http_exchange_impl.h"
#include "serve/http/socket_stream.h"

namespace vesper {
namespace {

using Clock = std::chrono::steady_clock;

std::string numeric_address(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return host.data();
}

uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void set_port(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, FreeAddresses> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    throw Error(ErrorKind::kUsage, "host",
                "expected a name or address of this machine, found \"" + host +
                    "\": " + ::gai_strerror(status));
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(list);
}

UniqueFd listen_on(const addrinfo& address, uint16_t port) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return {};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  sockaddr_storage copy{};
  std::memcpy(&copy, address.ai_addr, address.ai_addrlen);
  set_port(reinterpret_cast<sockaddr*>(&copy), port);
  // A client whose connection finds the queue full tries again after a second.
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&copy), address.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

}  // namespace

struct HttpServer::State {
  HttpLimits limits;
  HttpAnswers answers;
  std::vector<UniqueFd> listeners;
  std::vector<std::string> addresses;
  uint16_t port = 0;
  UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> n_stops{0};

  std::mutex mutex;
  std::condition_variable ended;
  std::list<SocketStream*> streams;  // of open connections
  std::atomic<size_t> n_connections{0};

  void serve(SocketStream& stream, const std::string& peer);
  void serve_one(HttpExchange::Impl& impl);
  void refuse(SocketStream& stream, const std::string& peer);
  void accept_from(int listener);
  void start(UniqueFd socket, std::string peer);
};

HttpServer::HttpServer(const std::string& host, uint16_t port, HttpLimits limits,
                       HttpAnswers answers)
    : state_(std::make_unique<State>()) {
  state_->limits = limits;
  state_->answers = std::move(answers);
  const auto list = addresses_of(host);
  int reason = 0;
  for (const addrinfo* it = list.get(); it != nullptr; it = it->ai_next) {
    // The other addresses of the host get the port that was free for the first one.
    UniqueFd socket = listen_on(*it, state_->port != 0 ? state_->port : port);
    if (!socket.is_open()) {
      reason = errno;
      continue;
    }
    state_->port = port_of(socket.get());
    const std::string address = numeric_address(it->ai_addr, it->ai_addrlen);
    state_->addresses.push_back((it->ai_family == AF_INET6 ? "[" + address + "]" : address) + ":" +
                                std::to_string(state_->port));
    state_->listeners.push_back(std::move(socket));
  }
  if (state_->listeners.empty()) {
    throw Error(ErrorKind::kUsage, "port",
                "cannot listen on " + host + ":" + std::to_string(port) + ": " +
                    std::generic_category().message(reason));
  }
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->port; }
const std::vector<std::string>& HttpServer::addresses() const { return state_->addresses; }
size_t HttpServer::n_connections() const { return state_->n_connections; }
bool HttpServer::is_stopping() const { return state_->n_stops > 0; }

void HttpServer::stop() {
  ++state_->n_stops;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(state_->wake.get(), &one, sizeof one);
}

void HttpServer::State::serve_one(HttpExchange::Impl& impl) {
  HttpExchange exchange(impl);
  try {
    if (!impl.read_header(limits.max_header_bytes)) return;
    impl.stream.set_limits(limits.stall);
    answers.handle(exchange);
  } catch (const HttpError& error) {
    impl.closes = true;
    impl.stream.set_limits(limits.stall);
    if (!exchange.has_begun_response()) answers.fail(exchange, error);
  }
}

void HttpServer::State::serve(SocketStream& stream, const std::string& peer) {
  boost::beast::flat_buffer buffer;
  try {
    for (;;) {
      HttpExchange::Impl impl(stream, buffer, peer, n_stops);
      stream.set_limits(limits.idle);
      if (buffer.size() == 0 && !stream.wait_readable()) return;
      stream.set_limits(limits.header, Clock::now() + limits.header);
      serve_one(impl);
      if (!impl.keeps_alive()) break;
    }
  } catch (const ConnectionLost&) {
    return;
  }
  // Lets the client read the response before the connection is reset because of an unread body.
  ::shutdown(stream.descriptor(), SHUT_WR);
  std::array<char, 4096> rest;
  constexpr int kMostPieces = 256;
  stream.set_limits(std::chrono::milliseconds(500), Clock::now() + std::chrono::milliseconds(1000));
  boost::system::error_code error;
  for (int i = 0; i < kMostPieces && !error; ++i) {
    stream.read_some(boost::asio::buffer(rest), error);
  }
}

void HttpServer::State::refuse(SocketStream& stream, const std::string& peer) {
  boost::beast::flat_buffer buffer;
  HttpExchange::Impl impl(stream, buffer, peer, n_stops);
  impl.closes = true;
  HttpExchange exchange(impl);
  stream.set_limits(std::chrono::milliseconds(0));  // do not wait for this client
  exchange.set_header("Retry-After", "1");
  try {
    answers.fail(exchange, HttpError(503, "the server has too many connections"));
  } catch (const ConnectionLost&) {
  }
}

void HttpServer::State::start(UniqueFd socket, std::string peer) {
  auto stream = std::make_shared<SocketStream>(std::move(socket));
  if (n_connections >= limits.n_connections) return refuse(*stream, peer);
  std::list<SocketStream*>::iterator place;
  {
    const std::lock_guard lock(mutex);
    place = streams.insert(streams.end(), stream.get());
    ++n_connections;
  }
  const auto end = [this, place] {
    const std::lock_guard lock(mutex);
    streams.erase(place);
    --n_connections;
    ended.notify_all();
  };
  try {
    std::thread([this, stream, end, client = std::move(peer)] {
      serve(*stream, client);
      end();
    }).detach();
  } catch (const std::system_error&) {  // no further thread
    refuse(*stream, "");
    end();
  }
}

void HttpServer::State::accept_from(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  UniqueFd socket(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC));
  if (!socket.is_open()) {
    // Without descriptors the connection stays in the queue: wait for one to close.
    if (errno == EMFILE || errno == ENFILE) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return;
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  start(std::move(socket), numeric_address(reinterpret_cast<sockaddr*>(&address), size));
}

void HttpServer::run(std::chrono::milliseconds grace) {
  std::vector<pollfd> waited;
  for (const UniqueFd& listener : state_->listeners) waited.push_back({listener.get(), POLLIN, 0});
  waited.push_back({state_->wake.get(), POLLIN, 0});
  while (!is_stopping()) {
    if (::poll(waited.data(), waited.size(), -1) < 0) continue;
    for (size_t i = 0; i + 1 < waited.size(); ++i) {
      if (waited[i].revents != 0) state_->accept_from(waited[i].fd);
    }
  }
  state_->listeners.clear();
  std::unique_lock lock(state_->mutex);
  // Idle connections end now: this ends their wait for a request, not a response.
  for (SocketStream* stream : state_->streams) {
    if (!stream->is_upgraded()) ::shutdown(stream->descriptor(), SHUT_RD);
  }
  const auto deadline = Clock::now() + grace;
  while (!state_->streams.empty() && Clock::now() < deadline && state_->n_stops < 2) {
    state_->ended.wait_for(lock, std::chrono::milliseconds(100));
  }
  while (!state_->streams.empty()) {
    for (SocketStream* stream : state_->streams) stream->shut_down();
    state_->ended.wait_for(lock, std::chrono::milliseconds(100));
  }
}

}  // namespace vesper
