#include "cli/inspect/model_plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/inspect/observed_model.h"
#include "cli/terminal/terminal_text.h"
#include "embedder/sentence_tokenizer.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/inspect/command_cost.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

using Mode = ObservedDevice::Mode;

namespace {

// Resident memory ("VmRSS:") or its peak ("VmHWM:") of this process. getrusage includes that of the
// parent.
uint64_t memory_bytes(std::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digits = std::min(line.find_first_of("0123456789"), line.size());
    uint64_t kib = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

std::string grid_text(const CommandVariant& form) {
  return std::to_string(form.grid[0]) + "x" + std::to_string(form.grid[1]) + "x" +
         std::to_string(form.grid[2]);
}

std::string operand_text(const ObservedDevice& device, const Command& command, uint32_t i) {
  const Operand& operand = command.operands[i];
  const ObservedDevice::Buffer* buffer = device.buffer_of(operand);
  if (buffer == nullptr) return "-";
  std::string text = escaped(buffer->label, 60);
  if (operand.offset_bytes != 0) text += "+" + std::to_string(operand.offset_bytes);
  if ((command.writes >> i & 1) != 0) text += (command.reads >> i & 1) != 0 ? " (rw)" : " (w)";
  return text;
}

// Memory of an encoder's program besides its input, which synthetic input does not need.
void read_vocabulary(const WeightProvider& weights) {
  if (kind_of(weights) != RunnableKind::kTextEncoder) return;
  try {
    const SentenceTokenizer tokenizer(weights);
  } catch (const Error&) {  // `embed` then takes token ids
  }
}

}  // namespace

MemoryNeed plan_memory(const OpenModel& model, std::unique_ptr<Device> device,
                       const std::string& compute) {
  ObservedModel observed(model, std::move(device), compute, Mode::kPlan);
  MemoryNeed need;
  need.device = observed.device().info().kind;
  need.compute = observed.compute_text();
  need.weights = observed.device().weight_bytes();
  need.available = observed.device().info().memory_bytes;
  need.n_ctx = observed.n_ctx();
  if (observed.device().info().kind == "cpu") {
    // This process takes as much as the one that will run the model, except for the weights:
    // libraries and, after loading the input, an audio window with its spectrogram for Whisper, or
    // the vocabulary for an encoder.
#ifdef __GLIBC__
    malloc_trim(0);  // releases the memory of reading the description
#endif
    const uint64_t loading = observed.device().peak_loading_bytes() + memory_bytes("VmRSS:");
    observed.read_input("");
    read_vocabulary(*model.weights);
    need.program = memory_bytes("VmHWM:");
    const uint64_t running =
        observed.device().weight_bytes() + observed.device().other_bytes() + need.program;
    need.loading = std::max(loading, running) - running;
  }
  for (const ObservedDevice::Buffer& buffer : observed.device().buffers()) {
    if (buffer.is_weight) continue;
    // Buffers that only a perplexity run writes take no memory of the CPU before.
    if (need.device == "cpu" && buffer.label == "logits of a pass") continue;
    const bool is_cache = buffer.label.starts_with("keys and values") ||
                          buffer.label.starts_with("keys of ") ||
                          buffer.label.starts_with("values of ");
    (is_cache ? need.kv_cache : need.scratch) += buffer.bytes;
  }
  return need;
}

std::string table_text(const ObservedDevice& device) {
  std::string text;
  for (ProgramId id = 0; id < device.programs().size(); ++id) {
    const DispatchTable& pass = device.programs()[id];
    if (pass.commands().empty()) continue;
    const std::vector<CommandVariant> forms = device.variants(id);
    const std::vector<uint32_t> stages = pass.stages();
    text += pass_name(pass) + ": " + grouped(pass.commands().size()) + " commands, " +
            grouped(stages.empty() ? 0 : stages.back() + 1) + " stages, a barrier between stages\n";
    TextTable table(0b10001);
    table.add({"stage", "label", "kernel", "variant", "grid", "parameters", "operands"});
    for (size_t i = 0; i < pass.commands().size(); ++i) {
      const Command& command = pass.commands()[i];
      std::string operands;
      for (uint32_t j = 0; j < command.n_operands; ++j) {
        operands += (j == 0 ? "" : "; ") + operand_text(device, command, j);
      }
      // The stage number is printed at a barrier.
      const bool is_first = i == 0 || stages[i] != stages[i - 1];
      table.add({is_first ? std::to_string(stages[i]) : "", escaped(pass.labels()[i]),
                 kernel_name(command.kernel), forms[i].variant, grid_text(forms[i]),
                 command_text(command), operands});
    }
    text += table.text("  ") + "\n";
  }
  return text;
}

ReportJson table_json(const ObservedDevice& device) {
  ReportJson passes = ReportJson::array();
  for (ProgramId id = 0; id < device.programs().size(); ++id) {
    const DispatchTable& pass = device.programs()[id];
    if (pass.commands().empty()) continue;
    const std::vector<CommandVariant> forms = device.variants(id);
    const std::vector<uint32_t> stages = pass.stages();
    ReportJson commands = ReportJson::array();
    for (size_t i = 0; i < pass.commands().size(); ++i) {
      const Command& command = pass.commands()[i];
      ReportJson operands = ReportJson::array();
      for (uint32_t j = 0; j < command.n_operands; ++j) {
        const Operand& operand = command.operands[j];
        if (!operand.present()) {
          operands.push_back(nullptr);
          continue;
        }
        const ObservedDevice::Buffer* buffer = device.buffer_of(operand);
        operands.push_back({{"buffer", buffer == nullptr ? "" : buffer->label},
                            {"offset", operand.offset_bytes},
                            {"bytes", operand.bytes},
                            {"read", (command.reads >> j & 1) != 0},
                            {"written", (command.writes >> j & 1) != 0}});
      }
      commands.push_back({{"stage", stages[i]},
                          {"barrier_before", i > 0 && stages[i] != stages[i - 1]},
                          {"label", pass.labels()[i]},
                          {"kernel", kernel_name(command.kernel)},
                          {"variant", forms[i].variant},
                          {"grid", forms[i].grid},
                          {"parameters", command_text(command)},
                          {"operands", std::move(operands)}});
    }
    passes.push_back({{"pass", pass_name(pass)}, {"commands", std::move(commands)}});
  }
  return {{"passes", std::move(passes)}};
}

ReportJson model_table(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute, std::string* text) {
  ObservedModel observed(open_model(model), open_device(device), compute, Mode::kRun);
  observed.record_all();
  if (text == nullptr) return table_json(observed.device());
  *text = table_text(observed.device());
  return {};
}

}  // namespace vesper
