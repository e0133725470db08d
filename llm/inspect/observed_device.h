// A Device that forwards to another one and records what a model allocates, uploads and records.
// Models are built on it as on any device. Used by `inspect`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llm/table/forwarding_device.h"

namespace vesper {

class ObservedDevice : public ForwardingDevice {
 public:
  enum class Mode {
    kRun,   // forwards everything
    kPlan,  // forwards nothing that takes memory or time: the model is planned, not loaded
  };
  ObservedDevice(std::unique_ptr<Device> device, Mode mode);

  struct Buffer {
    std::string label;
    uint64_t bytes = 0;
    bool is_weight = false;  // a matrix in the device's storage format
  };
  // By BufferId - 1 and by ProgramId.
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<DispatchTable>& programs() const { return programs_; }
  // The buffer of an operand; null if absent.
  const Buffer* buffer_of(const Operand& operand) const;

  uint64_t weight_bytes() const;
  uint64_t other_bytes() const;  // caches, states and scratch
  // Peak memory of matrices during loading if host and device share memory: the matrices so far,
  // and the part of the file that is being stored. Other buffers take memory on first use.
  uint64_t peak_loading_bytes() const { return peak_loading_bytes_; }

  Operand allocate(uint64_t bytes, std::string_view label) override;
  Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) override;
  bool keeps_writes() const override { return mode_ == Mode::kRun; }
  void write(const Operand& to, const void* from) override;
  void read(const Operand& from, void* to) override;
  ProgramId record(const DispatchTable& table) override;
  std::vector<ProgramId> record_all(std::span<const DispatchTable> tables) override;
  std::vector<CommandVariant> variants(ProgramId program) const override;
  void run(ProgramId program, uint32_t times, const Operand& stop) override;
  ReplayTimes replay_times(ProgramId program) override;

 private:
  // `passing_bytes`: temporary bytes needed while it is made.
  void note(const Operand& operand, std::string_view label, uint64_t bytes, bool is_weight,
            uint64_t passing_bytes = 0);

  Mode mode_;
  std::vector<Buffer> buffers_;
  uint64_t stored_bytes_ = 0, peak_loading_bytes_ = 0;
  std::vector<DispatchTable> programs_;
};

}  // namespace vesper
