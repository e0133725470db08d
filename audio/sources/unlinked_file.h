// Owned file descriptors, and unnamed temporary files, which are gone when they are closed or the
// process ends.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

namespace vesper {

// Owns one open file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// The folder for temporary files: $TMPDIR, otherwise /var/tmp if it is writable (unlike /tmp it is
// rarely in memory), otherwise /tmp.
std::string temporary_folder();

// Opens an unnamed temporary file for reading and writing. On failure the descriptor is not open
// and errno has the reason.
UniqueFd open_unlinked_file();

// Calls once(bytes done, bytes left), a kind of read(2) or write(2), until all bytes are done.
// False if it stops before; errno has the reason if it failed.
template <class Once>
bool do_all(size_t n_bytes, const Once& once) {
  for (size_t done = 0; done < n_bytes;) {
    const ssize_t n = once(done, n_bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace vesper
