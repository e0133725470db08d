// Checks that commands access only what they declare, because no tool sees the accesses of a kernel
// and barriers are derived from declarations. For tests with little memory: each command copies all
// memory several times.
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
  // `buffers` are the device's, by BufferId - 1.
  explicit DeclarationCheck(std::vector<BufferMemory>& buffers) : buffers_(buffers) {}

  // Calls `run`, which runs the command, twice with different patterns in all memory that the
  // command does not declare to read. Both runs must write the same, and only where declared.
  // Memory is then as after one normal run. Throws Error(kInternal) naming the command, the buffer
  // and the byte.
  void run(const Command& command, const std::string& label, const std::function<void()>& run);

 private:
  using Memory = std::vector<std::vector<std::byte>>;  // like buffers_
  // Bytes [begin, end) of a buffer with the same declarations.
  struct DeclaredRange {
    size_t buffer, begin, end;
    bool is_read, is_written;
  };

  std::vector<DeclaredRange> ranges_of(const Command& command) const;
  void copy_to(Memory& memory) const;
  // Stores the result of both runs for a range. Throws if they differ.
  void store_result(const DeclaredRange& range, const Command& command, const std::string& label);

  std::vector<BufferMemory>& buffers_;
  Memory before_, after_[2];
  std::vector<std::byte> patterns_[2];  // as long as the longest buffer
};

}  // namespace vesper
