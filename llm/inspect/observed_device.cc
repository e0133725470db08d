#include "llm/inspect/observed_device.h"

#include <algorithm>
#include <cstring>

#include "error/error.h"

namespace vesper {

ObservedDevice::ObservedDevice(std::unique_ptr<Device> device, Mode mode)
    : ForwardingDevice(std::move(device)), mode_(mode) {}

void ObservedDevice::note(const Operand& operand, std::string_view label, uint64_t bytes,
                          bool is_weight, uint64_t passing_bytes) {
  if (!operand.present()) return;
  // Buffer ids of a device increase; a device may skip some for its own buffers.
  if (buffers_.size() < operand.buffer) buffers_.resize(operand.buffer);
  buffers_[operand.buffer - 1] = {std::string(label), bytes, is_weight};
  if (!is_weight) return;
  stored_bytes_ += bytes;
  peak_loading_bytes_ = std::max(peak_loading_bytes_, stored_bytes_ + passing_bytes);
}

const ObservedDevice::Buffer* ObservedDevice::buffer_of(const Operand& operand) const {
  if (!operand.present() || operand.buffer > buffers_.size()) return nullptr;
  return &buffers_[operand.buffer - 1];
}

uint64_t ObservedDevice::weight_bytes() const {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.is_weight ? buffer.bytes : 0;
  return bytes;
}

uint64_t ObservedDevice::other_bytes() const {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.is_weight ? 0 : buffer.bytes;
  return bytes;
}

Operand ObservedDevice::allocate(uint64_t bytes, std::string_view label) {
  Operand operand{static_cast<BufferId>(buffers_.size() + 1), 0, 0, bytes};
  if (mode_ != Mode::kPlan) operand = device_->allocate(bytes, label);
  note(operand, label, bytes, false);
  return operand;
}

Weight ObservedDevice::upload(const MatrixSource& source, WeightUse use, Compute resolved) {
  const uint64_t bytes = device_->stored_bytes(source, use, resolved);
  const std::string& label = source.parts.front()->name;
  Weight weight;
  if (mode_ == Mode::kPlan) {
    weight.data = {static_cast<BufferId>(buffers_.size() + 1), 0, 0, bytes};
    for (const TensorView* part : source.parts) {
      const auto rows = static_cast<uint32_t>(part->shape.front());
      weight.n_out += rows;
      weight.n_in = static_cast<uint32_t>(part->n_elements() / std::max(rows, 1u));
    }
  } else {
    weight = device_->upload(source, use, resolved);
  }
  uint64_t source_bytes = 0;
  for (const TensorView* part : source.parts) source_bytes += part->bytes;
  note(weight.data, label, bytes, true, source_bytes);
  note(weight.scale, label + " scales", 0, true);  // bytes are counted with the matrix
  return weight;
}

void ObservedDevice::write(const Operand& to, const void* from) {
  if (mode_ != Mode::kPlan) device_->write(to, from);
}

void ObservedDevice::read(const Operand& from, void* to) {
  if (mode_ == Mode::kPlan) {
    std::memset(to, 0, from.bytes);
  } else {
    device_->read(from, to);
  }
}

ProgramId ObservedDevice::record(const DispatchTable& table) {
  auto id = static_cast<ProgramId>(programs_.size());
  if (mode_ != Mode::kPlan) id = device_->record(table);
  if (programs_.size() <= id) programs_.resize(id + 1);
  programs_[id] = table;
  return id;
}

std::vector<ProgramId> ObservedDevice::record_all(std::span<const DispatchTable> tables) {
  if (mode_ == Mode::kPlan) return Device::record_all(tables);
  const std::vector<ProgramId> ids = device_->record_all(tables);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (programs_.size() <= ids[i]) programs_.resize(ids[i] + 1);
    programs_[ids[i]] = tables[i];
  }
  return ids;
}

std::vector<CommandVariant> ObservedDevice::variants(ProgramId id) const {
  return mode_ == Mode::kPlan ? std::vector<CommandVariant>() : device_->variants(id);
}

void ObservedDevice::run(ProgramId id, uint32_t times, const Operand& stop) {
  if (mode_ != Mode::kPlan) device_->run(id, times, stop);
}

ReplayTimes ObservedDevice::replay_times(ProgramId id) {
  return mode_ == Mode::kPlan ? ReplayTimes() : device_->replay_times(id);
}

}  // namespace vesper
