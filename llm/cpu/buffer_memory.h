// Memory of the CPU device's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vesper {

// Blocks of 32 MiB on huge pages, where available, for buffers smaller than a huge page, such as
// the layers of a small model.
class BufferArena {
 public:
  BufferArena() = default;
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // Zeroed memory aligned to 64 bytes, for the arena's life; null if it is full.
  std::byte* cut(uint64_t bytes);

 private:
  struct Mapping {
    void* start;
    uint64_t bytes;
  };
  std::vector<Mapping> mappings_;
  std::byte* next_ = nullptr;
  uint64_t left_ = 0;  // bytes from next_ on
};

// A block of zeroed memory, aligned to 64 bytes; in debug builds with 64 bytes of a known pattern
// before and after it. Large blocks are separate mappings, on huge pages where available, which
// have 512 times fewer page table misses. Smaller ones may be part of an arena.
class BufferMemory {
 public:
  // Throws Error(kDevice) naming `label`, the requested and the available bytes. `arena` may be
  // null and must outlive this object.
  BufferMemory(uint64_t bytes, std::string label, BufferArena* arena = nullptr);
  ~BufferMemory();
  BufferMemory(BufferMemory&& other) noexcept;
  BufferMemory& operator=(BufferMemory&&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& label() const { return label_; }
  // Throws Error(kInternal) naming the buffer if the pattern beside it was overwritten. Does
  // nothing in release builds.
  void check_canaries() const;

 private:
  void* mapping_ = nullptr;
  uint64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::string label_;
};

}  // namespace vesper
