// Shows that commands touch nothing but what they declare: the proof behind derived barriers, as no
// tool sees the accesses of a kernel. For tests, where memory is small: each command costs several
// copies of all of it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "llm/cpu/buffer_memory.h"
#include "llm/table/dispatch_table.h"

namespace vesper {

class DeclarationCheck {
 public:
  // `buffers`: the device's, by BufferId - 1.
  explicit DeclarationCheck(std::vector<BufferMemory>& buffers) : buffers_(buffers) {}

  // Calls `run`, which does the command, twice: once with one pattern in all memory that the
  // command does not say that it reads, once with another. What it writes must be the same both
  // times, and lie where it says. Leaves memory as one ordinary run would. Throws Error(kInternal)
  // that names the command, the buffer and the byte.
  void run(const Command& command, const std::string& label, const std::function<void()>& run);

 private:
  using Memory = std::vector<std::vector<std::byte>>;  // as buffers_
  // Bytes [begin, end) of a buffer, which are all declared alike.
  struct Stretch {
    size_t buffer, begin, end;
    bool is_read, is_written;
  };

  std::vector<Stretch> stretches_of(const Command& command) const;
  void copy_to(Memory& memory) const;
  // Takes over what two runs left of a stretch. Throws if they should not have.
  void settle(const Stretch& stretch, const Command& command, const std::string& label);

  std::vector<BufferMemory>& buffers_;
  Memory before_, after_[2];
  std::vector<std::byte> patterns_[2];  // as long as the longest buffer
};

}  // namespace vesper
