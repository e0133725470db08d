// A Vulkan device that is lost, or out of memory, at the n-th call (failing_device_layer.cc), on
// Mesa's lavapipe: one error, the old output file is kept, and nothing hangs or crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/audio/made_recordings.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::failing_device_test {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class FailingDevice : public testing::Test {
 protected:
  FailingDevice() {
    std::filesystem::create_directory(folder_ / "results");
    options_.folder = folder_ / "results";
    options_.environment = {{"VESPER_MODELS", folder_ / "none"},
                            {"VESPER_CACHE", folder_ / "cache"},
                            {"VK_LAYER_PATH", LAYER_FOLDER},
                            {"VK_INSTANCE_LAYERS", "VK_LAYER_VESPER_failing_device"}};
  }

  ChildResult run(std::vector<std::string> command, const std::string& fault,
                  const std::string& calls_file = "") {
    // A hang ends with status 124.
    command.insert(command.begin(), {"/usr/bin/timeout", "120"});
    write_file(folder_ / "results" / output_, kBefore);
    ChildOptions options = options_;
    options.environment["FAILING_DEVICE"] = fault;
    options.environment["FAILING_DEVICE_CALLS"] = calls_file;
    return run_child(command, options);
  }

  // The names of the calls of a run without a fault, which fills the cache of pipelines, too.
  std::vector<std::string> calls_of(const std::vector<std::string>& command) {
    EXPECT_EQ(run(command, "").status, 0);
    std::filesystem::remove(folder_ / "calls");
    const ChildResult result = run(command, "", folder_ / "calls");
    EXPECT_EQ(result.status, 0) << result.err;
    complete_ = read_file(folder_ / "results" / output_);
    return lines_of(read_file(folder_ / "calls"));
  }

  void expect_error(const std::vector<std::string>& command, const std::string& fault,
                    const std::string& call, bool may_succeed) {
    SCOPED_TRACE(call + ", " + fault);
    std::filesystem::remove(folder_ / "calls");
    const ChildResult result = run(command, fault, folder_ / "calls");
    // The number of waits varies a little, so the last calls are not always reached.
    may_succeed |= lines_of(read_file(folder_ / "calls")).size() < std::stoul(fault);
    const std::string program = std::filesystem::path(command[0]).filename();
    if (result.status == 0 && may_succeed) {
      EXPECT_EQ(result.err, "");
      EXPECT_EQ(read_file(folder_ / "results" / output_), complete_);
    } else {
      EXPECT_EQ(result.status, 5) << result.err;
      EXPECT_THAT(result.err, StartsWith(program + ": "));
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
      EXPECT_EQ(read_file(folder_ / "results" / output_), kBefore);
    }
    EXPECT_THAT(names_in(folder_ / "results"), ElementsAre(output_));
  }

  // The device is lost at every step-th call; the first call of each name fails for want of memory.
  void fail_each(const std::vector<std::string>& command, size_t step) {
    const std::vector<std::string> calls = calls_of(command);
    ASSERT_GT(calls.size(), 50u);
    std::set<std::string> seen;
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string& call = calls[i];
      const std::string n = std::to_string(i + 1);
      // Without a cache of pipelines the next start takes longer; at the end nothing is lost.
      const bool may_succeed = call == "vkGetPipelineCacheData" || call == "vkQueueWaitIdle";
      if (i % step == 0) expect_error(command, n + ":lost", call, may_succeed);
      if (seen.insert(call).second) expect_error(command, n + ":memory", call, may_succeed);
    }
  }

  static constexpr const char* kBefore = "what was there before";
  TemporaryFolder folder_;
  ChildOptions options_;
  std::string output_ = "out", complete_;
};

TEST_F(FailingDevice, EndsGenerateWithOneError) {
  fail_each({GENERATE, "-m", std::string(LANGUAGE_MODELS) + "/qwen3", "--device", "vulkan",
             "--prompt-ids", "1,2,3", "--print-ids", "-n", "4", "-o", "out"},
            1);
}

TEST_F(FailingDevice, EndsEmbedWithOneError) {
  TinyBert().write(folder_ / "bert");
  fail_each({EMBED, "-m", folder_ / "bert", "--device", "vulkan", "-o", "out", "a b"}, 5);
}

TEST_F(FailingDevice, EndsTranscribeWithOneError) {
  output_ = "out.txt";
  test::TinyWhisperOptions tiny;
  tiny.n_audio_ctx = 50;  // a window is a second
  tiny.n_text_ctx = 160;
  test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), folder_ / "whisper");
  write_with_sndfile(folder_.file("out.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000,
                     noise(0.3f, 16000, 1));
  fail_each({TRANSCRIBE, "-m", folder_ / "whisper", "--device", "vulkan", "-q", "--language", "en",
             "--max-new-tokens", "8", "-f", "txt", "-o", ".", folder_ / "out.wav"},
            20);
}

}  // namespace
}  // namespace vesper::failing_device_test
