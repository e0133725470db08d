// The parts of `inspect` that build a model on a device: memory and commands.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/inspect/observed_model.h"
#include "cli/inspect/report.h"
#include "llm/inspect/observed_device.h"

namespace vesper {

// The memory of the model on a device, found by building it without loading it or opening its files
// again. On the CPU it includes this process, because other programs need as much. Throws
// Error(kModel, kDevice, kUsage).
MemoryNeed plan_memory(const OpenModel& model, std::unique_ptr<Device> device,
                       const std::string& compute);

// All commands that the model records on the device.
std::string table_text(const ObservedDevice& device);
ReportJson table_json(const ObservedDevice& device);
ReportJson model_table(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute, std::string* text);

}  // namespace vesper
