#include "cli/inspect_arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>
#include <utility>

#include "cli/version.h"
#include "error/error.h"

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
      --profile         run it on a recording, lines of text or noise, with a
                        clock at each barrier; set against the device's peak
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

// CLI11 explains itself in up to two lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

uint32_t parse_threads(const std::string& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1024) {
    throw Error(ErrorKind::kUsage,
                "--threads: expected a number from 1 to 1024, found \"" + text + "\"");
  }
  return value;
}

}  // namespace

InspectCommand parse_inspect_arguments(int argc, const char* const* argv) {
  InspectCommand command;
  InspectArguments& arguments = command.arguments;
  CLI::App app;
  app.set_help_flag();
  bool help = false, version = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  std::vector<std::string> modes;  // as given
  const auto mode = [&](const char* name, InspectMode value) {
    app.add_flag_callback(name, [&, name, value] {
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
  app.add_option_function<std::string>("--tokenizer", [&](const std::string& text) {
    modes.emplace_back("--tokenizer");
    arguments.mode = InspectMode::kTokenizer;
    arguments.text = text;
  });
  app.add_flag("--per-command", arguments.per_command);
  app.add_flag("--stats", arguments.statistics);
  app.add_flag("--json", arguments.json);
  app.add_flag("--offline", arguments.offline);
  app.add_option("--filter", arguments.filters)->allow_extra_args(false);
  app.add_option("--device", arguments.device);
  app.add_option("--compute", arguments.compute);
  app.add_option("--trace", arguments.trace);
  app.add_option("--csv", arguments.csv);
  app.add_option_function<std::string>(
      "-t,--threads", [&](const std::string& text) { arguments.threads = parse_threads(text); });
  app.add_option("models", arguments.models);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (!help && !version) {
      throw Error(ErrorKind::kUsage, first_line(error.what()) + " (see inspect --help)");
    }
  }
  if (help) {
    command.answer = kHelp;
    return command;
  }
  if (version) {
    command.answer = "inspect " + std::string(kVersion) + " (Vesper)\n";
    return command;
  }
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
