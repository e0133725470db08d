// The built program with the fake engine of fake_transcribe.cc, for its tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/child_process.h"

namespace vesper {

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

inline void expect_failure(const ChildResult& result, int status, const std::string& message) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_THAT(result.err, testing::StartsWith("transcribe: "));
  EXPECT_THAT(result.err, testing::HasSubstr(message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

}  // namespace vesper
