#include "audio/sources/byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "error/error.h"

namespace vesper {
namespace {

// Repeats `read_once`, a kind of read(2), while signals interrupt it.
template <class ReadOnce>
size_t checked_read(const std::string& name, const ReadOnce& read_once) {
  while (true) {
    const ssize_t got = read_once();
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) {
      throw Error(ErrorKind::kInput, "cannot read " + name + ": " + std::strerror(errno));
    }
  }
}

}  // namespace

size_t ByteStream::read(uint8_t* bytes, size_t n) {
  size_t done = std::min(n, head_.size() - position_);
  std::copy_n(head_.data() + position_, done, bytes);
  position_ += done;
  if (!keeps_head_ && position_ == head_.size()) {
    head_.clear();
    position_ = 0;
  }
  while (done < n) {
    const size_t got = pull_(bytes + done, n - done);
    if (got == 0) break;
    if (keeps_head_) {
      head_.insert(head_.end(), bytes + done, bytes + done + got);
      position_ += got;
    }
    done += got;
  }
  return done;
}

void ByteStream::forget_head() {
  keeps_head_ = false;
  head_.erase(head_.begin(), head_.begin() + static_cast<std::ptrdiff_t>(position_));
  position_ = 0;
}

ByteStream stream_of(std::span<const uint8_t> bytes) {
  return ByteStream([bytes](uint8_t* to, size_t n) mutable {
    n = std::min(n, bytes.size());
    std::copy_n(bytes.data(), n, to);
    bytes = bytes.subspan(n);
    return n;
  });
}

ByteStream stream_of(UniqueFd fd, const std::string& name) {
  // std::function must be copyable, so the descriptor is shared.
  return ByteStream(
      [shared = std::make_shared<UniqueFd>(std::move(fd)), name](uint8_t* bytes, size_t n) {
        return checked_read(name, [&] { return ::read(shared->get(), bytes, n); });
      });
}

ByteStream stream_of_file(UniqueFd fd, const std::string& name) {
  return ByteStream([shared = std::make_shared<UniqueFd>(std::move(fd)), name, at = off_t{0}](
                        uint8_t* bytes, size_t n) mutable {
    const size_t got = checked_read(name, [&] { return ::pread(shared->get(), bytes, n, at); });
    at += static_cast<off_t>(got);
    return got;
  });
}

UniqueFd spool_to_unlinked_file(ByteStream& stream, const std::string& name) {
  const auto fail = [&](const char* doing) {
    const std::string why = std::strerror(errno);
    return Error(ErrorKind::kInput, "cannot keep " + name + " in a temporary file in '" +
                                        temporary_folder() + "' (" + doing + "): " + why);
  };
  UniqueFd file = open_unlinked_file();
  if (!file.is_open()) throw fail("create");

  stream.forget_head();
  std::vector<uint8_t> block(size_t{1} << 18);
  while (true) {
    const size_t got = stream.read(block.data(), block.size());
    const bool is_written = do_all(got, [&](size_t done, size_t left) {
      return ::write(file.get(), block.data() + done, left);
    });
    if (!is_written) throw fail("write");
    if (got < block.size()) break;
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) throw fail("rewind");
  return file;
}

}  // namespace vesper
