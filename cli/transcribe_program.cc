#include "cli/transcribe_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_lookup.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/transcribe_arguments.h"
#include "error/error.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kProgram = "transcribe";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Throws Error(kInput) if it is clear without decoding it that this cannot be read.
void check_input(const std::string& input) {
  if (input == "-") {
    if (isatty(STDIN_FILENO)) {
      throw Error(ErrorKind::kInput,
                  "standard input is a terminal; expected a recording in a pipe");
    }
    return;
  }
  struct stat status {};
  if (stat(input.c_str(), &status) != 0 || access(input.c_str(), R_OK) != 0) {
    throw Error(ErrorKind::kInput, std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) throw Error(ErrorKind::kInput, "is a folder, expected a recording");
}

// The model of --vad. It has no address to fetch it from by itself: it comes in a Python package.
fs::path find_vad_model(const ModelLookup& lookup) {
  constexpr const char* kName = "silero-vad";
  try {
    return find_model(kName, lookup);
  } catch (const Error& error) {
    throw Error(ErrorKind::kModel,
                std::string("--vad: model \"") + kName +
                    "\" is not there: scripts/fetch-models.sh silero-vad fetches "
                    "it (" +
                    error.what() + ")");
  }
}

// One run of the program.
class Run {
 public:
  explicit Run(TranscribeArguments arguments)
      : arguments_(std::move(arguments)), progress_(!arguments_.quiet) {}

  int run(const EngineLoader& load) {
    std::vector<std::vector<PlannedFile>> plan(arguments_.inputs.size());
    if (!arguments_.to_stdout) {
      plan = plan_files(arguments_.inputs, arguments_.formats, arguments_.output_folder);
      if (arguments_.output_folder) make_folder(*arguments_.output_folder);
    }
    // Before the model, which may take long to fetch and load.
    std::vector<bool> readable(arguments_.inputs.size(), false);
    bool any = false;
    for (size_t i = 0; i < arguments_.inputs.size(); ++i) {
      readable[i] = attempt(arguments_.inputs[i], [&] { check_input(arguments_.inputs[i]); });
      any = any || readable[i];
    }
    if (!any) return status_;

    load_engine(load);
    for (size_t i = 0; i < arguments_.inputs.size(); ++i) {
      if (readable[i]) {
        attempt(arguments_.inputs[i], [&] { transcribe(arguments_.inputs[i], plan[i]); });
      }
    }
    return status_;
  }

 private:
  // Runs the body. If it fails, says so, keeps the status and returns false. Where standard output
  // fails there is nothing to go on for: that is thrown on.
  template <typename Body>
  bool attempt(const std::string& input, const Body& body) {
    try {
      body();
      return true;
    } catch (const std::exception& error) {
      progress_.clear();
      if (stdout_failed_) throw;
      const Failure failure = failure_of(error);
      print_error(kProgram, name_of(input), failure.message);
      if (status_ == 0) status_ = failure.status;
      return false;
    }
  }

  static std::string name_of(const std::string& input) { return input == "-" ? "stdin" : input; }

  void note(const std::string& text) {
    if (arguments_.quiet) return;
    progress_.clear();
    print_error(kProgram, text);
  }

  void load_engine(const EngineLoader& load) {
    ModelLookup lookup;
    lookup.offline = arguments_.offline;
    lookup.on_fetch = [&](const std::string& name, const std::string& url, const fs::path& target) {
      note("fetching model " + name + " from " + url + " to " + target.string());
      progress_.start(name);
    };
    lookup.download.on_progress = [&](uint64_t done, uint64_t total, uint64_t before) {
      progress_.show_bytes(done, total, before);
    };
    lookup.download.on_wait = [&] {
      note("another process is fetching this model: waiting for it");
    };
    EngineSettings settings = arguments_.engine;
    settings.model = find_model(arguments_.model, lookup);
    if (settings.vad) settings.vad_model = find_vad_model(lookup);
    progress_.clear();
    const auto start = Clock::now();
    engine_ = load(settings);
    if (arguments_.verbose) {
      note(engine_->description() + "; loaded in " + short_number(seconds_since(start)) + " s");
    }
  }

  void transcribe(const std::string& input, const std::vector<PlannedFile>& plan) {
    std::vector<std::unique_ptr<AtomicFile>> files;
    std::vector<std::unique_ptr<TranscriptWriter>> writers;
    // A JSON document is of no use in part, and would spoil those of other recordings after it.
    const bool whole = arguments_.formats.front() == TranscriptFormat::kJson;
    std::string held_back;
    if (arguments_.to_stdout) {
      writers.push_back(make_writer(arguments_.formats.front(), [&](std::string_view text) {
        if (whole) {
          held_back += text;
        } else {
          print(text);
        }
      }));
    }
    for (const PlannedFile& planned : plan) {
      files.push_back(std::make_unique<AtomicFile>(planned.path));
      writers.push_back(
          make_writer(planned.format,
                      [file = files.back().get()](std::string_view text) { file->write(text); }));
    }
    const auto start = Clock::now();
    progress_.start(name_of(input));
    // Not before something is known of the recording: one that cannot be read leaves no header.
    bool begun = false;
    const auto begin = [&] {
      if (std::exchange(begun, true)) return;
      for (const auto& writer : writers) writer->begin({name_of(input), arguments_.model});
    };
    const Transcript transcript = engine_->transcribe(
        input, arguments_.decoding,
        [&](const Segment& segment) {
          begin();
          for (const auto& writer : writers) writer->segment(segment);
        },
        [&](double done_s, double total_s) { progress_.show_audio(done_s, total_s); });
    begin();
    for (const auto& writer : writers) writer->end(transcript);
    if (!held_back.empty()) print(held_back);
    for (const auto& file : files) file->commit();
    progress_.clear();
    if (arguments_.verbose) {
      const double elapsed = seconds_since(start);
      note(name_of(input) + ": " + short_number(transcript.duration_s) + " s of speech in \"" +
           transcript.language + "\" transcribed in " + short_number(elapsed) + " s (" +
           short_number(transcript.duration_s / std::max(elapsed, 1e-3)) + "x real time)");
    }
  }

  void print(std::string_view text) {
    progress_.clear();
    stdout_failed_ = true;  // unless the next line returns
    write_to_stdout(text);
    stdout_failed_ = false;
  }

  static std::string short_number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f", value);
    return text.data();
  }

  TranscribeArguments arguments_;
  Progress progress_;
  std::unique_ptr<TranscriptionEngine> engine_;
  bool stdout_failed_ = false;
  int status_ = 0;  // of the first failure
};

}  // namespace

int transcribe_main(int argc, const char* const* argv, const EngineLoader& load) {
  return run_program(kProgram, [&] {
    TranscribeCommand command = parse_transcribe_arguments(argc, argv);
    if (command.answer) {
      write_to_stdout(*command.answer);
      return 0;
    }
    return Run(std::move(command.arguments)).run(load);
  });
}

}  // namespace vesper
