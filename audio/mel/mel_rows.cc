#include "audio/mel/mel_rows.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "error/error.h"

namespace vesper {
void MelRows::append(const float* rows, size_t n) {
  while (n > 0) {
    const size_t at = n_rows_ % kRowsPerChunk;
    if (at == 0) {
      if (chunks_.size() * kRowsPerChunk >= kMostInMemory) write_chunks();
      chunks_.push_back(std::make_unique_for_overwrite<float[]>(kRowsPerChunk * n_mels_));
    }
    const size_t part = std::min(n, kRowsPerChunk - at);
    std::copy_n(rows, part * n_mels_, chunks_.back().get() + at * n_mels_);
    rows += part * n_mels_;
    n_rows_ += part;
    n -= part;
  }
}

void MelRows::write_chunks() {
  if (is_file_full_) return;
  if (!file_.is_open()) file_ = open_unlinked_file();
  is_file_full_ = !file_.is_open();
  size_t n = 0;
  while (!is_file_full_ && n < chunks_.size()) {
    const auto* bytes = reinterpret_cast<const char*>(chunks_[n].get());
    const size_t start = n_written_ * chunk_bytes();
    is_file_full_ = !do_all(chunk_bytes(), [&](size_t done, size_t left) {
      return ::pwrite(file_.get(), bytes + done, left, static_cast<off_t>(start + done));
    });
    if (is_file_full_) break;
    ++n_written_;
    ++n;
  }
  chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(n));
}

void MelRows::read(size_t first, size_t n, float* out) const {
  const size_t n_in_file = n_written_ * kRowsPerChunk;
  if (first < n_in_file && n > 0) {
    const size_t part = std::min(n, n_in_file - first), row_bytes = n_mels_ * sizeof(float);
    auto* bytes = reinterpret_cast<char*>(out);
    errno = 0;
    const bool is_read = do_all(part * row_bytes, [&](size_t done, size_t left) {
      return ::pread(file_.get(), bytes + done, left, static_cast<off_t>(first * row_bytes + done));
    });
    if (!is_read) {
      throw Error(ErrorKind::kInput,
                  std::string("cannot read the spectrogram back from its temporary file: ") +
                      (errno != 0 ? std::strerror(errno) : "it is cut off"));
    }
    first += part;
    n -= part;
    out += part * n_mels_;
  }
  while (n > 0) {
    const size_t at = first % kRowsPerChunk, part = std::min(n, kRowsPerChunk - at);
    std::copy_n(chunks_[first / kRowsPerChunk - n_written_].get() + at * n_mels_, part * n_mels_,
                out);
    first += part;
    n -= part;
    out += part * n_mels_;
  }
}

}  // namespace vesper
