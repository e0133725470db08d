// The Device on CPU cores.
#pragma once

#include <memory>

#include "llm/table/device.h"

namespace vesper {

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options);

}  // namespace vesper
