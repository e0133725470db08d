// The built program: output and exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/inspect/options.h"
#include "cli/terminal/terminal_text.h"
#include "error/error.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/gguf_bytes.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::inspect_program_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

struct Result {
  int status = 0;
  std::string out;
};

Result run_with(const std::string& environment, const std::string& arguments) {
  const std::string command = environment + " " + INSPECT_PROGRAM + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result result;
  std::array<char, 4096> part{};
  while (const size_t n = std::fread(part.data(), 1, part.size(), pipe)) {
    result.out.append(part.data(), n);
  }
  result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

Result run(const std::string& arguments) { return run_with("", arguments); }

std::string write(const std::string& name, const std::vector<uint8_t>& bytes) {
  const fs::path path = fs::path(testing::TempDir()) / ("vesper_inspect_program_" + name);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

GgufBytes sample() {
  return GgufBytes()
      .string("general.architecture", "llama")
      .string("general.name", "red \x1b[31m text\x07 and \xff")
      .tensor("blk.0.attn_q.weight", {2}, 0, {0, 0, 128, 63, 0, 0, 0, 64})
      .tensor("output_norm.weight", {1}, 0, {0, 0, 192, 255});  // NaN
}

TEST(Inspect, ReportsWhetherATextEncoderRuns) {
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_bert";
  TinyBert bert;
  bert.write(folder);
  const Result sound = run(folder.string());
  EXPECT_THAT(sound.out, HasSubstr("family              bert\n"));
  EXPECT_THAT(sound.out, HasSubstr("runs here           yes\n"));
  bert.tensors.erase("embeddings.word_embeddings.weight");
  bert.shapes.erase("embeddings.word_embeddings.weight");
  bert.write(folder);
  EXPECT_THAT(run(folder.string()).out, HasSubstr("expected a tensor encoder.embed.weight"));
}

TEST(TerminalText, EscapesControlCharacters) {
  EXPECT_EQ(escaped("plain \xc3\xa9"), "plain \xc3\xa9");
  EXPECT_EQ(escaped("\x1b[2J\n\t\x7f"), "\\x1b[2J\\n\\t\\x7f");
  EXPECT_EQ(escaped("\xc2\x9b"), "\\x9b");         // CSI as one character
  EXPECT_EQ(escaped("\xe2\x80\xae"), "\\u202e");   // writing direction
  EXPECT_EQ(escaped("a\xff\xc3"), "a\\xff\\xc3");  // no UTF-8
  EXPECT_EQ(escaped("abcdef", 3), "abc\xe2\x80\xa6");
}

TEST(InspectArguments, AreRefusedIfTheyConflict) {
  const auto parse = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "inspect");
    InspectArguments parsed;
    const auto answer =
        parse_inspect_options(static_cast<int>(arguments.size()), arguments.data(), parsed);
    return std::pair(answer.has_value(), parsed);
  };
  EXPECT_EQ(parse({"--tensors", "--stats", "m"}).second.mode, InspectMode::kTensors);
  EXPECT_EQ(parse({"--diff", "a", "b"}).second.models.size(), 2u);
  EXPECT_EQ(parse({"m", "--filter", "a*", "--filter", "b*"}).second.filters.size(), 2u);
  EXPECT_TRUE(parse({"--help"}).first);
  EXPECT_THROW(parse({}), Error);
  EXPECT_THROW(parse({"a", "b"}), Error);
  EXPECT_THROW(parse({"--diff", "a"}), Error);
  EXPECT_THROW(parse({"--tensors", "--verify", "a"}), Error);
  EXPECT_THROW(parse({"--stats", "a"}), Error);
  EXPECT_THROW(parse({"--per-command", "a"}), Error);
  EXPECT_TRUE(parse({"--profile", "--per-command", "a"}).second.per_command);
  EXPECT_THROW(parse({"--threads", "0", "a"}), Error);
  EXPECT_THROW(parse({"--compute", "f64", "a"}), Error);
  EXPECT_THROW(parse({"--device", "gpu", "a"}), Error);
  EXPECT_EQ(parse({"--device", "vulkan:1", "a"}).second.device, "vulkan:1");
  EXPECT_THROW(parse({"--no-such", "a"}), Error);
}

TEST(Inspect, NeverPassesEscapesOfAFileToTheTerminal) {
  const std::string path = write("escapes.gguf", sample().bytes());
  for (const char* mode : {"", "--metadata ", "--tensors ", "--metadata --json ", "--json "}) {
    const Result result = run(mode + path);
    EXPECT_EQ(result.status, 0) << result.out;
    EXPECT_THAT(result.out, Not(HasSubstr("\x1b"))) << mode;
    EXPECT_THAT(result.out, Not(HasSubstr("\x07"))) << mode;
  }
  EXPECT_THAT(run("--metadata " + path).out, HasSubstr("red \\x1b[31m text\\x07 and \\xff"));
}

TEST(Inspect, ListsTensorsWithStatisticsAsJson) {
  const std::string path = write("tensors.gguf", sample().bytes());
  const Result result = run("--tensors --stats --json --filter 'blk.*' " + path);
  ASSERT_EQ(result.status, 0) << result.out;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["tensors"].size(), 1u);
  EXPECT_EQ(json["tensors"][0]["name"], "blk.0.attn_q.weight");
  EXPECT_EQ(json["tensors"][0]["min"], 1.0);
  EXPECT_EQ(json["tensors"][0]["max"], 2.0);
  EXPECT_EQ(json["tensors"][0]["class"], "attention");
}

TEST(Inspect, VerifiesAndReturnsAStatus) {
  const Result nan = run("--verify " + write("nan.gguf", sample().bytes()));
  EXPECT_EQ(nan.status, 4);
  EXPECT_THAT(nan.out, HasSubstr("output_norm.weight: 1 NaN"));
  const auto sound = GgufBytes()
                         .string("general.architecture", "llama")
                         .tensor("a", {2}, 0, std::vector<uint8_t>(8))
                         .bytes();
  EXPECT_EQ(run("--verify " + write("sound.gguf", sound)).status, 0);
  auto cut = sound;
  cut.pop_back();
  const Result truncated = run("--verify " + write("cut.gguf", cut));
  EXPECT_EQ(truncated.status, 4);
  EXPECT_THAT(truncated.out, HasSubstr("expected 8 bytes, found 7"));
  cut.resize(30);
  EXPECT_EQ(run("--verify " + write("header.gguf", cut)).status, 4);
  GgufBytes unknown;
  unknown.entry("strange", {1}, 57, 0);
  EXPECT_THAT(run("--verify " + write("unknown.gguf", unknown.bytes())).out,
              HasSubstr("format type 57 has no reader"));
}

// Older BERT checkpoints, such as all-MiniLM-L6-v2, contain their positions.
TEST(Inspect, VerifiesModelsThatHoldIntegersBesideTheirWeights) {
  const std::string header =
      R"({"embeddings.position_ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  std::vector<uint8_t> bytes = {static_cast<uint8_t>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + 12);
  const Result sound = run("--verify " + write("integers.safetensors", bytes));
  EXPECT_EQ(sound.status, 0) << sound.out;
  EXPECT_THAT(sound.out, HasSubstr("sound: 2 tensors"));
  bytes[bytes.size() - 1] = 0x7f;
  bytes[bytes.size() - 2] = 0xc0;
  EXPECT_EQ(run("--verify " + write("nan.safetensors", bytes)).status, 4);
}

TEST(Inspect, ReportsWhetherAModelRuns) {
  const test::TinyWhisper whisper;
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_whisper";
  test::write_files(whisper.ctranslate2(DType::kF16), folder);
  const auto json = nlohmann::json::parse(run("--json " + folder.string()).out);
  EXPECT_EQ(json["runs"], true);
  EXPECT_EQ(json["n_mels"], 80);
  EXPECT_EQ(json["kv_bytes_per_1000_tokens"], 2 * 2 * 1000 * 2 * 64);  // 2 layers, 2 heads of 32
  GgufBytes strange;
  strange.string("general.architecture", "martian");
  EXPECT_THAT(run(write("strange.gguf", strange.bytes())).out,
              HasSubstr("does not know family martian"));
  EXPECT_EQ(run("/no/such/model").status, 4);
  fs::remove_all(folder);
}

// Two layers of the tiny model have 6 experts of 3 matrices, [16, 32], of which a token uses 3.
TEST(Inspect, CountsTheParametersThatATokenUses) {
  const std::string model = std::string(LANGUAGE_MODELS) + "/qwen3-moe";
  const auto json = nlohmann::json::parse(run("--json " + model).out);
  EXPECT_EQ(json["n_experts"], 6);
  EXPECT_EQ(json["n_experts_used"], 3);
  EXPECT_EQ(json["n_parameters"].get<uint64_t>() - json["n_active_parameters"].get<uint64_t>(),
            2 * 3 * 3 * 16 * 32);
  EXPECT_THAT(run(model).out, HasSubstr(" tensors, a token uses "));
  EXPECT_THAT(run(std::string(LANGUAGE_MODELS) + "/qwen3").out, Not(HasSubstr("a token uses")));
}

TEST(Inspect, CountsExpertsAsFeedForward) {
  for (const char* model : {"qwen2-moe", "gpt-oss-mxfp4"}) {
    const std::string text = run(std::string(LANGUAGE_MODELS) + "/" + model).out;
    EXPECT_THAT(text, HasSubstr("\nfeed-forward ")) << model;
    EXPECT_THAT(text, Not(HasSubstr("\nother "))) << model;
  }
}

TEST(Inspect, ShowsTheTokensOfAText) {
  const test::TinyWhisper whisper;
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_tokens";
  test::write_files(whisper.ctranslate2(DType::kF16), folder);
  const Result result = run("--json --tokenizer ' ' " + folder.string());
  ASSERT_EQ(result.status, 0) << result.out;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["tokens"].size(), 1u);
  EXPECT_EQ(json["tokens"][0]["id"], 220);
  EXPECT_EQ(json["tokens"][0]["bytes"], "20");
  fs::remove_all(folder);
}

TEST(Inspect, GivesTheSameChecksumAsSha256sum) {
  // printf abc | sha256sum, GNU coreutils
  const std::string path = write("abc", {'a', 'b', 'c'});
  EXPECT_THAT(run("--checksum " + path).out,
              HasSubstr("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

TEST(Inspect, ReturnsOneIfModelsDiffer) {
  const std::string a = write("a.gguf", sample().bytes());
  const std::string b = write("b.gguf", GgufBytes().string("general.architecture", "b").bytes());
  EXPECT_EQ(run("--diff " + a + " " + a).status, 0);
  EXPECT_EQ(run("--diff " + a + " " + b).status, 1);
}

TEST(Inspect, ListsCapabilitiesAndVariantsOfDevices) {
  const auto json = nlohmann::json::parse(run("--devices --json").out);
  const auto& cpu = json["devices"][0];
  EXPECT_EQ(cpu["device"], "cpu");
  EXPECT_THAT(cpu["computes"].dump(), HasSubstr("f32"));
  EXPECT_GT(cpu["capabilities"].size(), 4u);
  EXPECT_FALSE(cpu["capabilities"]["encoder products, f32"].get<std::string>().empty());
  for (const auto& device : json["devices"]) {
    EXPECT_TRUE(device.contains("unusable") || !device["capabilities"].empty()) << device;
  }
  // Another instruction set, another variant.
  const auto old =
      nlohmann::json::parse(run_with("VESPER_CPU_TARGET=generic", "--devices --json").out);
  EXPECT_EQ(old["devices"][0]["capabilities"]["encoder products, bf16"], "vectors");
}

TEST(Inspect, PlansATextEncoderAndTokenizes) {
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_bert";
  fs::create_directories(folder);
  TinyBert().write(folder);
  const auto json = nlohmann::json::parse(run("--json --device cpu " + folder.string()).out);
  EXPECT_EQ(json["runs"], true) << json;
  EXPECT_EQ(json["kv_bytes_per_1000_tokens"], 0);
  EXPECT_GT(json["memory"][0]["weights"].get<uint64_t>(), 10'000u);
  EXPECT_EQ(json["memory"][0]["fits"], true);
  const Result tokens = run("--json --tokenizer 'a' " + folder.string());
  ASSERT_EQ(tokens.status, 0) << tokens.out;
  const auto list = nlohmann::json::parse(tokens.out)["tokens"];
  EXPECT_EQ(list.front()["text"], "[CLS]");
  EXPECT_EQ(list.back()["text"], "[SEP]");
  const Result table = run("--table --json --device cpu " + folder.string());
  ASSERT_EQ(table.status, 0) << table.out;
  EXPECT_THAT(table.out, HasSubstr("\"pool\""));
  fs::remove_all(folder);
}

TEST(Inspect, ProfilesAModelAndWritesItsStages) {
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_profile";
  TinyBert().write(folder);
  const std::string csv = (folder / "stages.csv").string();
  const std::string trace = (folder / "trace.json").string();
  std::ofstream(folder / "texts") << "the cat sat\n";
  const std::string profile = "--profile --device cpu --threads 1 ";
  const std::string input = " " + (folder / "texts").string();
  const Result result =
      run(profile + "--json --csv " + csv + " --trace " + trace + " " + folder.string() + input);
  ASSERT_EQ(result.status, 0) << result.out;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["work"], "1 text of 5 tokens");
  EXPECT_EQ(report["clock"], "stage");
  const auto& stages = report["stages"];
  ASSERT_GT(stages.size(), 10u);

  std::ifstream rows(csv);
  std::string row;
  std::getline(rows, row);
  EXPECT_EQ(row, "pass,label,kernel,runs,us_total,us_mean,flop,bytes");
  auto events = nlohmann::json::parse(std::ifstream(trace))["traceEvents"];
  ASSERT_EQ(events.size(), stages.size() + 1);
  EXPECT_EQ(events[0]["args"]["name"], stages[0]["pass"]);  // the name of the thread
  double at_us = 0, flop = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto& stage = stages[i];
    const auto& event = events[i + 1];
    std::string label;
    for (const auto& part : stage["labels"]) {
      label += (label.empty() ? "" : " + ") + part.get<std::string>();
    }
    const double us = stage["us"], n_runs = stage["n_runs"];
    EXPECT_GE(us, 0);
    flop += stage["flop"].get<double>();
    ASSERT_TRUE(std::getline(rows, row));
    std::vector<std::string> fields;
    std::istringstream line(row);
    for (std::string field; std::getline(line, field, ',');) fields.push_back(field);
    ASSERT_EQ(fields.size(), 8u) << row;
    EXPECT_EQ(fields[0], stage["pass"]);
    EXPECT_EQ(fields[1], label);
    EXPECT_EQ(fields[2], stage["kernel"]);
    EXPECT_EQ(std::stod(fields[3]), n_runs);
    EXPECT_NEAR(std::stod(fields[4]), us, 1e-3);
    EXPECT_NEAR(std::stod(fields[5]), us / n_runs, 1e-3);
    EXPECT_EQ(std::stod(fields[6]), stage["flop"]);
    EXPECT_EQ(std::stod(fields[7]), stage["bytes"]);
    EXPECT_EQ(event["name"], label);
    EXPECT_EQ(event["args"]["kernel"], stage["kernel"]);
    EXPECT_NEAR(event["ts"].get<double>(), at_us, 1e-3);
    EXPECT_NEAR(event["dur"].get<double>(), us / n_runs, 1e-3);
    at_us += us / n_runs;
  }
  EXPECT_FALSE(std::getline(rows, row));
  EXPECT_GT(flop, 0);

  const Result text = run(profile + "--per-command " + folder.string() + input);
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("work           1 text of 5 tokens\n"));
  EXPECT_THAT(text.out, HasSubstr("after each command"));
  EXPECT_THAT(text.out, HasSubstr("\nmatmul"));
  fs::remove_all(folder);
}

TEST(Inspect, PlansTheMemoryOfAnUnsupportedModel) {
  auto bytes = GgufBytes()
                   .string("general.architecture", "martian")
                   .scalar<uint32_t>("martian.block_count", 4, 2)
                   .scalar<uint32_t>("martian.embedding_length", 4, 64)
                   .scalar<uint32_t>("martian.attention.head_count", 4, 2)
                   .scalar<uint32_t>("martian.context_length", 4, 1000)
                   .tensor("a", {2}, 0, std::vector<uint8_t>(8))
                   .bytes();
  const std::string path = write("martian.gguf", bytes);
  const auto json = nlohmann::json::parse(run("--json --device cpu " + path).out);
  EXPECT_EQ(json["runs"], false);
  EXPECT_EQ(json["memory"][0]["at_least"], true);
  EXPECT_EQ(json["memory"][0]["weights"], 8);
  EXPECT_EQ(json["memory"][0]["kv_cache"], 2 * 2 * 1000 * 2 * 64);
  EXPECT_EQ(run("--device vulkan:99 " + path).status, 5);
}

TEST(Inspect, ListsTheModelsOnThisMachine) {
  const fs::path folder = fs::path(testing::TempDir()) / "vesper_inspect_program_models";
  fs::create_directories(folder / "tiny.en");
  std::ofstream(folder / "tiny.en/model.bin") << "weights";
  std::ofstream(folder / "mine.gguf") << "weights";
  fs::create_directories(folder / "silero-vad");
  std::ofstream(folder / "silero-vad/silero_vad_16k.safetensors") << "weights";
  const std::string places = "XDG_CACHE_HOME=/none VESPER_MODELS=" + folder.string();
  const auto json = nlohmann::json::parse(run_with(places, "--models --json").out);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["name"], "mine");
  EXPECT_EQ(json[0]["kind"], "unknown");
  EXPECT_EQ(json[1]["kind"], "voice activity");
  EXPECT_EQ(json[2]["name"], "tiny.en");
  EXPECT_EQ(json[2]["kind"], "speech");
  EXPECT_EQ(json[2]["path"], (folder / "tiny.en").string());
  EXPECT_THAT(run_with(places, "--models").out, HasSubstr("tiny.en     speech"));
  EXPECT_EQ(run("--models model.gguf").status, 2);
  fs::remove_all(folder);
}

TEST(Inspect, HelpFitsOnOneScreen) {
  const std::string help = run("--help").out;
  EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 40);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace vesper::inspect_program_test
