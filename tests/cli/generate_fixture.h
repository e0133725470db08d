// The built `generate`, with a tiny model without tokenizer, for its tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/child_process.h"

namespace vesper {

class GenerateProgram : public testing::Test {
 protected:
  void SetUp() override {
    options_.folder = folder_.path();
    options_.environment = {{"HF_ENDPOINT", "http://127.0.0.1:1"}};
  }

  ChildResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), GENERATE);
    return run_child(arguments, options_);
  }
  // With a tiny model that only has token ids.
  std::vector<std::string> tiny_command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {GENERATE, "-m", std::string(LANGUAGE_MODELS) + "/qwen3", "--device", "cpu",
                      "--compute", "f32", "--kv-type", "f32"});
    return arguments;
  }
  ChildResult tiny(std::vector<std::string> arguments) {
    return run_child(tiny_command(std::move(arguments)), options_);
  }
  std::string ids(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--prompt-ids", "1,2,3", "--print-ids"});
    const ChildResult result = tiny(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  void expect_failure(const ChildResult& result, int status, const std::string& what) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(what));
    EXPECT_THAT(result.out, testing::IsEmpty());
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  }

  TemporaryFolder folder_;
  ChildOptions options_;
};

}  // namespace vesper
