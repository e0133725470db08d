// Calls that fail inside the built programs, one in each run: the program ends with one line on
// standard error and the status of the error's kind, keeps the file that its output would replace,
// and leaves no temporary file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/audio/made_recordings.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::program_faults_test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct Program {
  std::string name;
  std::vector<std::string> arguments;
  std::string output;  // its file in the folder of results
};

class ProgramFaults : public testing::Test {
 protected:
  ProgramFaults() {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), folder_ / "whisper");
    TinyBert().write(folder_ / "bert");
    write_with_sndfile(folder_.file("a.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000,
                       noise(0.3f, 32000, 1));
    std::filesystem::create_directory(folder_ / "results");
    options_.folder = folder_ / "results";
    options_.environment = {{"VESPER_MODELS", folder_ / "none"},
                            {"XDG_CACHE_HOME", folder_ / "cache"}};
  }

  std::vector<Program> programs() const {
    const std::string language = std::string(LANGUAGE_MODELS) + "/qwen3";
    return {
#ifdef FAULTS_SLOW
        {"transcribe",
         {TRANSCRIBE, "-m", folder_ / "whisper", "--device", "cpu", "-t", "2", "-q", "--stream",
          "--language", "en", "-f", "txt", "-o", ".", folder_ / "a.wav"},
         "a.txt"},
#endif
        {"transcribe",
         {TRANSCRIBE, "-m", folder_ / "whisper", "--device", "cpu", "-t", "2", "-q", "--language",
          "en", "--max-new-tokens", "12", "-o", ".", folder_ / "a.wav"},
         "a.txt"},
        {"generate",
         {GENERATE, "-m", language, "--device", "cpu", "-t", "2", "--prompt-ids", "1,2,3",
          "--print-ids", "-n", "4", "-o", "answer.txt"},
         "answer.txt"},
        {"embed",
         {EMBED, "-m", folder_ / "bert", "--device", "cpu", "-t", "2", "-o", "vectors.json",
          "a b c"},
         "vectors.json"}};
  }

  // Runs the program over an output file of before.
  ChildResult run(const Program& program, const std::string& fault) {
    write_file(folder_ / "results" / program.output, kBefore);
    ChildOptions options = options_;
    options.environment["LD_PRELOAD"] = FAILING_CALLS_LIBRARY;
    options.environment["FAILING_CALLS"] = fault;
    options.environment["FAILING_CALLS_COUNT"] = folder_ / "count";
    return run_child(program.arguments, options);
  }

  // The calls of a kind in a run in which none fails, and its output.
  long calls(const Program& program, const std::string& kind, std::string& output) {
    const ChildResult result = run(program, kind + ":1000000000");
    EXPECT_EQ(result.status, 0) << result.err;
    output = result_of(program);
    EXPECT_NE(output, kBefore);
    return std::stol(read_file(folder_ / "count"));
  }
  std::string result_of(const Program& program) const {
    return read_file(folder_ / "results" / program.output);
  }

  // The old file or the new one, and nothing else.
  void expect_whole_output(const Program& program, const std::string& complete) {
    EXPECT_THAT(names_in(folder_ / "results"), ElementsAre(program.output));
    EXPECT_THAT(result_of(program), AnyOf(kBefore, complete));
    for (const std::string& name : names_in(folder_ / "results")) {
      std::filesystem::remove(folder_ / "results" / name);
    }
  }

  // Makes each of up to `most` calls of this kind fail.
  void fail_each(const std::string& kind, const std::string& rest, long most,
                 const std::vector<int>& statuses) {
    for (const Program& program : programs()) {
      std::string complete;
      const long n = calls(program, kind, complete);
      const long step = std::max(1L, n / most);
      // Odd steps over the whole run, its last call included.
      for (long i = n; i > 0; i -= step) {
        const std::string fault = kind + ":" + std::to_string(i) + rest;
        SCOPED_TRACE(program.name + ", " + fault);
        const ChildResult result = run(program, fault);
        if (result.status == 0) {
          EXPECT_EQ(result_of(program), complete);
          EXPECT_EQ(result.err, "");
        } else {
          EXPECT_THAT(statuses, testing::Contains(result.status)) << result.err;
          EXPECT_THAT(result.err, StartsWith(program.name + ": "));
          EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
        }
        expect_whole_output(program, complete);
      }
    }
  }

  // Sends a signal at each of up to `most` calls of this kind.
  void interrupt_each(const std::string& kind, const std::string& signal_name, int signal_number,
                      long most) {
    for (const Program& program : programs()) {
      std::string complete;
      const long n = calls(program, kind, complete);
      const long step = std::max(1L, n / most);
      for (long i = n; i > 0; i -= step) {
        const std::string fault = kind + ":" + std::to_string(i) + ":" + signal_name;
        SCOPED_TRACE(program.name + ", " + fault);
        const ChildResult result = run(program, fault);
        EXPECT_THAT(result.status, AnyOf(0, 128 + signal_number));
        EXPECT_EQ(result.err, "");
        expect_whole_output(program, complete);
      }
    }
  }

  static constexpr const char* kBefore = "what was there before";
  TemporaryFolder folder_;
  ChildOptions options_;
};

#ifdef FAULTS_SLOW
constexpr long kMostAllocations = 60, kMostSignals = 20, kMostReads = 40;
#else
constexpr long kMostAllocations = 6, kMostSignals = 4, kMostReads = 5;
#endif

constexpr int kInput = 3, kModel = 4, kDevice = 5, kOutput = 6;

TEST_F(ProgramFaults, OneAllocationFails) {
  fail_each("allocate", "", kMostAllocations, {kDevice});
}

TEST_F(ProgramFaults, MemoryIsExhausted) {
  fail_each("allocate", "+", kMostAllocations, {kDevice});
}

TEST_F(ProgramFaults, ASignalArrivesDuringAnAllocation) {
  interrupt_each("allocate", "SIGTERM", SIGTERM, kMostSignals);
  interrupt_each("allocate", "SIGHUP", SIGHUP, kMostSignals);
}

TEST_F(ProgramFaults, FilesCannotBeOpenedOrRead) {
  fail_each("open", "", kMostReads, {kInput, kModel, kOutput});
  fail_each("read", "", kMostReads, {kInput, kModel});
  fail_each("read", "+", kMostReads, {kInput, kModel});
}

#ifndef FAULTS_SLOW
TEST_F(ProgramFaults, TheDiskIsFull) {
  fail_each("write", ":ENOSPC", 100, {kOutput});
  fail_each("write", "+:ENOSPC", 100, {kOutput});
}

TEST_F(ProgramFaults, TheDiskBreaksWhileTheOutputIsCompleted) {
  fail_each("sync", "", 100, {kOutput});
  fail_each("rename", "", 100, {kOutput});
}

TEST_F(ProgramFaults, AMappedModelCannotBeRead) { fail_each("map", "", 100, {kModel}); }

TEST_F(ProgramFaults, TheSystemGivesNoThread) {
  fail_each("thread", "", 100, {kDevice});
  fail_each("thread", "+", 100, {kDevice});
}

TEST_F(ProgramFaults, ASignalArrivesWhileTheOutputIsWritten) {
  for (const char* kind : {"write", "sync", "rename"}) {
    interrupt_each(kind, "SIGTERM", SIGTERM, 100);
  }
}

TEST_F(ProgramFaults, TextThatCannotBeReadIsAnErrorOfTheInput) {
  // Linux has nothing mapped at address 0: reading gives EIO.
  const std::string broken = "/proc/self/mem";
  const std::string language = std::string(LANGUAGE_MODELS) + "/qwen3";
  const auto expect_error = [&](const std::vector<std::string>& arguments) {
    const ChildResult result = run_child(arguments, options_);
    EXPECT_EQ(result.status, kInput) << result.err;
    EXPECT_THAT(result.err, HasSubstr("Input/output error"));
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  };
  const auto in_shell = [&](const std::string& program, const std::string& arguments) {
    return std::vector<std::string>{"/bin/sh", "-c", program + " " + arguments + " < " + broken};
  };
  expect_error({GENERATE, "-m", language, "--print-ids", "--input", broken});
  expect_error(in_shell(GENERATE, "-m " + language + " --print-ids"));
  expect_error({EMBED, "-m", folder_ / "bert", "--input", broken});
  expect_error(in_shell(EMBED, "-m " + folder_.file("bert") + " --input -"));
  expect_error({TRANSCRIBE, "-m", folder_ / "whisper", "--files-from", broken});
}

TEST_F(ProgramFaults, StandardOutputMayBeFullOrClosed) {
  for (Program program : programs()) {
    SCOPED_TRACE(program.name);
    const auto output = std::ranges::find(program.arguments, "-o");
    program.arguments.erase(output, output + 2);
    options_.stdout_path = "/dev/full";
    const ChildResult full = run_child(program.arguments, options_);
    EXPECT_EQ(full.status, kOutput);
    EXPECT_EQ(full.err, program.name + ": standard output: No space left on device\n");
    options_.stdout_path = {};
    std::string command;
    for (const std::string& argument : program.arguments) command += "'" + argument + "' ";
    // A pipe that nobody reads any more.
    const ChildResult closed =
        run_child({"/bin/bash", "-c",
                   "mkfifo pipe && exec 3<>pipe 4>pipe 3<&- && rm pipe && exec " + command + ">&4"},
                  options_);
    EXPECT_EQ(closed.status, 128 + SIGPIPE);
    EXPECT_EQ(closed.err, "");
  }
}
#endif

}  // namespace
}  // namespace vesper::program_faults_test
