// The rows of a log-mel spectrogram as they are kept: those of a short recording in memory, those
// of a long one, 115 MB an hour with 80 mels, in a temporary file, from which the few that a window
// shows are read when it is looked at.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "audio/unlinked_file.h"

namespace vesper {

class MelRows {
 public:
  // In memory are at most the latest so many rows, 2 minutes. Where no file can be written, or it
  // is full, it is as many as there are.
  static constexpr size_t kMostInMemory = 12000;

  explicit MelRows(size_t n_mels) : n_mels_(n_mels) {}

  // Takes the next rows, [n, n_mels].
  void append(const float* rows, size_t n);

  // Writes rows first, first + 1, ... to `out`, [n, n_mels]; first + n <= size(). Throws
  // Error(kInput) if the file cannot be read.
  void read(size_t first, size_t n, float* out) const;

  size_t size() const { return n_rows_; }
  size_t n_in_memory() const { return n_rows_ - n_written_ * kRowsPerChunk; }

 private:
  static constexpr size_t kRowsPerChunk = 3000;

  // Moves the chunks that are full to the file, as far as it takes them.
  void write_chunks();
  size_t chunk_bytes() const { return kRowsPerChunk * n_mels_ * sizeof(float); }

  size_t n_mels_;
  size_t n_rows_ = 0;
  UniqueFd file_;
  bool is_file_full_ = false;  // or there is none
  size_t n_written_ = 0;       // chunks, from the beginning on
  // Those after them, each [kRowsPerChunk, n_mels]: growing copies none.
  std::vector<std::unique_ptr<float[]>> chunks_;
};

}  // namespace vesper
