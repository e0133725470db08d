// A connected socket as a synchronous stream of Boost.Beast, with time limits. Asio's synchronous
// calls ignore SO_RCVTIMEO, so this stream waits with poll() before each call.
#pragma once

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstddef>
#include <optional>

#include "audio/sources/unlinked_file.h"

namespace vesper {

// One thread at a time reads and writes; any thread may call shut_down().
class SocketStream {
 public:
  using Clock = std::chrono::steady_clock;
  // Beast asks for an executor, and does not use it in synchronous calls.
  using executor_type = boost::asio::system_executor;
  executor_type get_executor() noexcept { return {}; }

  explicit SocketStream(UniqueFd socket);

  // A read or write that waits longer than `stall` fails with asio::error::timed_out; so do all
  // after `deadline`.
  void set_limits(std::chrono::milliseconds stall, std::optional<Clock::time_point> deadline = {});

  // Waits until there is a byte to read; false: none came before the limits, or the peer has left.
  bool wait_readable();
  // Whether the peer has closed the connection. Does not wait.
  bool peer_has_left() const;
  // Ends reads and writes of all threads.
  void shut_down();
  int descriptor() const { return socket_.get(); }
  // A WebSocket reads and writes the descriptor from now on. It learns by itself that the server
  // stops. Any thread may ask.
  void set_upgraded() { is_upgraded_ = true; }
  bool is_upgraded() const { return is_upgraded_; }

  template <class Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    error = {};
    for (auto it = boost::asio::buffer_sequence_begin(buffers);
         it != boost::asio::buffer_sequence_end(buffers); ++it) {
      const boost::asio::mutable_buffer buffer(*it);
      if (buffer.size() > 0) return receive(buffer.data(), buffer.size(), error);
    }
    return 0;
  }
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    const size_t n = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return n;
  }

  template <class Buffers>
  size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    error = {};
    for (auto it = boost::asio::buffer_sequence_begin(buffers);
         it != boost::asio::buffer_sequence_end(buffers); ++it) {
      const boost::asio::const_buffer buffer(*it);
      if (buffer.size() > 0) return send(buffer.data(), buffer.size(), error);
    }
    return 0;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {
    boost::system::error_code error;
    const size_t n = write_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return n;
  }

 private:
  size_t receive(void* data, size_t n_bytes, boost::system::error_code& error);
  size_t send(const void* data, size_t n_bytes, boost::system::error_code& error);
  // Waits for `events` of poll(); false after the limits.
  bool wait(short events);

  UniqueFd socket_;
  std::atomic<bool> is_upgraded_ = false;
  std::chrono::milliseconds stall_{30000};
  std::optional<Clock::time_point> deadline_;
};

}  // namespace vesper
