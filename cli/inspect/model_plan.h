// The parts of `inspect` that build a model on a device: what it needs and what it does.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/inspect/report.h"
#include "cli/inspect/watched_model.h"
#include "llm/inspect/observed_device.h"

namespace vesper {

// What the model will take on that device, found by building it there without loading it: its files
// are not opened again. On the CPU this process counts as part of it: what it did before, others
// that run the model do, too. Throws Error(kModel, kDevice, kUsage).
MemoryNeed plan_memory(const OpenModel& model, std::unique_ptr<Device> device,
                       const std::string& compute);

// Every command that the model records on that device.
std::string table_text(const ObservedDevice& device);
ReportJson table_json(const ObservedDevice& device);
ReportJson model_table(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute, std::string* text);

}  // namespace vesper
