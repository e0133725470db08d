// Storage of the rows of a log-mel spectrogram. A short recording is in memory. A long one, 115 MB
// per hour with 80 mels, is in a temporary file, from which single windows are read.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "audio/sources/unlinked_file.h"

namespace vesper {

class MelRows {
 public:
  // At most the latest rows in memory, 2 minutes. If no file can be written, all rows are in
  // memory.
  static constexpr size_t kMostInMemory = 12000;

  explicit MelRows(size_t n_mels) : n_mels_(n_mels) {}

  // Appends rows, [n, n_mels].
  void append(const float* rows, size_t n);

  // Writes rows [first, first + n) to `out`, [n, n_mels]; first + n <= size(). Throws Error(kInput)
  // if the file cannot be read.
  void read(size_t first, size_t n, float* out) const;

  size_t size() const { return n_rows_; }
  size_t n_in_memory() const { return n_rows_ - n_written_ * kRowsPerChunk; }

 private:
  static constexpr size_t kRowsPerChunk = 3000;

  // Moves full chunks to the file until it is full.
  void write_chunks();
  size_t chunk_bytes() const { return kRowsPerChunk * n_mels_ * sizeof(float); }

  size_t n_mels_;
  size_t n_rows_ = 0;
  UniqueFd file_;
  bool is_file_full_ = false;  // also if there is no file
  size_t n_written_ = 0;       // chunks in the file
  // The following chunks, each [kRowsPerChunk, n_mels].
  std::vector<std::unique_ptr<float[]>> chunks_;
};

}  // namespace vesper
