// The commands that a model runs on a device, pass by pass.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "llm/inspect/observed_device.h"

namespace vesper {

struct TableOperand {
  std::string buffer;  // its label
  uint64_t offset_bytes = 0, bytes = 0;
  bool is_read = false, is_written = false;
};

struct TableCommand {
  uint32_t stage = 0;  // a barrier is between stages
  bool has_barrier_before = false;
  std::string label;               // "decoder.3.attn.q"
  std::string kernel;              // "matmul"
  std::string variant;             // shader or instruction set; empty: only one
  std::array<uint32_t, 3> grid{};  // workgroups; on the CPU tasks
  std::string parameters;          // "1500 rows, 384 -> 1536, gelu, f32"
  std::vector<std::optional<TableOperand>> operands;
};

struct TablePass {
  std::string name;  // "encode", "step", ...
  std::vector<TableCommand> commands;
};

// All passes that the model records, also those that it records on first use. Throws Error(kModel,
// kDevice, kUsage).
std::vector<TablePass> command_table(const std::filesystem::path& model,
                                     const std::string& device = "auto",
                                     const std::string& compute = "auto");

}  // namespace vesper
