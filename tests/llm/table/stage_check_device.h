// A Device for tests that finds wrong barriers and wrong operands. It forwards to another device,
// one command at a time, because no tool sees the accesses of a kernel.
//
// When a table is recorded: no command of a stage may declare to access bytes that another one of
// the stage declares to write.
// When it runs, the commands of a stage run in a random order. Each one runs twice, on memory with
// two different patterns wherever it does not declare to read. Both runs must write the same bytes,
// and only where declared. So a command depends on nothing but what it declares to read, and the
// commands of a stage may run at once.
// Memory that neither the host nor a command has written has the two patterns too. What a command
// computes from it is undefined, and so is what follows from that. The host must not read it.
// After each program, all memory must be what the host and the commands wrote: buffers that share
// memory, and writes to weights or beyond a buffer, are found there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "llm/table/forwarding_device.h"

namespace vesper {

struct StageCheckOptions {
  uint64_t seed = 1;  // of the order within stages
  // Stages of a table, to test this class with wrong ones.
  std::function<std::vector<uint32_t>(const DispatchTable&)> stages = &DispatchTable::stages;
  bool checks_declared = true;  // false: do not compare declarations when a table is recorded
  // Labels of buffers of which commands read the zeros that allocate() gives.
  std::vector<std::string> zeroed = {};
  // Labels of buffers whose content differs from run to run, for example in its order. They keep
  // what the first run wrote, which counts as defined.
  std::vector<std::string> varying = {};
};

// Failed checks throw Error(kInternal) with the label of the command, the buffer and the byte.
class StageCheckDevice final : public ForwardingDevice {
 public:
  explicit StageCheckDevice(std::unique_ptr<Device> device, StageCheckOptions options = {});

  // Commands that ran.
  uint64_t n_checked() const { return n_checked_; }

  Operand allocate(uint64_t bytes, std::string_view label) override;
  Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) override;
  void write(const Operand& to, const void* from) override;
  void read(const Operand& from, void* to) override;
  ProgramId record(const DispatchTable& table) override;
  std::vector<CommandVariant> variants(ProgramId program) const override;
  void run(ProgramId program, uint32_t times, const Operand& stop) override;
  ReplayTimes replay_times(ProgramId) override { return {}; }

 private:
  using Bytes = std::vector<std::byte>;
  // Of a byte.
  enum class State : char { kUnwritten, kUndefined, kDefined };
  struct Buffer {
    std::string label;
    Bytes content;              // what the host and the commands wrote
    std::vector<State> states;  // [content.size()]
    size_t n_poisoned = 0;      // bytes that are not kDefined
    std::string cause;  // the last command that made bytes undefined, and its undefined operands
  };
  struct Program {
    DispatchTable table;
    std::vector<uint32_t> stages;     // [commands]
    std::vector<ProgramId> commands;  // of the device, a program for each
  };
  // Bytes [begin, end) of a buffer with the same declarations by a command.
  struct Range {
    size_t begin, end;
    bool is_read, is_written;
  };
  // A buffer that a command has as an operand, and its content before and after the two runs.
  struct Touched {
    BufferId id;
    std::vector<Range> ranges;
    Bytes before[2], after[2];
    bool is_unchanged(size_t at, size_t n = 1) const {
      return std::memcmp(&before[0][at], &after[0][at], n) == 0 &&
             std::memcmp(&before[1][at], &after[1][at], n) == 0;
    }
  };

  Buffer& buffer(BufferId id) { return buffers_.at(id - 1); }
  Operand whole(BufferId id) { return {id, 0, 0, buffer(id).content.size()}; }
  void add_buffer(const Operand& operand, std::string label);
  void check_declared(const Program& program) const;
  // The buffers of a command, without those that it only reads, as a whole and all defined.
  std::vector<Touched> touched_by(const Command& command) const;
  // Fills `before` and runs the command. `poisons` false: only undeclared memory has patterns.
  void run_twice(std::vector<Touched>& touched, ProgramId command, bool poisons);
  std::string poisoned_operands(const std::vector<Touched>& touched) const;
  static void set_state(Buffer& buffer, size_t at, State state);
  void run_command(const Program& program, size_t index);
  void check_memory();

  StageCheckOptions options_;
  std::mt19937_64 random_;
  std::vector<Buffer> buffers_;  // by BufferId - 1
  std::vector<Program> programs_;
  uint64_t n_checked_ = 0;
  Bytes patterns_[2];  // as long as the longest buffer that was poisoned
};

}  // namespace vesper
