// inspect: describes a model's files, its memory and its commands. Parses the command line and
// prints reports.

#include "cli/terminal/program.h"

#include <string>

#include "cli/inspect/options.h"
#include "cli/inspect/report.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "error/error.h"
#include "session/atomic_file.h"
#include "session/inspection/reports.h"

namespace vesper {
namespace {

constexpr int kModelsDiffer = 1;

class Run {
 public:
  explicit Run(InspectArguments arguments) : arguments_(std::move(arguments)) {}

  int run() {
    switch (arguments_.mode) {
      case InspectMode::kSummary:
        return print(
            summarize_model(path_of(0), arguments_.device, arguments_.compute, arguments_.kv_types),
            summary_text, summary_json);
      case InspectMode::kMetadata: {
        const auto& globs = arguments_.filters;
        return print(
            describe_model(path_of(0)),
            [&](const ModelDescription& model) { return metadata_text(model, globs); },
            [&](const ModelDescription& model) { return metadata_json(model, globs); });
      }
      case InspectMode::kTensors:
        return print(
            list_tensors(path_of(0), arguments_.filters, arguments_.statistics, arguments_.threads),
            tensors_text, tensors_json);
      case InspectMode::kTokenizer:
        return print(tokenize_text(path_of(0), arguments_.text), tokens_text, tokens_json);
      case InspectMode::kChecksum:
        return print(file_checksums(path_of(0)), checksums_text, checksums_json);
      case InspectMode::kVerify: {
        const ModelVerification result = verify_model(path_of(0), arguments_.threads);
        print(result, verification_text, verification_json);
        return result.is_sound() ? 0 : exit_status(ErrorKind::kModel);
      }
      case InspectMode::kDiff: {
        const ModelDifference result = compare_models(path_of(0), path_of(1), arguments_.threads);
        print(result, difference_text, difference_json);
        return result.empty() ? 0 : kModelsDiffer;
      }
      case InspectMode::kDevices:
        return print(describe_devices(), devices_text, devices_json);
      case InspectMode::kModels:
        return print(ModelStore().list(), models_text, stored_models_json);
      case InspectMode::kTable:
        return print(command_table(path_of(0), arguments_.device, arguments_.compute), table_text,
                     table_json);
      case InspectMode::kProfile:
        return profile();
      case InspectMode::kConvert:
        return convert();
    }
    return 0;
  }

 private:
  // Returns 0.
  template <class Result, class Text, class Json>
  int print(const Result& result, const Text& text, const Json& json) {
    write_to_stdout(arguments_.json ? report_text(json(result)) + "\n" : text(result));
    return 0;
  }

  std::filesystem::path path_of(size_t index) const {
    return find_model_showing("inspect", arguments_.models[index], ModelKind::kSpeech,
                              arguments_.offline);
  }

  int profile() {
    const Profile profile =
        profile_model({path_of(0), arguments_.recording, arguments_.device, arguments_.compute,
                       arguments_.threads, arguments_.per_command});
    const auto write = [](const std::string& path, const std::string& text) {
      if (path.empty()) return;
      AtomicFile file(path);
      file.write(text);
      file.commit();
    };
    write(arguments_.trace, profile_trace(profile));
    write(arguments_.csv, profile_csv(profile));
    return print(profile, profile_text, profile_json);
  }

  int convert() {
    ConversionOptions options{path_of(0), arguments_.output, arguments_.type, arguments_.threads};
    Progress progress(true);
    progress.start("converting");
    options.on_progress = [&](uint64_t done, uint64_t total) {
      progress.show_bytes(done, total, 0);
    };
    const ConversionReport report = convert_model(options);
    progress.clear();
    return print(report, conversion_text, conversion_json);
  }

  InspectArguments arguments_;
};

}  // namespace

}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program("inspect", argc, argv, [](int n, char** words) {
    vesper::InspectArguments arguments;
    if (const auto answer = vesper::parse_inspect_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::Run(std::move(arguments)).run();
  });
}
