#include "cli/inspect/inspect_arguments.h"

#include <string_view>
#include <utility>

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"
#include "llm/devices/open_device.h"

namespace vesper {
namespace {

constexpr std::string_view kHelp = R"(Usage: inspect [OPTION]... MODEL
       inspect --diff MODEL OTHER
       inspect --profile MODEL [INPUT]
       inspect --devices
Says what a model is, how large, and whether it will run here. A MODEL is a
file or folder (GGUF, safetensors, CTranslate2, ggml), or a name that the
other programs know.

      --metadata        all that the files say of themselves
      --tensors         name, format, shape, offset and bytes of each tensor
      --stats           with --tensors: minimum, maximum, mean, NaN of each
      --tokenizer TEXT  the tokens of a text
      --checksum        SHA-256 of each file
      --verify          read everything; damage is reported, exit status 4
      --diff            what differs between two models; exit status 1 if so
      --devices         what each device can do, and the kernels it chooses
      --table           the commands that a model runs, stage by stage
      --profile         run it on a recording, a text or noise, with a clock at
                        each barrier; set against the device's peak
      --per-command     with --profile: a clock after each command
      --trace FILE      with --profile: events for Perfetto
      --csv FILE        with --profile: one line a stage
      --filter GLOB     only tensors and keys that match; may be repeated
      --json            the same as JSON
      --device DEVICE   auto (default), cpu, vulkan, vulkan:N
      --compute TYPE    auto (default), f32, f16, bf16, int8
  -t, --threads N       (default: as many as there are cores)
      --offline         never fetch a model
      --version, -h, --help

Exit status: 0 done, 1 models differ, 2 usage, 4 model, 5 device, 6 output.

  inspect model.gguf
  inspect --tensors --json model.gguf | jq '.tensors[].name'
  inspect --diff tiny.en my-copy/
)";

}  // namespace

InspectCommand parse_inspect_arguments(int argc, const char* const* argv) {
  InspectCommand command;
  InspectArguments& arguments = command.arguments;
  CommandLine line("inspect");
  line.add_question("-h,--help", std::string(kHelp));
  std::vector<std::string> modes;  // as given
  const auto mode = [&](const char* name, InspectMode value) {
    line.add_flag(name, [&, name, value] {
      modes.emplace_back(name);
      arguments.mode = value;
    });
  };
  mode("--metadata", InspectMode::kMetadata);
  mode("--tensors", InspectMode::kTensors);
  mode("--checksum", InspectMode::kChecksum);
  mode("--verify", InspectMode::kVerify);
  mode("--diff", InspectMode::kDiff);
  mode("--devices", InspectMode::kDevices);
  mode("--table", InspectMode::kTable);
  mode("--profile", InspectMode::kProfile);
  line.add_value("--tokenizer", [&](const std::string& text) {
    modes.emplace_back("--tokenizer");
    arguments.mode = InspectMode::kTokenizer;
    arguments.text = text;
  });
  line.add_flag("--per-command", arguments.per_command);
  line.add_flag("--stats", arguments.statistics);
  line.add_flag("--json", arguments.json);
  line.add_flag("--offline", arguments.offline);
  line.add_repeated("--filter", arguments.filters);
  line.add_value("--device", arguments.device);
  line.add_value("--compute", arguments.compute);
  line.add_value("--trace", arguments.trace);
  line.add_value("--csv", arguments.csv);
  line.add_value("-t,--threads", [&](const std::string& text) {
    arguments.threads = static_cast<uint32_t>(parse_integer("--threads", text, 1, 1024));
  });
  line.add_texts("models", arguments.models);
  command.answer = line.parse(argc, argv);
  if (command.answer) return command;
  if (modes.size() > 1) {
    throw Error(ErrorKind::kUsage, "expected one of the modes, found " + modes[0] + " and " +
                                       modes[1] + " (see inspect --help)");
  }
  if (arguments.mode == InspectMode::kProfile && arguments.models.size() == 2) {
    arguments.recording = arguments.models.back();
    arguments.models.pop_back();
  } else if (arguments.mode != InspectMode::kProfile &&
             (arguments.per_command || !arguments.trace.empty() || !arguments.csv.empty())) {
    throw Error(ErrorKind::kUsage, "--per-command, --trace and --csv go with --profile");
  }
  // What a device cannot do is said of that device; what no device can is a mistake.
  parse_compute(arguments.compute);
  require_device_name(arguments.device);
  const size_t n_models = arguments.mode == InspectMode::kDevices ? 0
                          : arguments.mode == InspectMode::kDiff  ? 2
                                                                  : 1;
  if (arguments.models.size() != n_models) {
    throw Error(ErrorKind::kUsage,
                "expected " + std::to_string(n_models) + (n_models == 1 ? " model" : " models") +
                    ", found " + std::to_string(arguments.models.size()) + " (see inspect --help)");
  }
  if (arguments.statistics && arguments.mode != InspectMode::kTensors) {
    throw Error(ErrorKind::kUsage, "--stats goes with --tensors");
  }
  return command;
}

}  // namespace vesper
