// File descriptors: their owner, and a temporary file without a name, which is gone as soon as it
// is closed or the process ends.
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

// Where temporary files are put: $TMPDIR, else /var/tmp, which unlike /tmp is rarely kept in
// memory, where it can be written to, else /tmp.
std::string temporary_folder();

// Opens a new one in that folder, for reading and writing. If it cannot, the descriptor is not open
// and errno says why.
UniqueFd open_unlinked_file();

// Calls once(bytes done, bytes left), read(2) or write(2) of some kind, until it has done all.
// False if it does no more; errno says why, if it failed.
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
