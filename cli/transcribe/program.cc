// transcribe: recordings to text and subtitles. Parses the command line, transcribes each recording
// with a SpeechSession, and writes the results.

#include "cli/terminal/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "cli/transcribe/caption_printer.h"
#include "cli/transcribe/job_report.h"
#include "cli/transcribe/language_report.h"
#include "cli/transcribe/options.h"
#include "cli/transcribe/recordings.h"
#include "error/error.h"
#include "session/atomic_file.h"
#include "session/speech/speech_session.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kProgram = "transcribe";

// Throws Error(kInput) if the input is unreadable even without decoding it.
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
  if (S_ISDIR(status.st_mode))
    throw Error(ErrorKind::kInput, "is a folder, expected a recording (or --recursive)");
}

std::unique_ptr<JobReport> make_report(const TranscribeArguments& arguments) {
  if (arguments.jobs_json) return make_json_report();
  return make_text_report(kProgram, arguments.quiet, arguments.verbose);
}

// One run of the program.
class Run {
 public:
  explicit Run(TranscribeArguments arguments)
      : arguments_(std::move(arguments)), report_(make_report(arguments_)) {}

  int run() {
    try {
      transcribe_all();
    } catch (const std::exception& error) {
      const Failure failure = failure_of(error);
      report_->failed(failure);
      return failure.status;
    }
    report_->finished(totals_, status_);
    return status_;
  }

 private:
  void transcribe_all() {
    inputs_ = find_inputs(arguments_.inputs, [&](const std::string& path, const std::string& why) {
      ++totals_.recordings;
      count_failure(path, {exit_status(ErrorKind::kInput), why});
    });
    totals_.recordings += inputs_.size();
    plan_.resize(inputs_.size());
    if (!arguments_.to_stdout) {
      plan_ = plan_files(inputs_, arguments_.formats, arguments_.output_folder);
      if (arguments_.output_folder) make_folder(*arguments_.output_folder);
      std::set<fs::path> folders;
      for (const auto& files : plan_) {
        for (const PlannedFile& file : files) folders.insert(resolved(file.path).parent_path());
      }
      remove_abandoned_files(folders);
    }
    const std::vector<size_t> wanted = inputs_to_transcribe();
    if (wanted.empty()) return;

    const bool is_transcribed = !arguments_.detect_language && !arguments_.stream_step_s;
    if (is_transcribed && arguments_.speech.channels == Channels::kMix) {
      // While the model is loaded.
      first_reader_ = begin_reading(audio_input(wanted.front()));
    }
    load_model();
    const auto start = Clock::now();
    if (is_transcribed) {
      transcribe(wanted);
    } else {
      for (size_t i : wanted) {
        attempt(inputs_[i], [&] { arguments_.detect_language ? detect_languages(i) : caption(i); });
      }
    }
    totals_.elapsed_s = seconds_since(start);
  }

  // The inputs that are not complete, and look readable before the model is downloaded and loaded.
  std::vector<size_t> inputs_to_transcribe() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (arguments_.resume && is_up_to_date(inputs_[i], plan_[i])) {
        ++totals_.skipped;
        report_->skipped(job(i), outputs(i));
      } else if (attempt(inputs_[i], [&] { check_input(inputs_[i].path); })) {
        wanted.push_back(i);
      }
    }
    return wanted;
  }

  // Runs the body. On failure, reports it, keeps the status and returns false. Rethrows failures of
  // standard output, after which nothing can be written.
  template <typename Body>
  bool attempt(const InputFile& input, const Body& body) {
    try {
      body();
      return true;
    } catch (const std::exception& error) {
      if (stdout_failed_) throw;
      count_failure(name_of(input), failure_of(error));
      return false;
    }
  }

  void count_failure(const std::string& file, const Failure& failure) {
    report_->failed(file, failure);
    ++totals_.failed;
    if (status_ == 0) status_ = failure.status;
  }

  static std::string name_of(const InputFile& input) {
    return input.path == "-" ? "stdin" : input.path;
  }

  Job job(size_t i) const { return {name_of(inputs_[i]), i, inputs_.size()}; }

  std::vector<fs::path> outputs(size_t i) const {
    std::vector<fs::path> paths;
    for (const PlannedFile& file : plan_[i]) paths.push_back(file.path);
    return paths;
  }

  void load_model() {
    const ModelStore store = reporting_store(
        arguments_.offline, [&](const std::string& text) { report_->note(text); },
        [&](const std::string& name, uint64_t done, uint64_t total, uint64_t before) {
          report_->fetching(name, done, total, before);
        });
    const fs::path model = store.find(arguments_.model);
    SpeechSessionOptions options = arguments_.session;
    if (arguments_.speech.vad) {
      options.vad_model = store.find(kVadModel, ModelKind::kVad);
    } else if (arguments_.speech.decoding.policy.ask_vad) {
      options.vad_model = store.find_installed(kVadModel).value_or("");
    }
    report_->make_room();
    const auto start = Clock::now();
    session_.emplace(model, options);
    report_->loaded(session_->description(), seconds_since(start));
  }

  AudioInput audio_input(size_t i) const { return {inputs_[i].path, arguments_.reader}; }

  void detect_languages(size_t i) {
    Work work{job(i), i};
    open_files(work);
    report_->started(work.job);
    const std::vector<LanguageProbability> languages =
        session_->detect_languages(audio_input(i), arguments_.speech);
    const auto report = [&](TranscriptFormat format) {
      return language_report(format, {work.job.file, arguments_.model}, inputs_.size() > 1,
                             languages);
    };
    if (arguments_.to_stdout) print(report(arguments_.formats.front()));
    for (size_t f = 0; f < work.files.size(); ++f) work.files[f]->write(report(plan_[i][f].format));
    Transcript transcript;
    transcript.language = languages.front().language;
    transcript.language_probability = languages.front().probability;
    finish(work, transcript);
  }

  void caption(size_t i) {
    Work work{job(i), i};
    // Formats without captions of their own get whole segments.
    const std::unique_ptr<CaptionPrinter> printer =
        arguments_.to_stdout ? make_caption_printer(
                                   arguments_.formats.front(), {work.job.file, arguments_.model},
                                   [&](std::string_view text) { print(text); },
                                   [] { return terminal_columns(STDOUT_FILENO); }, wants_colour())
                             : nullptr;
    open(work, arguments_.to_stdout && !printer);
    begin(work);
    SpeechEvents events;
    events.on_final = [&](std::span<const CaptionWord> words, double received_s) {
      if (printer) printer->final(words, received_s);
    };
    events.on_partial = [&](std::span<const CaptionWord> words, double received_s) {
      if (printer) printer->partial(words, received_s);
      // On a terminal the partial words show the progress.
      if (terminal_columns(STDOUT_FILENO) == 0) report_->progress(work.job, received_s, 0);
    };
    events.on_segment = [&](const Segment& segment) {
      if (printer) printer->segment(segment);
      take_segment(work, segment);
    };
    LiveOptions options;
    options.step_s = *arguments_.stream_step_s;
    options.on_slow = slow_pass_note(options.step_s);
    options.is_stopped = InterruptNoted::has_come;
    // A microphone has no end but Ctrl-C.
    const InterruptNoted interrupt(InterruptNoted::Which::kFirst);
    const auto [transcript, error] =
        session_->transcribe_live(audio_input(i), arguments_.speech, events, options);
    if (printer) printer->end(transcript);
    end(work, transcript, error);
  }

  // Notes passes that are slow for their kind, each time one is clearly slower than those before.
  std::function<void(const SlowPass&)> slow_pass_note(double step_s) {
    // A full window is decoded every half minute, and takes longer on any machine.
    constexpr double kMuch = 1.5, kMuchForWindow = 3;
    return [this, step_s, most_s = kMuch * step_s,
            most_with_window_s = kMuchForWindow * step_s](const SlowPass& pass) mutable {
      double& most = pass.had_window ? most_with_window_s : most_s;
      if (pass.pass_s < most) return;
      most = kMuch * pass.pass_s;
      report_->note("decoding " + std::string(pass.had_window ? "a full window" : "new audio") +
                    " takes " + short_number(pass.pass_s) + " s on this machine, longer than the " +
                    short_number(step_s) + " s step: captions are late (" +
                    short_number(pass.behind_s) + " s of audio are waiting)");
    };
  }

  // A recording that is being transcribed.
  struct Work {
    Job job;
    size_t input;
    Clock::time_point start = Clock::now();
    std::vector<std::unique_ptr<AtomicFile>> files = {};
    std::vector<std::unique_ptr<TranscriptWriter>> writers = {};
    std::string held_back = {};
    bool has_begun = false, has_failed = false;
  };

  void open_files(Work& work) {
    for (const PlannedFile& planned : plan_[work.input]) {
      if (planned.path.has_parent_path()) make_folder(planned.path.parent_path());
      work.files.push_back(std::make_unique<AtomicFile>(planned.path));
    }
  }

  void open(Work& work, bool to_stdout) {
    if (to_stdout) {
      // A part of a JSON document is of no use, and would spoil the documents after it.
      const bool is_whole = arguments_.formats.front() == TranscriptFormat::kJson;
      work.writers.push_back(make_writer(
          arguments_.formats.front(),
          [this, is_whole, &work](std::string_view text) {
            is_whole ? void(work.held_back += text) : print(text);
          },
          arguments_.writers));
    }
    open_files(work);
    for (size_t f = 0; f < work.files.size(); ++f) {
      work.writers.push_back(make_writer(
          plan_[work.input][f].format,
          [file = work.files[f].get()](std::string_view text) { file->write(text); },
          arguments_.writers));
    }
    report_->started(work.job);
  }

  // Not before the recording is known to be readable, so that an unreadable one has no header.
  void begin(Work& work) {
    if (std::exchange(work.has_begun, true)) return;
    for (const auto& writer : work.writers) writer->begin({work.job.file, arguments_.model});
  }

  void take_segment(Work& work, const Segment& segment) {
    begin(work);
    for (const auto& writer : work.writers) writer->segment(segment);
    report_->segment(work.job, segment);
  }

  // After an `error` standard output has what came before it, and files are left out.
  void end(Work& work, const Transcript& transcript, const std::exception_ptr& error = {}) {
    begin(work);
    for (const auto& writer : work.writers) writer->end(transcript);
    if (!work.held_back.empty()) print(work.held_back);
    if (error) std::rethrow_exception(error);
    finish(work, transcript);
  }

  void finish(const Work& work, const Transcript& transcript) {
    for (const auto& file : work.files) file->commit();
    ++totals_.done;
    totals_.audio_s += transcript.duration_s;
    report_->done(work.job, transcript, outputs(work.input), seconds_since(work.start));
  }

  // The output of a recording follows that of the previous ones. A failure does not affect other
  // recordings.
  void transcribe(const std::vector<size_t>& wanted) {
    auto i = wanted.begin();
    session_->transcribe_many(
        [&]() -> std::optional<SpeechJob> {
          if (i == wanted.end()) return std::nullopt;
          return speech_job(*i++);
        },
        arguments_.speech);
  }

  SpeechJob speech_job(size_t i) {
    const auto work = std::make_shared<Work>(Work{job(i), i});
    // After a failure the recording is cancelled.
    const auto handle = [this, work](const auto& body) {
      if (work->has_failed) return;
      work->has_failed = !attempt(inputs_[work->input], body);
      if (work->has_failed) close(*work);
    };
    SpeechJob job{.input = audio_input(i), .reader = std::exchange(first_reader_, std::nullopt)};
    job.on_start = [this, handle, work] {
      work->start = Clock::now();
      handle([&] { open(*work, arguments_.to_stdout); });
    };
    job.events.on_segment = [this, handle, work](const Segment& segment) {
      handle([&] { take_segment(*work, segment); });
    };
    job.events.on_progress = [this, handle, work](double done_s, double total_s) {
      handle([&] { report_->progress(work->job, done_s, total_s); });
    };
    job.events.is_cancelled = [work] { return work->has_failed; };
    job.on_done = [this, handle, work](const Transcript& transcript) {
      handle([&] { end(*work, transcript); });
      close(*work);
    };
    job.on_failure = [handle](const std::exception&) { handle([] { throw; }); };
    return job;
  }

  // Closes its writers; unfinished files are removed.
  static void close(Work& work) {
    work.writers.clear();
    work.files.clear();
  }

  void print(std::string_view text) {
    report_->make_room();
    stdout_failed_ = true;  // reset by the next line unless it throws
    write_to_stdout(text);
    stdout_failed_ = false;
  }

  TranscribeArguments arguments_;
  std::unique_ptr<JobReport> report_;
  std::vector<InputFile> inputs_;
  std::vector<std::vector<PlannedFile>> plan_;  // [input][format], empty for standard output
  std::optional<SampleReader> first_reader_;    // of the first recording, until its turn
  std::optional<SpeechSession> session_;
  JobTotals totals_;
  bool stdout_failed_ = false;
  int status_ = 0;  // of the first failure
};

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program(vesper::kProgram, argc, argv, [](int n, char** words) {
    vesper::TranscribeArguments arguments;
    if (const auto answer = vesper::parse_transcribe_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::Run(std::move(arguments)).run();
  });
}
