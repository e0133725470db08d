// Models watched while they are built and run, with a tiny Whisper on the CPU.
#include "cli/inspect_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decoder/whisper_model.h"
#include "tests/llm/tiny_whisper_files.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using Mode = ObservedDevice::Mode;

class InspectRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = (fs::path(testing::TempDir()) / "vesper_inspect_run_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    test::write_files(test::TinyWhisper().ctranslate2(DType::kF16), folder_);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static fs::path folder_;
};
fs::path InspectRun::folder_;

TEST_F(InspectRun, PlansTheMemoryThatBuildingTheModelTakes) {
  for (const char* compute : {"f32", "int8"}) {
    auto device = std::make_unique<ObservedDevice>(open_device("cpu"), Mode::kRun);
    const ObservedDevice& observed = *device;
    const WhisperModel model(folder_, std::move(device), parse_compute(compute));
    const MemoryNeed need = plan_memory(folder_, "cpu", compute);
    EXPECT_EQ(need.weights, observed.weight_bytes()) << compute;
    EXPECT_EQ(need.kv_cache + need.scratch, observed.other_bytes()) << compute;
    EXPECT_GT(need.kv_cache, 0u);
    EXPECT_GT(need.program, 1'000'000u);
    // 51,865 tokens and 2 layers of 64 numbers: most of it is the embedding.
    EXPECT_GT(need.weights, 51865u * 64 * (compute == std::string("int8") ? 1 : 2));
  }
}

TEST_F(InspectRun, PlansTheSameTablesAsItRuns) {
  const auto tables = [](Mode mode) {
    auto device = std::make_unique<ObservedDevice>(open_device("cpu"), mode);
    ObservedDevice& observed = *device;
    const WhisperModel model(folder_, std::move(device), Compute::kF32);
    std::vector<std::string> labels;
    for (const auto& recording : observed.recordings()) {
      labels.insert(labels.end(), recording.table.labels().begin(), recording.table.labels().end());
    }
    return labels;
  };
  const auto planned = tables(Mode::kPlan);
  EXPECT_GT(planned.size(), 50u);
  EXPECT_EQ(planned, tables(Mode::kRun));
}

TEST_F(InspectRun, ListsEveryCommandWithItsStageAndOperands) {
  const ReportJson json = model_table(folder_, "cpu", "f32", nullptr);
  bool has_step = false;
  for (const auto& pass : json["passes"]) {
    has_step = has_step || pass["pass"] == "step";
    uint32_t stage = 0;
    for (const auto& command : pass["commands"]) {
      EXPECT_GE(command["stage"].get<uint32_t>(), stage);
      EXPECT_LE(command["stage"].get<uint32_t>(), stage + 1) << "stages have no gaps";
      stage = command["stage"].get<uint32_t>();
      bool writes = false;
      for (const auto& operand : command["operands"]) {
        writes = writes || (operand.is_object() && operand["written"] == true);
      }
      EXPECT_TRUE(writes) << command["label"] << " has no result";
    }
  }
  EXPECT_TRUE(has_step);
}

TEST_F(InspectRun, TimesEachCommandAndCountsItsWork) {
  ProfileOptions options;
  options.model = folder_;
  options.device = "cpu";
  options.compute = "f32";
  const Profile profile = profile_model(options);
  EXPECT_EQ(profile.audio_s, 30.0);
  double us = 0, encoder_flop = 0;
  for (const ProfiledCommand& command : profile.commands) {
    EXPECT_GT(command.n_runs, 0u);
    EXPECT_GE(command.us, 0.0);
    us += command.us;
    if (command.pass == "encode" && command.kernel == "matmul") encoder_flop += command.flop;
  }
  EXPECT_GT(us, 0.0);
  EXPECT_LT(us * 1e-6, profile.elapsed_s) << "commands run one after another";
  // Convolutions, two layers, and the cross-attention's keys and values for two layers.
  const double d = 64, ffn = 256, rows = 1500;
  const double expected = 2 * (2 * rows * d * 80 * 3 + rows * d * d * 3 +
                               2 * rows * (4 * d * d + 2 * d * ffn) + 2 * rows * 2 * d * d);
  EXPECT_NEAR(encoder_flop, expected, 1e-6 * expected);
  EXPECT_GT(profile.peak_flop_per_s, 0.0);
  EXPECT_GT(profile.peak_bytes_per_s, 0.0);
  const auto trace = nlohmann::json::parse(profile_trace(profile));
  EXPECT_GT(trace["traceEvents"].size(), profile.commands.size());
  const std::string csv = profile_csv(profile);
  EXPECT_EQ(static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n')),
            profile.commands.size() + 1);
}

}  // namespace
}  // namespace vesper
