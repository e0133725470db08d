// ByteStream: bytes that come once, from a pipe or another program, with a way back while the
// header is looked at. Inside audio/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "audio/unlinked_file.h"

namespace vesper {

class ByteStream {
 public:
  // Writes up to `n` bytes, at least one unless the stream has ended (0). May throw Error(kInput).
  using Pull = std::function<size_t(uint8_t* bytes, size_t n)>;

  explicit ByteStream(Pull pull) : pull_(std::move(pull)) {}

  // Reads until `n` bytes are there or the stream ends; returns how many.
  size_t read(uint8_t* bytes, size_t n);

  // Until `forget_head`, every byte read is kept, so that `rewind` can go back to the first one.
  void rewind() { position_ = 0; }
  void forget_head();
  size_t head_size() const { return head_.size(); }  // bytes kept so far

 private:
  Pull pull_;
  std::vector<uint8_t> head_;  // what has been read so far, or what is left of it
  size_t position_ = 0;        // next byte of head_ to hand out
  bool keeps_head_ = true;
};

// A ByteStream over `bytes`, which must outlive it.
ByteStream stream_of(std::span<const uint8_t> bytes);

// A ByteStream over `fd`, which it takes. `name` is for messages.
ByteStream stream_of(UniqueFd fd, const std::string& name);

// A ByteStream over the seekable file `fd`, which it takes, from its beginning; the position that
// duplicates of the descriptor share is neither used nor moved.
ByteStream stream_of_file(UniqueFd fd, const std::string& name);

// Copies the rest of `stream` to a file that has no name, so that nothing is left behind however
// the program ends (unlinked_file.h); the position is its beginning. Throws Error(kInput) when its
// folder cannot be written to or is full.
UniqueFd spool_to_unlinked_file(ByteStream& stream, const std::string& name);

}  // namespace vesper
