#include "cli/inspect/options.h"

#include "error/error.h"
#include "llm/conversion/mixture.h"

namespace vesper {

OptionTable inspect_options(InspectArguments& arguments) {
  OptionTable options({
      .name = "inspect",
      .usages = {"[OPTION]... MODEL", "--diff MODEL OTHER", "--profile MODEL [INPUT]", "--devices"},
      .description = "Says what a model is, how large, and whether it will run here. A MODEL is a "
                     "file or folder (GGUF, safetensors, CTranslate2, ggml), or a name that the "
                     "other programs know.",
      .examples = {"inspect model.gguf",
                   "inspect --tensors --json model.gguf | jq '.tensors[].name'",
                   "inspect --diff tiny.en my-copy/"},
      .exit_status = "0 done, 1 models differ, 2 usage, 4 model, 5 device, 6 output",
  });
  const auto mode = [&](InspectMode value) {
    return flag_option([&arguments, value] { arguments.mode = value; });
  };
  options.section("Modes");
  options.add("--metadata", mode(InspectMode::kMetadata), "all metadata of the files");
  options.add("--tensors", mode(InspectMode::kTensors),
              "name, format, shape, offset and bytes of each tensor");
  options.add("--tokenizer TEXT", parsed_option([&](const std::string&, const std::string& text) {
                arguments.mode = InspectMode::kTokenizer;
                arguments.text = text;
              }),
              "the tokens of a text");
  options.add("--checksum", mode(InspectMode::kChecksum), "SHA-256 of each file");
  options.add("--verify", mode(InspectMode::kVerify),
              "read everything; damage is reported, with exit status 4");
  options.add("--diff", mode(InspectMode::kDiff),
              "what differs between two models; exit status 1 if anything does");
  options.add("--devices", mode(InspectMode::kDevices),
              "capabilities of each device, and its kernels");
  options.add_advanced("--models", mode(InspectMode::kModels),
                       "the models on this machine, by name");
  options.add("--table", mode(InspectMode::kTable),
              "the commands that a model runs, stage by stage");
  options
      .add("--profile", mode(InspectMode::kProfile),
           "run it on a recording, a text or noise, with a clock at each barrier")
      .add_details("The times are compared with the peak of the device.");
  OptionValue output = parsed_option([&](const std::string&, const std::string& path) {
    arguments.mode = InspectMode::kConvert;
    arguments.output = path;
  });
  output.completion = Completion::kFile;
  options.add("--convert OUT", output, "write it as one GGUF file (Whisper: ggml) of --type");
  options.exclude({"--metadata", "--tensors", "--tokenizer", "--checksum", "--verify", "--diff",
                   "--devices", "--models", "--table", "--profile", "--convert"});
  options.section("Details");
  options
      .add("--stats", flag_option(arguments.statistics),
           "minimum, maximum, mean and NaN of each tensor")
      .needs("--tensors");
  options
      .add_advanced("--per-command", flag_option(arguments.per_command),
                    "a clock after each command")
      .needs("--profile");
  OptionValue trace = text_option(arguments.trace), csv = text_option(arguments.csv);
  trace.completion = csv.completion = Completion::kFile;
  options.add_advanced("--trace FILE", trace, "write events for Perfetto").needs("--profile");
  options.add_advanced("--csv FILE", csv, "write one line a stage").needs("--profile");
  std::vector<std::string> types;
  for (const std::string_view name : mixture_names()) types.emplace_back(name);
  options.add("--type TYPE", choice_option(arguments.type, types), "format of most matrices")
      .needs("--convert");
  options.add("--filter GLOB", repeated_option(arguments.filters),
              "only tensors and keys that match");
  options.add("--json", flag_option(arguments.json), "print JSON");
  options.section("Engine");
  options.add_engine_options(arguments.device, arguments.compute, arguments.threads,
                             arguments.offline);
  options.add_kv_type_option(arguments.kv_types);
  options.add_positional("MODEL", arguments.models, Completion::kFile);
  return options;
}

std::optional<std::string> parse_inspect_options(int argc, const char* const* argv,
                                                 InspectArguments& arguments) {
  OptionTable options = inspect_options(arguments);
  if (auto answer = options.parse(argc, argv)) return answer;
  if (arguments.mode == InspectMode::kProfile && arguments.models.size() == 2) {
    arguments.recording = arguments.models.back();
    arguments.models.pop_back();
  }
  if (arguments.mode == InspectMode::kConvert && arguments.type.empty()) {
    throw Error(ErrorKind::kUsage, "--convert: expected --type, the format to convert to");
  }
  const bool takes_none =
      arguments.mode == InspectMode::kDevices || arguments.mode == InspectMode::kModels;
  const size_t n_models = takes_none ? 0 : arguments.mode == InspectMode::kDiff ? 2 : 1;
  if (arguments.models.size() != n_models) {
    throw Error(ErrorKind::kUsage,
                "expected " + std::to_string(n_models) + (n_models == 1 ? " model" : " models") +
                    ", found " + std::to_string(arguments.models.size()) + " (see inspect --help)");
  }
  return std::nullopt;
}

}  // namespace vesper
