// ByteStream: a forward stream of bytes from a pipe or another program, with rewinding while the
// header is read. Inside audio/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "audio/sources/unlinked_file.h"

namespace vesper {

class ByteStream {
 public:
  // Writes up to `n` bytes, at least one before the end of the stream (0). May throw Error(kInput).
  using Pull = std::function<size_t(uint8_t* bytes, size_t n)>;

  explicit ByteStream(Pull pull) : pull_(std::move(pull)) {}

  // Reads `n` bytes, fewer at the end of the stream; returns how many.
  size_t read(uint8_t* bytes, size_t n);

  // Until `forget_head`, all bytes are kept so that `rewind` can go back to the first one.
  void rewind() { position_ = 0; }
  void forget_head();
  size_t head_size() const { return head_.size(); }  // bytes kept so far

 private:
  Pull pull_;
  std::vector<uint8_t> head_;  // bytes kept for rewinding, or the rest of them
  size_t position_ = 0;        // next byte of head_ to read
  bool keeps_head_ = true;
};

// A ByteStream over `bytes`, which must outlive it.
ByteStream stream_of(std::span<const uint8_t> bytes);

// A ByteStream that owns `fd`. `name` is for messages.
ByteStream stream_of(UniqueFd fd, const std::string& name);

// A ByteStream that owns the seekable file `fd` and reads it from its beginning, independently of
// the file position.
ByteStream stream_of_file(UniqueFd fd, const std::string& name);

// Copies the rest of `stream` to an unnamed temporary file (unlinked_file.h) and seeks to its
// beginning. The stream keeps no bytes of it. Throws Error(kInput) if the folder is full or not
// writable.
UniqueFd spool_to_unlinked_file(ByteStream& stream, const std::string& name);

}  // namespace vesper
