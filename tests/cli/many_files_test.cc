// Folders, lists, resuming and killed runs: the built program with the engine of
// fake_transcribe.cc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/child_process.h"

namespace vesper::many_files_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

// The contents of a folder's files by relative path.
using Tree = std::map<std::string, std::string>;

Tree tree_of(const fs::path& folder) {
  Tree tree;
  if (!fs::exists(folder)) return tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      tree[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
    }
  }
  return tree;
}

// Also works while a program writes to the folder.
size_t n_complete_files(const fs::path& folder) {
  size_t n = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    n += at->is_regular_file(error) && !at->path().filename().string().starts_with(".vesper-");
  }
  return n;
}

std::vector<std::string> names_of(const Tree& tree) {
  std::vector<std::string> names;
  for (const auto& [name, text] : tree) names.push_back(name);
  return names;
}

class ManyFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "models");
    fs::create_directories(folder_ / "work/talks/2020/may");
    fs::create_directories(folder_ / "work/talks/.hidden");
    write_file(folder_ / "models/small-one.bin", "");
    write_file(folder_ / "work/talks/b.wav", "in b\n");
    write_file(folder_ / "work/talks/2020/a.FLAC", "in a\n");
    write_file(folder_ / "work/talks/2020/may/c.tar.mp3", "in c\n");
    write_file(folder_ / "work/talks/2020/notes.txt", "not a recording\n");
    write_file(folder_ / "work/talks/noextension", "not a recording\n");
    write_file(folder_ / "work/talks/.hidden/d.wav", "hidden\n");
    write_file(folder_ / "work/talks/._b.wav", "hidden\n");
    options_.folder = folder_ / "work";
    options_.environment = {{"VESPER_MODELS", folder_ / "models"},
                            {"XDG_CACHE_HOME", folder_ / "cache"}};
  }

  std::vector<std::string> command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {FAKE_TRANSCRIBE, "-m", "small-one"});
    return arguments;
  }
  ChildResult transcribe(std::vector<std::string> arguments) {
    return run_child(command(std::move(arguments)), options_);
  }
  // The events of --jobs-json.
  static std::vector<nlohmann::json> events(const ChildResult& result) {
    std::vector<nlohmann::json> found;
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
  static std::vector<std::string> kinds(const std::vector<nlohmann::json>& events) {
    std::vector<std::string> kinds;
    for (const nlohmann::json& event : events) kinds.push_back(event["event"]);
    return kinds;
  }

  TemporaryFolder folder_;
  ChildOptions options_;
};

TEST_F(ManyFiles, FindsRecordingsAndWritesBesideThem) {
  const ChildResult result = transcribe({"-r", "talks"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(read_file(folder_ / "work/talks/b.txt"), "in b\n");
  EXPECT_EQ(read_file(folder_ / "work/talks/2020/a.txt"), "in a\n");
  EXPECT_EQ(read_file(folder_ / "work/talks/2020/may/c.tar.txt"), "in c\n");
  EXPECT_EQ(tree_of(folder_ / "work/talks").size(), 7u + 3u);
}

TEST_F(ManyFiles, KeepsSubfoldersInTheOutputFolder) {
  EXPECT_EQ(transcribe({"-r", "-f", "srt", "-o", "out", "talks"}).status, 0);
  EXPECT_THAT(names_of(tree_of(folder_ / "work/out")),
              ElementsAre("2020/a.srt", "2020/may/c.tar.srt", "b.srt"));
  EXPECT_EQ(transcribe({"-r", "-o", "-", "./talks/"}).out, "in a\nin c\nin b\n");
}

TEST_F(ManyFiles, DoesNotFollowLinksToFolders) {
  fs::create_directory_symlink("..", folder_ / "work/talks/up");
  fs::create_symlink("b.wav", folder_ / "work/talks/link.wav");
  EXPECT_EQ(transcribe({"-r", "-o", "-", "talks"}).out, "in a\nin c\nin b\nin b\n");
}

TEST_F(ManyFiles, ReportsFoldersWithoutRecordings) {
  fs::create_directory(folder_ / "work/empty");
  const ChildResult result = transcribe({"-r", "-o", "out", "empty", "talks"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("transcribe: empty: expected a file with an audio extension"));
  EXPECT_EQ(tree_of(folder_ / "work/out").size(), 3u);
  EXPECT_EQ(transcribe({"talks"}).status, 3);
  EXPECT_THAT(transcribe({"talks"}).err, HasSubstr("--recursive"));
}

TEST_F(ManyFiles, ReadsPathsFromAList) {
  write_file(folder_ / "work/with\nbreak.wav", "broken name\n");
  const std::string absolute = (folder_ / "work/talks/2020/may/c.tar.mp3").string();
  write_file(folder_ / "work/list", "talks/b.wav\n\n" + absolute + "\n./talks/2020/../2020/a.FLAC");
  EXPECT_EQ(transcribe({"--files-from", "list", "-o", "out"}).status, 0);
  EXPECT_THAT(names_of(tree_of(folder_ / "work/out")),
              ElementsAre("c.tar.txt", "talks/2020/a.txt", "talks/b.txt"));
  options_.standard_input = std::string("with\nbreak.wav\0talks/b.wav", 26);
  EXPECT_EQ(transcribe({"-0", "--files-from", "-", "-o", "-"}).out, "broken name\nin b\n");
  EXPECT_EQ(transcribe({"--null", "--files-from", "-"}).status, 0);
  EXPECT_EQ(read_file(folder_ / "work/talks/b.txt"), "in b\n");
}

TEST_F(ManyFiles, RefusesInvalidLists) {
  options_.standard_input = std::string("a\0b\n", 4);
  EXPECT_THAT(transcribe({"--files-from", "-"}).err,
              HasSubstr("stdin:1: the path has a zero byte"));
  EXPECT_EQ(transcribe({"--files-from", "-"}).status, 2);
  options_.standard_input = std::string(5000, 'x');
  EXPECT_THAT(transcribe({"--files-from", "-"}).err, HasSubstr("longer than 4096 bytes"));
  EXPECT_EQ(transcribe({"--files-from", "missing"}).status, 3);
  EXPECT_THAT(transcribe({"--files-from", "-", "-"}).err, HasSubstr("only once"));
  EXPECT_THAT(transcribe({"--null", "talks/b.wav"}).err, HasSubstr("--null: expected together"));
  EXPECT_THAT(transcribe({"--resume", "-o", "-", "talks/b.wav"}).err, HasSubstr("--resume"));
}

TEST_F(ManyFiles, RefusesTwoRecordingsForOneOutputBeforeAnyWork) {
  write_file(folder_ / "work/talks/b.mp3", "x\n");
  const ChildResult result = transcribe({"-r", "talks"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("would both be talks/b.txt"));
  EXPECT_THAT(names_of(tree_of(folder_ / "work/talks")), Not(Contains("2020/a.txt")));
}

TEST_F(ManyFiles, PrintsCountsAndTotalSpeed) {
  write_file(folder_ / "work/bad.wav", "!input broken\n");
  EXPECT_THAT(transcribe({"talks/b.wav", "bad.wav", "talks/2020/a.FLAC"}).err,
              testing::MatchesRegex("transcribe: bad.wav: broken\n"
                                    "transcribe: 3 recordings: 2 transcribed, 1 failed; "
                                    "0:02 of audio in 0:00 .[0-9.]+x real time.\n"));
  EXPECT_EQ(transcribe({"talks/b.wav"}).err, "");
  EXPECT_EQ(transcribe({"--quiet", "talks/b.wav", "talks/2020/a.FLAC"}).err, "");
}

TEST_F(ManyFiles, ResumesWithIncompleteInputs) {
  const std::vector<std::string> arguments = {"-r",  "-f",       "txt,srt", "-o",
                                              "out", "--resume", "talks"};
  EXPECT_THAT(transcribe(arguments).err, HasSubstr("3 recordings: 3 transcribed;"));
  const Tree first = tree_of(folder_ / "work/out");
  // Shows whether a file is written again.
  for (const auto& [name, text] : first) write_file(folder_ / "work/out" / name, "kept");
  EXPECT_EQ(transcribe(arguments).err, "transcribe: 3 recordings: 0 transcribed, 3 skipped\n");
  fs::remove(folder_ / "work/out/2020/a.srt");
  EXPECT_THAT(transcribe(arguments).err, HasSubstr("1 transcribed, 2 skipped"));
  EXPECT_EQ(read_file(folder_ / "work/out/2020/a.txt"), "in a\n");
  EXPECT_EQ(read_file(folder_ / "work/out/b.txt"), "kept");
  // This recording has changed since then.
  fs::last_write_time(folder_ / "work/talks/b.wav",
                      fs::last_write_time(folder_ / "work/out/b.txt") + std::chrono::hours(1));
  EXPECT_THAT(transcribe(arguments).err, HasSubstr("1 transcribed, 2 skipped"));
  EXPECT_EQ(read_file(folder_ / "work/out/b.txt"), "in b\n");
  // Without --resume everything is transcribed again.
  EXPECT_EQ(transcribe({"-r", "-f", "txt,srt", "-o", "out", "talks"}).status, 0);
  EXPECT_EQ(tree_of(folder_ / "work/out"), first);
}

TEST_F(ManyFiles, RemovesFilesOfKilledRunsOnly) {
  fs::create_directory(folder_ / "work/out");
  write_file(folder_ / "work/out/.vesper-abcdefgh.part", "half");
  write_file(folder_ / "work/out/.vesper-12345678.part", "in use");
  write_file(folder_ / "work/out/.vesper-toolong99.part", "not ours");
  const int other =
      open((folder_ / "work/out/.vesper-12345678.part").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_EQ(transcribe({"-o", "out", "talks/b.wav"}).status, 0);
  EXPECT_THAT(names_in(folder_ / "work/out"),
              ElementsAre(".vesper-12345678.part", ".vesper-toolong99.part", "b.txt"));
  close(other);
}

TEST_F(ManyFiles, ReportsProgressAsJsonLines) {
  write_file(folder_ / "work/bad.wav", "!device lost\n");
  const ChildResult result =
      transcribe({"--jobs-json", "-f", "txt,srt", "-o", "out", "talks/b.wav", "bad.wav"});
  EXPECT_EQ(result.status, 5);
  const std::vector<nlohmann::json> all = events(result);
  ASSERT_THAT(kinds(all), ElementsAre("loaded", "start", "segment", "progress", "done", "start",
                                      "error", "summary"));
  EXPECT_EQ(all[0]["engine"], "fake engine");
  EXPECT_EQ(all[1],
            nlohmann::json::parse(R"({"event":"start","file":"talks/b.wav","index":0,"count":2})"));
  EXPECT_EQ(all[2], nlohmann::json::parse(R"({"event":"segment","file":"talks/b.wav","id":0,
                                              "start_s":0.0,"end_s":1.0,"text":" in b"})"));
  EXPECT_EQ(all[3]["done_s"], 1.0);
  EXPECT_EQ(all[3]["total_s"], 10.0);
  EXPECT_EQ(all[4]["outputs"], nlohmann::json::parse(R"(["out/b.txt","out/b.srt"])"));
  EXPECT_EQ(all[4]["duration_s"], 1.0);
  EXPECT_EQ(all[4]["language"], "en");
  EXPECT_GT(all[4]["speed"], 0);
  EXPECT_EQ(all[6], nlohmann::json::parse(
                        R"({"event":"error","file":"bad.wav","status":5,"message":"lost"})"));
  EXPECT_EQ(all[7]["recordings"], 2);
  EXPECT_EQ(all[7]["done"], 1);
  EXPECT_EQ(all[7]["failed"], 1);
  EXPECT_EQ(all[7]["audio_s"], 1.0);
  EXPECT_EQ(all[7]["status"], 5);
  const std::vector<nlohmann::json> again =
      events(transcribe({"--jobs-json", "-f", "txt,srt", "-o", "out", "--resume", "talks/b.wav"}));
  EXPECT_THAT(kinds(again), ElementsAre("skipped", "summary"));
  EXPECT_EQ(again[1]["skipped"], 1);
}

TEST_F(ManyFiles, ReportsErrorsAsJsonLines) {
  const ChildResult result =
      run_child({FAKE_TRANSCRIBE, "-m", "nonsense", "--jobs-json", "talks/b.wav"}, options_);
  EXPECT_EQ(result.status, 4);
  const std::vector<nlohmann::json> all = events(result);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["event"], "error");
  EXPECT_EQ(all[0]["file"], nullptr);
  EXPECT_EQ(all[0]["status"], 4);
}

// A killed run leaves only complete files, and a resumed run gives the same result as an
// undisturbed one.
TEST_F(ManyFiles, LosesNothingWhenKilled) {
  fs::create_directory(folder_ / "work/in");
  for (int i = 0; i < 8; ++i) {
    const std::string name = "in/" + std::string(i % 2 ? "odd/" : "") + std::to_string(i) + ".wav";
    fs::create_directories((folder_ / "work" / name).parent_path());
    write_file(folder_ / "work" / name,
               "one " + std::to_string(i) + "\n!sleep 2\ntwo\n!sleep 3\nthree\n");
  }
  const auto arguments = [](const std::string& folder) {
    return std::vector<std::string>{"-r", "-f", "txt,srt,json", "-o", folder, "--resume", "in"};
  };
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(transcribe(arguments("whole")).status, 0);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begun);
  const Tree whole = tree_of(folder_ / "work/whole");
  ASSERT_EQ(whole.size(), 24u);

  std::mt19937 random(1);
  size_t n_killed_in_the_middle = 0;
  for (int run = 0; run < 20; ++run) {
    const std::string out = "out" + std::to_string(run);
    {
      Child child(command(arguments(out)), options_);
      // By its output, not only by time: this run may be much slower or faster.
      const size_t n_written = random() % whole.size();
      const auto deadline = std::chrono::steady_clock::now() + 10 * took;
      while (n_complete_files(folder_ / "work" / out) < n_written &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(took / 8 * (random() % 1000) / 1000);
      child.send(SIGKILL);
      child.wait();
    }
    size_t n_complete = 0;
    for (const auto& [name, text] : tree_of(folder_ / "work" / out)) {
      if (fs::path(name).filename().string().starts_with(".vesper-")) continue;
      EXPECT_THAT(whole, Contains(Pair(name, text)));
      ++n_complete;
    }
    n_killed_in_the_middle += n_complete > 0 && n_complete < whole.size();
    EXPECT_EQ(transcribe(arguments(out)).status, 0);
    EXPECT_EQ(tree_of(folder_ / "work" / out), whole);
  }
  EXPECT_GE(n_killed_in_the_middle, 5u) << "the test does not test what it says";
}

// With voice activity and several slots, the engine gets all recordings together.
TEST_F(ManyFiles, GiveTheSameOutputTogetherAsAlone) {
  fs::create_directories(folder_ / "models/silero-vad");
  write_file(folder_ / "models/silero-vad/silero_vad_16k.safetensors", "");
  const fs::path work = folder_ / "work";
  write_file(work / "1.wav", "one\nmore\n");
  write_file(work / "2.wav", "two\n!input is damaged\n");
  write_file(work / "3.wav", "!internal confused\n");
  write_file(work / "4.wav", "four\n");
  write_file(work / "5.wav", "five\n");
  const std::vector<std::string> common = {"--vad", "-f", "txt,json", "--jobs-json", "-o"};
  const auto run_all = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> arguments = common;
    arguments.push_back(out);
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (const char* file : {"1.wav", "2.wav", "3.wav", "4.wav", "5.wav"}) {
      arguments.emplace_back(file);
    }
    return transcribe(arguments);
  };
  const ChildResult alone = run_all("alone", {}),
                    together = run_all("together", {"--batch-size=4"});
  EXPECT_EQ(together.status, 3);
  EXPECT_EQ(together.status, alone.status);
  const Tree wanted = tree_of(work / "alone");
  EXPECT_EQ(wanted.size(), 6u);
  EXPECT_EQ(tree_of(work / "together"), wanted);
  const auto events = [](const ChildResult& result) {
    std::vector<std::string> found;
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      found.push_back(event["event"].get<std::string>() + " " + event.value("file", "") + " " +
                      event.value("message", ""));
    }
    return found;
  };
  EXPECT_EQ(events(together), events(alone));
  EXPECT_THAT(events(together), Contains("error 2.wav is damaged"));
  // Complete files are skipped.
  write_file(work / "3.wav", "three\n");
  const ChildResult resumed = run_all("together", {"--batch-size=4", "--resume"});
  const std::vector<std::string> after = events(resumed);
  EXPECT_THAT(after, Contains("skipped 1.wav "));
  EXPECT_THAT(after, Contains("done 3.wav "));
  EXPECT_EQ(tree_of(work / "together").size(), 8u);
}

TEST_F(ManyFiles, ArePrintedInOrder) {
  fs::create_directories(folder_ / "models/silero-vad");
  write_file(folder_ / "models/silero-vad/silero_vad_16k.safetensors", "");
  write_file(folder_ / "work/1.wav", "one\n");
  write_file(folder_ / "work/2.wav", "two\n");
  const ChildResult both = transcribe({"--vad", "--batch-size=4", "1.wav", "2.wav"});
  EXPECT_EQ(both.status, 0);
  EXPECT_EQ(both.out, "one\ntwo\n");
}

}  // namespace
}  // namespace vesper::many_files_test
