// The base of a Device in front of another one: answers what does not depend on buffers and
// programs. The inspection and the tests add what they observe.
#pragma once

#include <memory>
#include <utility>

#include "llm/table/device.h"

namespace vesper {

class ForwardingDevice : public Device {
 public:
  const DeviceInfo& info() const override { return device_->info(); }
  Compute resolve(Compute wanted, WeightUse use) const override {
    return device_->resolve(wanted, use);
  }
  DType activation_dtype(Compute resolved, WeightUse use, uint32_t n_rows) const override {
    return device_->activation_dtype(resolved, use, n_rows);
  }
  uint64_t stored_bytes(const MatrixSource& source, WeightUse use,
                        Compute resolved) const override {
    return device_->stored_bytes(source, use, resolved);
  }
  void set_clock(Clock clock) override { device_->set_clock(clock); }

 protected:
  explicit ForwardingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  std::unique_ptr<Device> device_;
};

}  // namespace vesper
