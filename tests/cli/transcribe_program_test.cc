// Inputs, outputs, failures and live captions of `transcribe`, with the fake engine of
// fake_transcribe.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/cli/transcribe_fixture.h"

namespace vesper::transcribe_program_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
    for (int i = 0; i < 12000 && work().size() < 5; ++i) {
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
  for (int i = 0; i < 12000 && seen.empty(); ++i) {
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
