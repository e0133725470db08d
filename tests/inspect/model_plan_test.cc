// Models observed while they are built and run, with a tiny Whisper on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/inspect/report.h"
#include "decoder/decoding_settings.h"
#include "decoder/whisper_model.h"
#include "llm/devices/open_device.h"
#include "session/inspection/inspection.h"
#include "session/inspection/memory_plan.h"
#include "session/inspection/observed_model.h"
#include "session/inspection/reports.h"
#include "tests/llm/models/wide_heads.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::model_plan_test {
namespace {

namespace fs = std::filesystem;
using Mode = ObservedDevice::Mode;

class InspectRun : public testing::Test {
 protected:
  const test::ModelFolder folder_{test::TinyWhisper().ctranslate2(DType::kF16)};
};

TEST_F(InspectRun, PlansTheMemoryOfLoading) {
  for (const char* compute : {"f32", "int8"}) {
    auto device = std::make_unique<ObservedDevice>(open_device("cpu"), Mode::kRun);
    const ObservedDevice& observed = *device;
    const WhisperModel model(folder_.path(), std::move(device), parse_compute(compute), 1,
                             DecodingSettings().best_of);
    const MemoryNeed need = plan_memory(open_model(folder_.path()), open_device("cpu"), compute);
    EXPECT_EQ(need.weights, observed.weight_bytes()) << compute;
    EXPECT_EQ(need.kv_cache + need.scratch, observed.other_bytes()) << compute;
    EXPECT_GT(need.kv_cache, 0u);
    EXPECT_GT(need.program, 1'000'000u);
    // 51,865 tokens and 2 layers of width 64: mostly the embedding.
    EXPECT_GT(need.weights, 51865u * 64 * (compute == std::string("int8") ? 1 : 2));
  }
}

// Heads have 32 elements: 64 bytes in f16, 34 in int8, 20 in int4.
TEST_F(InspectRun, PlansAQuantizedCache) {
  const WideHeads folder(LANGUAGE_MODELS);
  for (const fs::path& path : {fs::path(folder.path()), folder_.path()}) {
    const OpenModel model = open_model(path);
    const auto cache = [&](const KvTypes& types) {
      return plan_memory(model, open_device("cpu"), "f32", types).kv_cache;
    };
    const uint64_t f16 = cache({});
    EXPECT_GT(f16, 0u);
    EXPECT_EQ(cache(DType::kQ8_0) * 64, f16 * 34);
    EXPECT_EQ(cache({DType::kQ8_0, DType::kQ4_0}) * 128, f16 * (34 + 20));
  }
  const ModelSummary summary =
      summarize_model(folder.path(), "cpu", "f32", {DType::kQ8_0, DType::kQ4_0});
  EXPECT_EQ(summary.kv_bytes_per_1000, 1000u * 3 * (34 + 20));  // 3 layers, one head
}

// Reading a large vocabulary again for each device took longer than everything else.
TEST_F(InspectRun, OpensTheFilesOnceForAllDevices) {
  const fs::path whisper = folder_.path() / "opened once";
  test::write_files(test::TinyWhisper().ctranslate2(DType::kF16), whisper);
  const fs::path language_model = folder_.path() / "opened once too";
  fs::copy(fs::path(LANGUAGE_MODELS) / "gemma3", language_model);
  for (const fs::path& path : {whisper, language_model}) {
    const OpenModel opened = open_model(path);
    const MemoryNeed before = plan_memory(opened, open_device("cpu"), "f32");
    fs::remove_all(path);
    const MemoryNeed after = plan_memory(opened, open_device("cpu"), "f32");
    EXPECT_GT(after.weights, 0u);
    EXPECT_EQ(after.weights, before.weights);
    EXPECT_EQ(after.kv_cache, before.kv_cache);
    EXPECT_EQ(after.scratch, before.scratch);
  }
}

TEST_F(InspectRun, PlansTheSameTablesAsItRuns) {
  const auto tables = [this](Mode mode) {
    auto device = std::make_unique<ObservedDevice>(open_device("cpu"), mode);
    ObservedDevice& observed = *device;
    EXPECT_EQ(observed.keeps_writes(), mode == Mode::kRun);
    const WhisperModel model(folder_.path(), std::move(device), Compute::kF32);
    std::vector<std::string> labels;
    for (const auto& recording : observed.programs()) {
      labels.insert(labels.end(), recording.labels().begin(), recording.labels().end());
    }
    return labels;
  };
  const auto planned = tables(Mode::kPlan);
  EXPECT_GT(planned.size(), 50u);
  EXPECT_EQ(planned, tables(Mode::kRun));
}

TEST_F(InspectRun, ListsEveryCommandWithItsStageAndOperands) {
  const ReportJson json = table_json(command_table(folder_.path(), "cpu", "f32"));
  bool has_step = false;
  for (const auto& pass : json["passes"]) {
    has_step = has_step || pass["pass"] == "step";
    uint32_t stage = 0;
    for (const auto& command : pass["commands"]) {
      EXPECT_GE(command["stage"].get<uint32_t>(), stage);
      EXPECT_LE(command["stage"].get<uint32_t>(), stage + 1) << "stages have no gaps";
      stage = command["stage"].get<uint32_t>();
      for (const auto& n : command["grid"]) EXPECT_GT(n.get<uint32_t>(), 0u) << command["label"];
      bool writes = false;
      for (const auto& operand : command["operands"]) {
        writes = writes || (operand.is_object() && operand["written"] == true);
      }
      EXPECT_TRUE(writes) << command["label"] << " has no result";
    }
  }
  EXPECT_TRUE(has_step);
}

TEST_F(InspectRun, TimesEachStageOrEachCommandAndCountsItsWork) {
  ProfileOptions options;
  options.model = folder_.path();
  options.device = "cpu";
  options.compute = "f32";
  options.enough_s = 0;
  size_t n_commands = 0;
  for (const bool per_command : {true, false}) {
    options.per_command = per_command;
    const Profile profile = profile_model(options);
    EXPECT_EQ(profile.work, "30.0 s of audio");
    double us = 0, encoder_flop = 0;
    size_t n_labels = 0;
    for (const ProfiledStage& stage : profile.stages) {
      EXPECT_GT(stage.n_runs, 0u);
      EXPECT_GE(stage.us, 0.0);
      EXPECT_LE(stage.flop * static_cast<double>(stage.n_runs),
                profile.peak_flop_per_s * stage.us * 1e-6 * (1 + 1e-9))
          << stage.label() << " is above the peak";
      EXPECT_FALSE(stage.kernel.empty());
      us += stage.us;
      n_labels += stage.labels.size();
      if (stage.pass == "encode") encoder_flop += stage.flop;
    }
    EXPECT_GT(us * 1e-6, 0.2 * profile.elapsed_s) << "a tiny model is mostly on the device";
    EXPECT_LT(us * 1e-6, profile.elapsed_s) << "stages run one after another";
    EXPECT_GT(profile.plain_s, 0.0);
    // Convolutions, two layers of products and attention, and the cross-attention keys and values
    // of two layers.
    const double d = 64, ffn = 256, rows = 1500;
    const double expected =
        2 * (2 * rows * d * 80 * 3 + rows * d * d * 3 + 2 * rows * (4 * d * d + 2 * d * ffn) +
             2 * rows * 2 * d * d + 2 * 2 * rows * rows * d);
    EXPECT_NEAR(encoder_flop, expected, 1e-6 * expected);
    EXPECT_GT(profile.peak_flop_per_s, 0.0);
    EXPECT_GT(profile.peak_bytes_per_s, 0.0);
    if (per_command) {
      n_commands = profile.stages.size();
      EXPECT_EQ(n_labels, n_commands);
    } else {
      EXPECT_EQ(n_labels, n_commands) << "no command is lost in a stage";
      EXPECT_LT(profile.stages.size(), n_commands);
    }
    const auto trace = nlohmann::json::parse(profile_trace(profile));
    EXPECT_GT(trace["traceEvents"].size(), profile.stages.size());
    // A percentage up to 100 or, for caches, "cache".
    const std::string text = profile_text(profile);
    for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; ++at) {
      const size_t begin = text.find_last_of(" (", at) + 1;
      if (text[begin] == '+' || text[begin] == '-') continue;  // the clock's cost
      EXPECT_LE(std::stod(text.substr(begin)), 100.0) << text;
    }
    const std::string csv = profile_csv(profile);
    EXPECT_EQ(static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n')),
              profile.stages.size() + 1);
  }
}

TEST_F(InspectRun, CountsTheReplaysOfAChainUpToItsStop) {
  // The same number of steps, whether chains stop early or each step is waited for.
  const auto steps = [this](Clock clock) {
    ObservedModel observed(open_model(folder_.path()), open_device("cpu"), "f32", Mode::kRun);
    DecodeTask task;
    task.prompt = {observed.whisper().tokens().sot};
    task.max_tokens = 21;
    observed.whisper().decoder().decode({&task, 1});  // records programs that are recorded on first
                                                      // use
    observed.device().set_clock(clock);
    observed.whisper().decoder().decode({&task, 1});
    uint64_t n = 0;
    for (ProgramId id = 0; id < observed.device().programs().size(); ++id) {
      if (pass_name(observed.device().programs()[id]) != "step") continue;
      n += observed.device().replay_times(id).n_runs;
    }
    return n;
  };
  EXPECT_EQ(steps(Clock::kOff), 0u);
  const uint64_t n = steps(Clock::kPerStage);
  EXPECT_GT(n, 0u);
  EXPECT_LE(n, 21u) << "a step a token";
  EXPECT_EQ(steps(Clock::kPerCommand), n);
}

}  // namespace
}  // namespace vesper::model_plan_test
