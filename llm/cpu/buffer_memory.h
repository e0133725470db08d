// Memory of the CPU device's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vesper {

// Stretches of 32 MiB on huge pages, where the system gives them, from which buffers that are too
// small for a huge page of their own are cut: the layers of a small model.
class BufferArena {
 public:
  BufferArena() = default;
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // Zeroed memory aligned to 64 bytes, for the arena's life; null if there is none.
  std::byte* cut(uint64_t bytes);

 private:
  struct Mapping {
    void* start;
    uint64_t bytes;
  };
  std::vector<Mapping> mappings_;
  std::byte* next_ = nullptr;
  uint64_t left_ = 0;  // bytes, from next_ on
};

// A block of zeroed memory, aligned to 64 bytes, with 64 bytes of a known pattern before and after
// it in debug builds. Large blocks are mapped by themselves, on huge pages where the system gives
// them, smaller ones may share an arena's: a walk through a weight then misses the page tables 512
// times less.
class BufferMemory {
 public:
  // Throws Error(kDevice) naming `label`, the bytes wanted and the bytes there are. `arena`, where
  // there is one, lives longer.
  BufferMemory(uint64_t bytes, std::string label, BufferArena* arena = nullptr);
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
