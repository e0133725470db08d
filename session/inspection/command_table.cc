#include "session/inspection/command_table.h"

#include "llm/devices/open_device.h"
#include "llm/inspect/command_cost.h"
#include "session/inspection/observed_model.h"

namespace vesper {
namespace {

std::optional<TableOperand> operand_of(const ObservedDevice& device, const Command& command,
                                       uint32_t i) {
  const Operand& operand = command.operands[i];
  if (!operand.present()) return std::nullopt;
  const ObservedDevice::Buffer* buffer = device.buffer_of(operand);
  return TableOperand{buffer == nullptr ? "" : buffer->label, operand.offset_bytes, operand.bytes,
                      (command.reads >> i & 1) != 0, (command.writes >> i & 1) != 0};
}

}  // namespace

std::vector<TablePass> command_table(const std::filesystem::path& model, const std::string& device,
                                     const std::string& compute) {
  ObservedModel observed(open_model(model), open_device(device), compute,
                         ObservedDevice::Mode::kRun);
  observed.record_all();
  const ObservedDevice& on = observed.device();
  std::vector<TablePass> passes;
  for (ProgramId id = 0; id < on.programs().size(); ++id) {
    const DispatchTable& table = on.programs()[id];
    if (table.commands().empty()) continue;
    const std::vector<CommandVariant> variants = on.variants(id);
    const std::vector<uint32_t> stages = table.stages();
    TablePass pass{pass_name(table), {}};
    for (size_t i = 0; i < table.commands().size(); ++i) {
      const Command& command = table.commands()[i];
      TableCommand row{stages[i],
                       i > 0 && stages[i] != stages[i - 1],
                       table.labels()[i],
                       kernel_name(command.kernel),
                       variants[i].variant,
                       variants[i].grid,
                       command_text(command),
                       {}};
      for (uint32_t j = 0; j < command.n_operands; ++j) {
        row.operands.push_back(operand_of(on, command, j));
      }
      pass.commands.push_back(std::move(row));
    }
    passes.push_back(std::move(pass));
  }
  return passes;
}

}  // namespace vesper
