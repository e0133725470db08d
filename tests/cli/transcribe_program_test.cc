// The built program with the fake engine of fake_transcribe.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/child_process.h"

namespace vesper::transcribe_program_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TranscribeProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "models");
    std::filesystem::create_directory(folder_ / "work");
    write_file(folder_ / "models/small-one.bin", "");
    write_file(folder_ / "work/a.wav", "first\nsecond\n");
    write_file(folder_ / "work/b.flac", "third\n");
    options_.folder = folder_ / "work";
    options_.environment = {{"VESPER_MODELS", folder_ / "models"},
                            {"XDG_CACHE_HOME", folder_ / "cache"},
                            {"TERM", "xterm"},
                            {"NO_COLOR", ""}};
  }

  ChildResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FAKE_TRANSCRIBE);
    return run_child(arguments, options_);
  }
  // With a model that exists.
  ChildResult transcribe(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-m", "small-one"});
    return run(std::move(arguments));
  }
  std::vector<std::string> work() { return names_in(folder_ / "work"); }

  TemporaryFolder folder_;
  ChildOptions options_;
};

void expect_failure(const ChildResult& result, int status, const std::string& message) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_THAT(result.err, StartsWith("transcribe: "));
  EXPECT_THAT(result.err, HasSubstr(message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(TranscribeProgram, WritesTextToStandardOutputInInputOrder) {
  const ChildResult result = transcribe({"-q", "b.flac", "a.wav", "b.flac"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "third\nfirst\nsecond\nthird\n");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(work(), ElementsAre("a.wav", "b.flac"));
}

TEST_F(TranscribeProgram, AcceptsNamesInBrackets) {
  write_file(folder_ / "work/[a, b].wav", "fourth\n");
  write_file(folder_ / "work/[c,d]", "fifth\n");
  EXPECT_EQ(transcribe({"[a, b].wav", "[c,d]"}).out, "fourth\nfifth\n");
}

TEST_F(TranscribeProgram, ReadsStandardInput) {
  options_.standard_input = "piped\n";
  EXPECT_EQ(transcribe({"-"}).out, "piped\n");
  EXPECT_EQ(transcribe({"-f", "jsonl", "-"}).status, 0);
  EXPECT_EQ(nlohmann::json::parse(transcribe({"-f", "jsonl", "-"}).out)["file"], "stdin");
  expect_failure(transcribe({"-", "-"}), 2, "only once");
}

TEST_F(TranscribeProgram, WritesFilesBesideTheInputsForSeveralFormats) {
  std::filesystem::create_directory(folder_ / "work/sub");
  write_file(folder_ / "work/sub/c.tar.ogg", "fourth\n");
  options_.standard_input = "piped\n";
  const ChildResult result = transcribe({"-f", "txt,srt", "a.wav", "sub/c.tar.ogg", "-"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(work(),
              ElementsAre("a.srt", "a.txt", "a.wav", "b.flac", "stdin.srt", "stdin.txt", "sub"));
  EXPECT_EQ(read_file(folder_ / "work/sub/c.tar.txt"), "fourth\n");
  EXPECT_EQ(
      read_file(folder_ / "work/a.srt"),
      "1\n00:00:00,000 --> 00:00:01,000\nfirst\n\n2\n00:00:01,000 --> 00:00:02,000\nsecond\n\n");
}

TEST_F(TranscribeProgram, CreatesTheOutputFolder) {
  EXPECT_EQ(transcribe({"-o", "out/deep", "a.wav", "b.flac"}).status, 0);
  EXPECT_THAT(names_in(folder_ / "work/out/deep"), ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(transcribe({"-f", "all", "-o", "out/all", "a.wav"}).status, 0);
  EXPECT_THAT(names_in(folder_ / "work/out/all"), ElementsAre("a.csv", "a.json", "a.jsonl", "a.lrc",
                                                              "a.srt", "a.tsv", "a.txt", "a.vtt"));
  EXPECT_EQ(transcribe({"-o", "-", "b.flac"}).out, "third\n");
  expect_failure(transcribe({"-o", "-", "-f", "txt,srt", "b.flac"}), 2, "one format");
}

TEST_F(TranscribeProgram, CreatesFilesWithTheUmask) {
  const mode_t mask = umask(0027);
  const ChildResult result = transcribe({"-o", ".", "a.wav"});
  umask(mask);
  struct stat status {};
  ASSERT_EQ(stat((folder_ / "work/a.txt").c_str(), &status), 0) << result.err;
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(TranscribeProgram, RefusesTwoInputsForOneOutput) {
  std::filesystem::create_directory(folder_ / "work/sub");
  write_file(folder_ / "work/sub/a.mp3", "x\n");
  write_file(folder_ / "work/a.mp3", "x\n");
  expect_failure(transcribe({"-f", "txt,srt", "b.flac", "a.wav", "a.mp3"}), 2,
                 "a.wav and a.mp3 would both be a.txt");
  expect_failure(transcribe({"-o", "out", "a.wav", "sub/a.mp3"}), 2, "would both be");
  expect_failure(transcribe({"-o", "out", "a.wav", "./a.wav"}), 2, "would both be");
  std::filesystem::create_directory_symlink(folder_ / "work", folder_ / "work/loop");
  expect_failure(transcribe({"-f", "txt,srt", "a.wav", "loop/a.wav"}), 2, "would both be");
  EXPECT_THAT(work(), ElementsAre("a.mp3", "a.wav", "b.flac", "loop", "sub"));
  EXPECT_EQ(transcribe({"-f", "txt,srt", "a.wav", "sub/a.mp3"}).status, 0);
}

TEST_F(TranscribeProgram, NeverOverwritesAnInput) {
  write_file(folder_ / "work/speech.txt", "x\n");
  expect_failure(transcribe({"-o", ".", "a.wav", "speech.txt"}), 2, "overwrite the input");
  expect_failure(transcribe({"-f", "srt,txt", "speech.txt"}), 2, "overwrite the input");
  EXPECT_EQ(read_file(folder_ / "work/speech.txt"), "x\n");
  EXPECT_THAT(work(), ElementsAre("a.wav", "b.flac", "speech.txt"));
}

TEST_F(TranscribeProgram, KeepsOldFilesOnFailure) {
  write_file(folder_ / "work/bad.wav", "half\n!input damaged at byte 7\n");
  write_file(folder_ / "work/bad.txt", "from before");
  expect_failure(transcribe({"-f", "txt,srt", "bad.wav"}), 3, "bad.wav: damaged at byte 7");
  EXPECT_EQ(read_file(folder_ / "work/bad.txt"), "from before");
  EXPECT_THAT(work(), ElementsAre("a.wav", "b.flac", "bad.txt", "bad.wav"));
}

TEST_F(TranscribeProgram, ReplacesTheTargetOfALink) {
  write_file(folder_ / "work/real", "old");
  std::filesystem::create_symlink("real", folder_ / "work/a.txt");
  EXPECT_EQ(transcribe({"-o", ".", "a.wav"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "work/a.txt"));
  EXPECT_EQ(read_file(folder_ / "work/real"), "first\nsecond\n");
}

// A signal while files are open leaves no file, finished or not.
TEST_F(TranscribeProgram, RemovesUnfinishedFilesOnSignals) {
  write_file(folder_ / "work/long.wav", "text\n!sleep 20000\n");
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    Child child({FAKE_TRANSCRIBE, "-m", "small-one", "-f", "txt,vtt", "long.wav"}, options_);
    for (int i = 0; i < 1000 && work().size() < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(work().size(), 5u) << "the unfinished files should be here";
    EXPECT_THAT(work(), Not(Contains("long.txt")));
    child.send(signal_number);
    EXPECT_EQ(child.wait().status, 128 + signal_number);
    EXPECT_THAT(work(), ElementsAre("a.wav", "b.flac", "long.wav"));
  }
}

TEST_F(TranscribeProgram, ContinuesAfterAFailureAndReturnsItsStatus) {
  write_file(folder_ / "work/bad.wav", "!input broken\n");
  write_file(folder_ / "work/device.wav", "!device lost\n");
  const ChildResult result = transcribe({"-q", "a.wav", "device.wav", "bad.wav", "b.flac"});
  EXPECT_EQ(result.out, "first\nsecond\nthird\n");
  EXPECT_EQ(result.err, "transcribe: device.wav: lost\ntranscribe: bad.wav: broken\n");
  EXPECT_EQ(result.status, 5);
  EXPECT_EQ(transcribe({"bad.wav", "device.wav", "b.flac"}).status, 3);
  EXPECT_EQ(transcribe({"a.wav", "missing.wav", "b.flac"}).out, "first\nsecond\nthird\n");
}

TEST_F(TranscribeProgram, LeavesStandardOutputWellFormedWhenARecordingFails) {
  write_file(folder_ / "work/bad.wav", "!input broken\n");
  write_file(folder_ / "work/half.wav", "half\n!input broken\n");
  EXPECT_EQ(transcribe({"-f", "tsv", "bad.wav", "b.flac"}).out,
            "start\tend\ttext\n0\t1000\tthird\n");
  const ChildResult result = transcribe({"-f", "json", "half.wav", "b.flac"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(nlohmann::json::parse(result.out)["text"], " third");
}

TEST_F(TranscribeProgram, HasAStatusForEachKindOfFailure) {
  write_file(folder_ / "work/bug.wav", "!internal oops\n");
  write_file(folder_ / "work/huge.wav", "!memory\n");
  expect_failure(transcribe({"missing.wav"}), 3, "missing.wav: No such file or directory");
  expect_failure(transcribe({"."}), 3, "is a folder");
  expect_failure(transcribe({"bug.wav"}), 70, "bug.wav: internal error: oops");
  expect_failure(transcribe({"huge.wav"}), 5, "huge.wav: out of memory");
  expect_failure(run({"-m", "nonsense", "a.wav"}), 4, "nonsense");
  expect_failure(run({"-m", "./nonsense", "a.wav"}), 4, "no such file or folder");
  expect_failure(run({"--offline", "-m", "tiny", "a.wav"}), 4, "--offline");
  expect_failure(transcribe({"-o", "a.wav/x", "b.flac"}), 6, "a.wav");
  std::filesystem::create_directory(folder_ / "work/b.txt");
  expect_failure(transcribe({"-o", ".", "b.flac"}), 6, "b.txt: Is a directory");
}

TEST_F(TranscribeProgram, ReportsStandardOutputThatCannotBeWritten) {
  options_.stdout_path = "/dev/full";
  expect_failure(transcribe({"a.wav", "b.flac"}), 6, "standard output: No space left on device");
  options_.stdout_path = "(closed)";
  expect_failure(transcribe({"a.wav"}), 6, "standard output: Bad file descriptor");
}

TEST_F(TranscribeProgram, EndsSilentlyOnAClosedPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, 0), 0);
  close(ends[0]);
  options_.stdout_path = "/dev/fd/" + std::to_string(ends[1]);
  const ChildResult result = transcribe({"a.wav", "b.flac"});
  close(ends[1]);
  EXPECT_EQ(result.status, 128 + SIGPIPE);
  EXPECT_EQ(result.err, "");
}

TEST_F(TranscribeProgram, PrintsTextWhileTranscribing) {
  write_file(folder_ / "work/long.wav", "early\n!sleep 20000\n");
  options_.stdout_path = folder_ / "out";
  Child child({FAKE_TRANSCRIBE, "-m", "small-one", "long.wav"}, options_);
  std::string seen;
  for (int i = 0; i < 1000 && seen.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::filesystem::exists(folder_ / "out")) seen = read_file(folder_ / "out");
  }
  EXPECT_EQ(seen, "early\n");
}

TEST_F(TranscribeProgram, ShowsProgressOnlyOnATerminal) {
  write_file(folder_ / "work/slow.wav", "one\n!sleep 120\ntwo\n!sleep 120\nthree\n");
  EXPECT_EQ(transcribe({"slow.wav"}).err, "");
  options_.terminal = true;
  const ChildResult shown = transcribe({"slow.wav"});
  EXPECT_EQ(shown.out, "one\ntwo\nthree\n");
  EXPECT_THAT(shown.err, testing::AllOf(HasSubstr("slow.wav"), HasSubstr("30%"),
                                        HasSubstr("x real time"), HasSubstr("left"),
                                        HasSubstr("\033[32m"), testing::EndsWith("\r\033[K")));
  options_.environment["NO_COLOR"] = "1";
  EXPECT_THAT(transcribe({"slow.wav"}).err,
              testing::AllOf(HasSubstr("real time"), Not(HasSubstr("\033[32m"))));
  EXPECT_EQ(transcribe({"--quiet", "slow.wav"}).err, "");
  options_.environment["TERM"] = "dumb";
  EXPECT_EQ(transcribe({"slow.wav"}).err, "");
}

TEST_F(TranscribeProgram, ReportsDeviceAndModelIfVerbose) {
  EXPECT_THAT(transcribe({"-v", "a.wav"}).err,
              testing::AllOf(HasSubstr("transcribe: fake engine; loaded in"),
                             HasSubstr("a.wav: 2.00 s of speech in \"en\"")));
}

// Control characters in a name must not reach the terminal or break an error into two lines.
TEST_F(TranscribeProgram, PrintsNamesSafely) {
  expect_failure(transcribe({"evil\n\033[31m\xFF.wav"}), 3,
                 "evil ?[31m\xEF\xBF\xBD.wav: No such file");
}

TEST_F(TranscribeProgram, FindsModelsByNameInTheFoldersAndByPath) {
  const auto used = [&](const std::string& model) {
    write_file(folder_ / "work/s.wav", "!settings\n");
    const ChildResult result = run({"-m", model, "s.wav"});
    return result.status == 0 ? result.out.substr(0, result.out.find(" device")) : result.err;
  };
  EXPECT_EQ(used("small-one"), "model=small-one.bin");
  std::filesystem::create_directories(folder_ / "cache/vesper/models/tiny.en");
  EXPECT_THAT(run({"--offline", "-m", "tiny.en", "a.wav"}).err, HasSubstr("--offline"));
  write_file(folder_ / "cache/vesper/models/tiny.en/model.bin", "");
  EXPECT_EQ(used("tiny.en"), "model=tiny.en");
  write_file(folder_ / "models/ggml-tiny.en.bin", "");
  EXPECT_EQ(used("tiny.en"), "model=ggml-tiny.en.bin");
  write_file(folder_ / "models/ggml-large-v3-turbo.bin", "");
  EXPECT_EQ(used("turbo"), "model=ggml-large-v3-turbo.bin");
  EXPECT_EQ(used("../models/small-one.bin"), "model=small-one.bin");
  std::filesystem::create_directories(folder_ / "models/mine");
  write_file(folder_ / "models/mine/model-00001-of-00002.safetensors", "");
  EXPECT_EQ(used("mine"), "model=mine");
}

TEST_F(TranscribeProgram, PassesOptionsToTheSession) {
  write_file(folder_ / "work/s.wav", "!settings\n");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "model=small-one.bin device=auto compute=auto threads=0 language=auto translate=0 "
            "previous=1 temperatures=0;0.2;0.4;0.6;0.8;1; no_speech=0.600000 logprob=-1.000000 "
            "compression=2.400000 "
            "prompt= initial=1 without_timestamps=0 suppress_model=1 suppress=\n");
  EXPECT_EQ(transcribe({"--device",
                        "vulkan:1",
                        "--compute=bf16",
                        "-t3",
                        "-lFrench",
                        "--task",
                        "translate",
                        "--condition-on-previous-text",
                        "False",
                        "--temperature",
                        "0,0.2",
                        "--no-speech-threshold",
                        "none",
                        "--logprob-threshold",
                        "-0.5",
                        "--compression-ratio-threshold",
                        "3",
                        "--initial-prompt",
                        "Mr. X, Y",
                        "--max-initial-timestamp",
                        "0.5",
                        "--without-timestamps",
                        "--suppress-tokens",
                        "5,-1,7",
                        "s.wav"})
                .out,
            "model=small-one.bin device=vulkan:1 compute=bf16 threads=3 language=french "
            "translate=1 previous=0 temperatures=0;0.2; no_speech=none logprob=-0.500000 "
            "compression=3.000000 prompt=Mr. X, Y initial=0.5 without_timestamps=1 "
            "suppress_model=1 suppress=5;7;\n");
  EXPECT_THAT(transcribe({"--suppress-tokens", "", "s.wav"}).out, HasSubstr("suppress_model=0"));
  EXPECT_THAT(transcribe({"--suppress-tokens", "-1", "s.wav"}).out, HasSubstr("suppress_model=1"));
  EXPECT_THAT(transcribe({"-t", "2", "s.wav", "-t", "4"}).out, HasSubstr("threads=4"));
  // Names as in openai-whisper.
  EXPECT_THAT(transcribe({"--initial_prompt", "a_b", "--no_speech_threshold=0.5", "s.wav"}).out,
              AllOf(HasSubstr("prompt=a_b "), HasSubstr("no_speech=0.500000")));
}

TEST_F(TranscribeProgram, AcceptsNamesThatLookLikeOptionsAfterTwoDashes) {
  write_file(folder_ / "work/-x.wav", "dash\n");
  EXPECT_EQ(transcribe({"--", "-x.wav"}).out, "dash\n");
  write_file(folder_ / "work/--x_y.wav", "dashes\n");
  EXPECT_EQ(transcribe({"--", "--x_y.wav"}).out, "dashes\n");
}

TEST_F(TranscribeProgram, NamesInvalidOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "expected at least one recording"},
      {{"--bogus", "a.wav"}, "--bogus"},
      {{"a.wav", "-m"}, "--model"},
      {{"-f", "docx", "a.wav"}, "docx"},
      {{"-f", "", "a.wav"}, "--format"},
      {{"-t", "0", "a.wav"}, "--threads"},
      {{"-t", "2x", "a.wav"}, "2x"},
      {{"-t", "99999999999999999999", "a.wav"}, "--threads"},
      {{"--device", "gpu", "a.wav"}, "--device"},
      {{"--device", "vulkan:N", "a.wav"}, "--device"},
      {{"--device", "vulkan:-1", "a.wav"}, "--device"},
      {{"--compute", "fp8", "a.wav"}, "--compute"},
      {{"--task", "sing", "a.wav"}, "--task"},
      {{"-l", "f2", "a.wav"}, "--language"},
      {{"--temperature", "0,,1", "a.wav"}, "--temperature"},
      {{"--temperature", "nan", "a.wav"}, "--temperature"},
      {{"--logprob-threshold", "inf", "a.wav"}, "--logprob-threshold"},
      {{"--condition-on-previous-text", "maybe", "a.wav"}, "--condition-on-previous-text"},
      {{"--suppress-tokens", "-2", "a.wav"}, "--suppress-tokens"},
      {{"--suppress-tokens", "4294967296", "a.wav"}, "--suppress-tokens"},
      {{"--max-initial-timestamp", "31", "a.wav"}, "--max-initial-timestamp"},
      {{"--beam-size", "17", "a.wav"}, "--beam-size: expected a number from 1 to 16"},
      {{"--patience", "2", "--beam-size", "1", "a.wav"},
       "--patience: expected a beam size above 1"},
      {{"--patience", "0.1", "--beam-size", "2", "a.wav"},
       "--patience: expected more: with 2 beams"},
      {{"--patience", "9", "--beam-size", "2", "a.wav"}, "--patience: expected a number from 0.01"},
      {{"--repetition-penalty", "0", "a.wav"}, "--repetition-penalty"},
      {{"--no-repeat-ngram-size", "-1", "a.wav"}, "--no-repeat-ngram-size"},
      {{"--top-p", "1.1", "a.wav"}, "--top-p: expected a number from 0 to 1"},
      {{"-o", "", "a.wav"}, "--output-dir"},
      {{""}, "empty"},
  };
  for (const auto& [arguments, message] : cases) {
    const ChildResult result = transcribe(arguments);
    expect_failure(result, 2, message);
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(TranscribeProgram, PrintsShortAndFullHelp) {
  EXPECT_EQ(run({"--help"}).out, run({"-h"}).out);
  const std::vector<const char*> on_the_screen = {
      "--model",   "--format",   "--output-dir", "--language", "--task",    "--device",
      "--compute", "--threads",  "--offline",    "--quiet",    "--verbose", "--version",
      "--vad",     "--help-all", "--recursive",  "--resume",   "--stream",  "--word-timestamps"};
  const std::vector<const char*> others = {"--stream-step",
                                           "--files-from",
                                           "--channels",
                                           "--diarize",
                                           "--pcm",
                                           "--pcm-rate",
                                           "--pcm-channels",
                                           "--detect-language",
                                           "--language-detection-segments",
                                           "--language-detection-threshold",
                                           "--multilingual",
                                           "--null",
                                           "--jobs-json",
                                           "--vad-threshold",
                                           "--vad-min-speech-ms",
                                           "--vad-min-silence-ms",
                                           "--vad-max-speech-s",
                                           "--vad-pad-ms",
                                           "--temperature",
                                           "--temperature-increment-on-fallback",
                                           "--best-of",
                                           "--batch-size",
                                           "--beam-size",
                                           "--patience",
                                           "--repetition-penalty",
                                           "--no-repeat-ngram-size",
                                           "--top-k",
                                           "--top-p",
                                           "--min-p",
                                           "--suppress-regex",
                                           "--suppress-numerals",
                                           "--length-penalty",
                                           "--seed",
                                           "--compression-ratio-threshold",
                                           "--logprob-threshold",
                                           "--no-speech-threshold",
                                           "--condition-on-previous-text",
                                           "--initial-prompt",
                                           "--carry-initial-prompt",
                                           "--hotwords",
                                           "--prefix",
                                           "--clip-timestamps",
                                           "--without-timestamps",
                                           "--max-initial-timestamp",
                                           "--max-new-tokens",
                                           "--suppress-tokens",
                                           "--highlight-words",
                                           "--max-words-per-line",
                                           "--max-line-width",
                                           "--max-line-count",
                                           "--max-segment-length",
                                           "--split-on-word",
                                           "--color",
                                           "--hallucination-silence-threshold",
                                           "--prepend-punctuations",
                                           "--append-punctuations"};
  for (const char* screen : {"--help", "--help-all"}) {
    const ChildResult help = run({screen});
    EXPECT_EQ(help.status, 0);
    for (const char* option : on_the_screen) EXPECT_THAT(help.out, HasSubstr(option));
    std::istringstream lines(help.out);
    int n_lines = 0;
    for (std::string line; std::getline(lines, line); ++n_lines) {
      EXPECT_LE(line.size(), 80u) << line;
    }
    if (std::string(screen) == "--help") {
      EXPECT_LE(n_lines, 40);
    } else {
      for (const char* option : others) EXPECT_THAT(help.out, HasSubstr(option));
    }
  }
}

TEST_F(TranscribeProgram, PassesSearchAndPromptOptions) {
  write_file(folder_ / "work/s.wav", "!search\n");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "candidates=5 temperatures=0;0.2;0.4;0.6;0.8;1; best_of=5 length_penalty=none seed=0 "
            "beams=5 patience=1 repetition=1 ngram=0 top_k=0 top_p=1 min_p=0 regex= numerals=0 "
            "carry=0 hotwords= prefix= clips= "
            "max_new_tokens=0\n");
  EXPECT_THAT(transcribe({"--temperature-increment-on-fallback=none", "s.wav"}).out,
              HasSubstr("candidates=5 temperatures=0; "));
  EXPECT_EQ(transcribe({"--temperature=0.1",
                        "--temperature-increment-on-fallback=0.3",
                        "--best-of=7",
                        "--length-penalty=0.5",
                        "--seed=9",
                        "--beam-size=3",
                        "--patience=2",
                        "--repetition-penalty=1.2",
                        "--no-repeat-ngram-size=4",
                        "--top-k=8",
                        "--top-p=0.9",
                        "--min-p=0.01",
                        "--suppress-regex=.*a",
                        "--suppress-numerals",
                        "--carry-initial-prompt=true",
                        "--hotwords=red fox",
                        "--prefix=Dear Sir",
                        "--clip-timestamps=0,2.5,7",
                        "--max-new-tokens=30",
                        "s.wav"})
                .out,
            "candidates=7 temperatures=0.1;0.4;0.7;1; best_of=7 length_penalty=0.500000 seed=9 "
            "beams=3 patience=2 repetition=1.2 ngram=4 top_k=8 top_p=0.9 min_p=0.01 regex=.*a "
            "numerals=1 carry=1 hotwords=red fox "
            "prefix=Dear Sir "
            "clips=0;2.5;7; max_new_tokens=30\n");
}

TEST_F(TranscribeProgram, PassesWordOptions) {
  write_file(folder_ / "work/s.wav", "!words\n");
  const std::string marks = " prepended=\"'“¿([{- appended=\"'.。,，!！?？:：”)]}、\n";
  EXPECT_EQ(transcribe({"s.wav"}).out, "words=0 silence=none length=0 split_on_word=0" + marks);
  EXPECT_EQ(transcribe({"--word-timestamps", "s.wav"}).out,
            "words=1 silence=none length=0 split_on_word=0" + marks);
  EXPECT_EQ(transcribe({"--prepend-punctuations=#", "--append-punctuations=~", "s.wav"}).out,
            "words=0 silence=none length=0 split_on_word=0 prepended=# appended=~\n");
  // Settings that need word times turn them on.
  EXPECT_THAT(transcribe({"--hallucination-silence-threshold=2", "s.wav"}).out,
              HasSubstr("words=1 silence=2.000000"));
  EXPECT_THAT(transcribe({"--max-segment-length=999", "s.wav"}).out,
              HasSubstr("words=1 silence=none length=999 split_on_word=0"));
  EXPECT_THAT(transcribe({"--max-segment-length=999", "--split-on-word", "s.wav"}).out,
              HasSubstr("length=999 split_on_word=1"));
  for (const char* option :
       {"--highlight-words", "--max-words-per-line=50", "--max-line-width=500"}) {
    EXPECT_THAT(transcribe({"-f", "srt", option, "s.wav"}).out, HasSubstr("words=1")) << option;
  }
  EXPECT_THAT(transcribe({"--color=always", "s.wav"}).out, HasSubstr("words=1"));
  // Only on a terminal.
  EXPECT_THAT(transcribe({"--color=auto", "s.wav"}).out, HasSubstr("words=0"));
}

TEST_F(TranscribeProgram, PassesSubtitleOptions) {
  write_file(folder_ / "work/s.wav", "one two three\n");
  const auto srt = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"-f", "srt", "s.wav"});
    return transcribe(options).out;
  };
  EXPECT_THAT(srt({}), HasSubstr("\none two three\n"));
  EXPECT_THAT(srt({"--max-words-per-line=2"}), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(srt({"--max-line-width=7"}), HasSubstr("\none two\nthree\n"));
  EXPECT_THAT(srt({"--max-line-width=7", "--max-line-count=1"}), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(srt({"--highlight-words"}), HasSubstr("\none <u>two</u> three\n"));
  // The same in files and on standard output.
  ASSERT_EQ(transcribe({"--max-words-per-line=2", "-f", "srt,vtt", "s.wav"}).status, 0);
  EXPECT_THAT(read_file(folder_ / "work/s.srt"), HasSubstr("\none two\n\n2\n"));
  EXPECT_THAT(read_file(folder_ / "work/s.vtt"), HasSubstr("\none two\n\n"));
}

TEST_F(TranscribeProgram, RefusesWordOptionsWithoutEffect) {
  expect_failure(transcribe({"--highlight-words", "a.wav"}), 2,
                 "--highlight-words: expected srt or vtt");
  expect_failure(transcribe({"-f", "srt", "--max-line-count", "2", "a.wav"}), 2,
                 "--max-line-count: expected together with --max-line-width");
  expect_failure(transcribe({"--split-on-word", "a.wav"}), 2,
                 "--split-on-word: expected together with --max-segment-length");
  expect_failure(transcribe({"--color", "red", "a.wav"}), 2, "--color: expected one of");
  expect_failure(transcribe({"-f", "srt", "--max-line-width", "0", "a.wav"}), 2,
                 "--max-line-width: expected a number from 1 to 1000");
  expect_failure(transcribe({"--hallucination-silence-threshold", "x", "a.wav"}), 2,
                 "--hallucination-silence-threshold: expected seconds");
}

TEST_F(TranscribeProgram, PassesVadOptionsAndModel) {
  write_file(folder_ / "work/s.wav", "!vad\n");
  // A file of this name in the working folder is only taken if it is asked for.
  write_file(folder_ / "work/silero-vad", "");
  EXPECT_EQ(transcribe({"s.wav"}).out, "none\n");
  EXPECT_THAT(transcribe({"--vad", "s.wav"}).out, HasSubstr("model=silero-vad"));
  std::filesystem::remove(folder_ / "work/silero-vad");
  const ChildResult missing = transcribe({"--vad", "s.wav"});
  expect_failure(missing, 4, "model \"silero-vad\" is not in ");
  EXPECT_THAT(missing.err, HasSubstr("scripts/fetch-models.sh silero-vad"));
  std::filesystem::create_directories(folder_ / "models/silero-vad");
  write_file(folder_ / "models/silero-vad/silero_vad_16k.safetensors", "");
  EXPECT_EQ(transcribe({"s.wav"}).out,
            "in doubt " + (folder_ / "models/silero-vad").string() + "\n");
  EXPECT_EQ(transcribe({"--vad", "s.wav"}).out,
            "model=silero-vad threshold=0.5 min_speech=250 min_silence=2000 max_speech=inf pad=400 "
            "batch=1\n");
  EXPECT_EQ(transcribe({"--vad", "--vad-threshold", "0.6", "--vad-min-speech-ms", "100",
                        "--vad-min-silence-ms=500", "--vad-max-speech-s=20", "--vad-pad-ms", "30",
                        "--batch-size", "8", "s.wav"})
                .out,
            "model=silero-vad threshold=0.6 min_speech=100 min_silence=500 max_speech=20 pad=30 "
            "batch=8\n");
  expect_failure(transcribe({"--batch-size", "2", "s.wav"}), 2,
                 "--batch-size: expected together with --vad");
  expect_failure(transcribe({"--vad-pad-ms", "30", "s.wav"}), 2,
                 "--vad-pad-ms: expected together with --vad");
  expect_failure(transcribe({"--vad", "--vad-threshold", "2", "s.wav"}), 2,
                 "--vad-threshold: expected a number from 0.01 to 0.99, found \"2\"");
}

TEST_F(TranscribeProgram, PassesAudioOptions) {
  write_file(folder_ / "work/s.wav", "!sound\n");
  EXPECT_EQ(transcribe({"s.wav"}).out, "split=0 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--channels", "split", "s.wav"}).out, "split=1 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--channels", "2", "s.wav"}).out, "split=0 label=0 channel=1\n");
  EXPECT_EQ(transcribe({"--channels", "left", "s.wav"}).out, "split=0 label=0 channel=0\n");
  EXPECT_EQ(transcribe({"--channels=split", "--channels=mix", "s.wav"}).out,
            "split=0 label=0 channel=-1\n");
  EXPECT_EQ(transcribe({"--diarize", "stereo", "s.wav"}).out, "split=0 label=1 channel=-1\n");
  EXPECT_EQ(transcribe({"--pcm", "s16le", "s.wav"}).out,
            "split=0 label=0 channel=-1 raw=s16le,16000,1\n");
  EXPECT_EQ(transcribe({"--pcm", "f32le", "--pcm-rate=48000", "--pcm-channels", "2", "s.wav"}).out,
            "split=0 label=0 channel=-1 raw=f32le,48000,2\n");
  expect_failure(transcribe({"--channels", "0", "s.wav"}), 2, "--channels: expected");
  expect_failure(transcribe({"--diarize", "mono", "s.wav"}), 2, "--diarize");
  expect_failure(transcribe({"--diarize", "stereo", "--channels", "1", "s.wav"}), 2,
                 "--diarize: expected without --channels");
  expect_failure(transcribe({"--pcm", "mp3", "s.wav"}), 2, "--pcm");
  expect_failure(transcribe({"--pcm-rate", "8000", "s.wav"}), 2, "together with --pcm");
}

TEST_F(TranscribeProgram, DetectsTheLanguageOnly) {
  write_file(folder_ / "work/s.wav", "fr\nbonjour\n");
  write_file(folder_ / "work/t.wav", "en\nhello\n");
  EXPECT_EQ(transcribe({"--detect-language", "--language-detection-threshold=0.75", "s.wav"}).out,
            "fr\t0.7500\tfrench\nde\t0.0150\tgerman\n");
  EXPECT_EQ(transcribe({"--detect-language", "s.wav", "t.wav"}).out,
            "s.wav\tfr\t0.5000\tfrench\ns.wav\tde\t0.0150\tgerman\n"
            "t.wav\ten\t0.5000\tenglish\nt.wav\tde\t0.0150\tgerman\n");
  const auto json =
      nlohmann::json::parse(transcribe({"--detect-language", "-f", "json", "t.wav"}).out);
  EXPECT_EQ(json["language"], "en");
  EXPECT_EQ(json["language_probability"], 0.5);
  EXPECT_EQ(json["probabilities"].size(), 3u);
  EXPECT_EQ(json["file"], "t.wav");
  EXPECT_EQ(transcribe({"--detect-language", "-o", "out", "s.wav"}).status, 0);
  EXPECT_EQ(read_file(folder_ / "work/out/s.txt"), "fr\t0.5000\tfrench\nde\t0.0150\tgerman\n");
  expect_failure(transcribe({"--detect-language", "-l", "fr", "s.wav"}), 2,
                 "--language: expected not to be set");
  expect_failure(transcribe({"--detect-language", "-f", "srt", "s.wav"}), 2, "json or jsonl");
}

TEST_F(TranscribeProgram, PassesLanguageOptions) {
  write_file(folder_ / "work/s.wav", "!languages\n");
  EXPECT_EQ(transcribe({"s.wav"}).out, "multilingual=0 segments=1 threshold=0.5\n");
  EXPECT_EQ(transcribe({"--multilingual", "--language-detection-segments", "4",
                        "--language-detection-threshold", "0.7", "s.wav"})
                .out,
            "multilingual=1 segments=4 threshold=0.7\n");
  expect_failure(transcribe({"--multilingual", "-l", "fr", "s.wav"}), 2, "--multilingual");
  expect_failure(transcribe({"--language-detection-segments", "0", "s.wav"}), 2,
                 "--language-detection-segments");
}

TEST_F(TranscribeProgram, CaptionsALiveStream) {
  options_.standard_input = "one\n!slow 2\ntwo\n";
  const ChildResult text = transcribe({"--stream", "-"});
  EXPECT_EQ(text.out, "one again\ntwo again\n");
  EXPECT_THAT(text.err,
              HasSubstr("new audio takes 2.00 s on this machine, longer than the 1.00 s step: "
                        "captions are late (0.50 s of audio"));
  std::vector<std::string> kinds;
  std::istringstream lines(transcribe({"--stream", "-f", "jsonl", "--stream-step=0.5", "-"}).out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    kinds.push_back(event["event"]);
    if (kinds.size() == 1) {
      EXPECT_EQ(event["received"], 0.5);
    }
  }
  EXPECT_THAT(kinds,
              ElementsAre("partial", "final", "partial", "final", "partial", "segment", "partial",
                          "final", "partial", "final", "partial", "segment", "end"));
  EXPECT_EQ(transcribe({"--stream", "-f", "srt,txt", "-o", "out", "-"}).out, "");
  EXPECT_EQ(read_file(folder_ / "work/out/stdin.txt"), "one again\ntwo again\n");
  EXPECT_EQ(transcribe({"--stream", "-q", "-"}).err, "");
  EXPECT_THAT(transcribe({"--stream", "-f", "srt", "-"}).out, HasSubstr("\none again\n"));
}

TEST_F(TranscribeProgram, ReportsSlowDecoding) {
  const auto notes = [&](const std::string& passes) {
    options_.standard_input = passes;
    return transcribe({"--stream", "-"}).err;
  };
  EXPECT_EQ(notes("!slow 1.4\n"), "");
  const std::string twice = notes("!slow 2\n!slow 2.5\n!slow 3.1\n");
  EXPECT_THAT(twice, HasSubstr("new audio takes 2.00 s"));
  EXPECT_THAT(twice, HasSubstr("new audio takes 3.10 s"));
  EXPECT_THAT(twice, Not(HasSubstr("2.50"))) << "about what was said";
  EXPECT_EQ(notes("!slow-window 2.9\n"), "") << "once in half a minute";
  EXPECT_THAT(
      notes("!slow-window 3.1\n"),
      HasSubstr("decoding a full window takes 3.10 s on this machine, longer than the 1.00 s"));
}

TEST_F(TranscribeProgram, EndsAStreamWithCtrlC) {
  options_.standard_input = "one\n!wait\ntwo\n";
  for (const char* where : {"-", "out"}) {
    Child child({FAKE_TRANSCRIBE, "-m", "small-one", "--stream", "-f", "txt", "-o", where, "-"},
                options_);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    child.send(SIGINT);
    const ChildResult result = child.wait();
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(*where == '-' ? result.out : read_file(folder_ / "work/out/stdin.txt"),
              "one again\n");
  }
}

TEST_F(TranscribeProgram, KeepsTheTextOfABrokenStream) {
  options_.standard_input = "one\n!cut cut off\n";
  const ChildResult result = transcribe({"--stream", "-"});
  EXPECT_EQ(result.out, "one again\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("stdin: cut off"));
  EXPECT_EQ(nlohmann::json::parse(transcribe({"--stream", "-f", "json", "-"}).out)["text"],
            " one again");
  EXPECT_EQ(transcribe({"--stream", "-o", "out", "-f", "srt", "-"}).status, 3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "work/out/stdin.srt")) << "not whole";
}

TEST_F(TranscribeProgram, RefusesCaptionsOfARecording) {
  expect_failure(transcribe({"--stream", "a.wav", "b.flac"}), 2, "--stream: expected one");
  expect_failure(transcribe({"--stream", "--vad", "-"}), 2,
                 "--vad: expected not to be set in live captions");
  expect_failure(transcribe({"--stream", "--channels", "split", "-"}), 2,
                 "--channels: expected not to be set");
  expect_failure(transcribe({"--stream-step", "2", "-"}), 2, "together with --stream");
  expect_failure(transcribe({"--stream", "--stream-step", "0", "-"}), 2, "--stream-step");
}

TEST_F(TranscribeProgram, PrintsItsVersion) {
  const ChildResult result = run({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("transcribe [0-9]+\\.[0-9]+\\.[0-9]+ .Vesper.\n"));
}

}  // namespace
}  // namespace vesper::transcribe_program_test
