// Memory of the CPU device's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vesper {

// A block of zeroed memory, aligned to 64 bytes, with 64 bytes of a known pattern before and after
// it in debug builds. Large blocks are mapped by themselves, on huge pages where the system gives
// them: a walk through a weight then misses the page tables 512 times less.
class BufferMemory {
 public:
  // Throws Error(kDevice) naming `label`, the bytes wanted and the bytes there are.
  BufferMemory(uint64_t bytes, std::string label);
  ~BufferMemory();
  BufferMemory(BufferMemory&& other) noexcept;
  BufferMemory& operator=(BufferMemory&&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& label() const { return label_; }
  // Throws Error(kInternal) naming the buffer if something was written beside it. Release builds
  // have no pattern and check nothing.
  void check_canaries() const;

 private:
  void* mapping_ = nullptr;
  uint64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::string label_;
};

}  // namespace vesper
