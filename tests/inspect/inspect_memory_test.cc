// The memory that `inspect` predicts, and the memory that the programs take: real models from
// scripts/fetch-models.sh on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/cpu/cpu_features.h"
#include "tests/fetched_model.h"

namespace vesper::inspect_memory_test {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* model;
  const char* compute;
  std::vector<std::string> command;  // program that runs it
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model << ", " << c.compute; }

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  while (const size_t n = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), n);
  pclose(pipe);
  return text;
}

// Peak memory of a program in bytes; 0 if it failed.
uint64_t peak_of(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

class InspectMemory : public testing::TestWithParam<Case> {};

TEST_P(InspectMemory, IsPredictedWithin5PercentExceptForUntouchedCache) {
  const Case& c = GetParam();
  fetched_model(c.model);
  const bool has_encoder = c.command.front() != "generate";
  if (has_encoder && c.compute == std::string("bf16") && !cpu_features().avx512_bf16) {
    GTEST_SKIP() << "this CPU lacks AVX512-BF16";
  }
  const std::string programs = PROGRAMS;
  const std::string choice = std::string(" --device cpu --compute ") + c.compute + " ";
  const auto report = nlohmann::json::parse(
      output_of(programs + "/inspect --offline --json" + choice + c.model), nullptr, false);
  ASSERT_FALSE(report.is_discarded());
  const auto& memory = report["memory"][0];
  ASSERT_FALSE(memory.contains("problem")) << memory["problem"];
  std::vector<std::string> command = {
      programs + "/" + c.command.front(), "-m", c.model, "--device", "cpu", "--compute", c.compute};
  command.insert(command.end(), c.command.begin() + 1, c.command.end());
  const auto predicted = memory["total"].get<double>();
  const auto measured = static_cast<double>(peak_of(command));
  ASSERT_GT(measured, 0) << "the program failed";
  // The KV cache has room for the longest text. A shorter one does not touch all of it.
  const auto untouched = memory["kv_cache"].get<double>();
  EXPECT_THAT(measured, testing::AllOf(testing::Ge(0.95 * (predicted - untouched)),
                                       testing::Le(1.05 * predicted)))
      << "predicted " << predicted / 1e6 << " MB, measured " << measured / 1e6 << " MB\n"
      << memory;
}

std::vector<Case> cases() {
  const std::string recording =
      "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav";
  // Enough words for a full batch.
  const std::string lines = (fs::path(testing::TempDir()) / "vesper_inspect_memory.txt").string();
  std::ofstream file(lines);
  for (int line = 0; line < 64; ++line) {
    for (int word = 0; word < 20; ++word) file << "a kind man ";
    file << "\n";
  }
  std::vector<Case> all;
  for (const char* compute : {"f32", "bf16", "int8"}) {
    for (const char* model : {"tiny.en", "base"}) {
      all.push_back({model, compute, {"transcribe", recording}});
    }
    all.push_back({"all-minilm-l6-v2", compute, {"embed", "--input", lines}});
    // A prompt that fills the planned context.
    std::string prompt;
    for (int word = 0; word < 940; ++word) prompt += "a kind man ";
    all.push_back({"smollm2-135m", compute, {"generate", "-n", "100", prompt}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(RealModels, InspectMemory, testing::ValuesIn(cases()));

}  // namespace
}  // namespace vesper::inspect_memory_test
