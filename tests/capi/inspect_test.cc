// include/vesper/inspect.h, called by a program in C11: the documents are those of `inspect
// --json`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "session/models/digest.h"
#include "session/models/known_models.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/session/models/model_server.h"

namespace vesper::capi_inspect_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

class InspectionInC : public testing::Test {
 protected:
  InspectionInC() {
    TinyBert().write(encoder_);
    for (const auto& [name, path] : {std::pair("gemma3", &gemma_), std::pair("llama", &llama_)}) {
      std::filesystem::create_directories(*path);
      for (const char* file : {"config.json", "model.safetensors"}) {
        std::filesystem::copy(std::filesystem::path(LANGUAGE_MODELS) / name / file,
                              std::filesystem::path(*path) / file);
      }
    }
    around_.environment = {{"VESPER_MODELS", models_}, {"XDG_CACHE_HOME", folder_.file("cache")}};
  }

  // Takes seconds.
  void write_whisper() const {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 32;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF16), whisper_);
  }
  ChildResult client(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), CLIENT);
    return run_child(arguments, around_);
  }
  // What `inspect --json --offline` prints.
  ChildResult inspect(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {INSPECT, "--json", "--offline"});
    return run_child(arguments, around_);
  }
  void expect_same(const std::vector<std::string>& in_c,
                   const std::vector<std::string>& arguments) const {
    const ChildResult program = inspect(arguments), library = client(in_c);
    EXPECT_THAT(program.err, IsEmpty());
    EXPECT_EQ(library.status, 0) << library.err;
    EXPECT_GT(program.out.size(), 2u);
    EXPECT_EQ(library.out, program.out);
  }

  const TemporaryFolder folder_;
  const std::string models_ = folder_.file("models"), whisper_ = models_ + "/listener",
                    encoder_ = models_ + "/encoder", gemma_ = models_ + "/gemma",
                    llama_ = models_ + "/llama";
  ChildOptions around_;
};

TEST_F(InspectionInC, HasTheDocumentsOfTheProgram) {
  write_whisper();
  for (const std::string& model : {whisper_, encoder_, gemma_}) {
    SCOPED_TRACE(model);
    expect_same({"metadata", model}, {"--metadata", model});
    expect_same({"tensors", model}, {"--tensors", model});
    expect_same({"statistics", model}, {"--tensors", "--stats", model});
    expect_same({"checksums", model}, {"--checksum", model});
    expect_same({"table", model}, {"--table", "--device", "cpu", model});
  }
  for (const std::string& model : {whisper_, encoder_}) {
    expect_same({"tokens", model, "a b\xc3\xa9 12"}, {"--tokenizer", "a b\xc3\xa9 12", model});
  }
  expect_same({"tensors", whisper_, "*attn.q*", "*norm*"},
              {"--tensors", "--filter", "*attn.q*", "--filter", "*norm*", whisper_});
  expect_same({"metadata", encoder_, "h*"}, {"--metadata", "--filter", "h*", encoder_});
  expect_same({"installed"}, {"--models"});
  // Models by name.
  expect_same({"metadata", "listener"}, {"--metadata", "listener"});
}

// The figures of the process and of the free memory differ from run to run.
TEST_F(InspectionInC, HasTheDescriptionOfTheProgram) {
  write_whisper();
  for (const std::string& model : {whisper_, encoder_, gemma_}) {
    Json documents[2] = {
        Json::parse(inspect({"--device", "cpu", model}).out, nullptr, false),
        Json::parse(client({"model", model}).out, nullptr, false),
    };
    for (Json& document : documents) {
      ASSERT_EQ(document["memory"].size(), 1u) << document.dump();
      EXPECT_EQ(document["runs"], true);
      Json& memory = document["memory"][0];
      EXPECT_EQ(memory["fits"], true);
      EXPECT_GT(memory["program"], 1'000'000);
      for (const char* key : {"program", "loading", "total", "available"}) memory[key] = 0;
    }
    EXPECT_EQ(documents[0].dump(), documents[1].dump());
  }
}

TEST_F(InspectionInC, ListsTheDevicesOfTheProgram) {
  Json documents[2] = {Json::parse(inspect({"--devices"}).out, nullptr, false),
                       Json::parse(client({"devices"}).out, nullptr, false)};
  for (Json& document : documents) {
    ASSERT_EQ(document["devices"][0]["device"], "cpu");
    document["devices"][0]["memory_bytes"] = 0;
  }
  EXPECT_EQ(documents[0].dump(), documents[1].dump());
}

TEST_F(InspectionInC, SaysWhetherAModelIsSoundAndWhetherTwoAreEqual) {
  expect_same({"verify", gemma_}, {"--verify", gemma_});
  EXPECT_EQ(client({"verify", gemma_}).err, "1\n");
  EXPECT_EQ(client({"diff", gemma_, gemma_}).err, "1\n");
  const ChildResult different = client({"diff", gemma_, llama_});
  EXPECT_EQ(different.status, 0);
  EXPECT_EQ(different.err, "0\n");
  EXPECT_EQ(different.out, inspect({"--diff", gemma_, llama_}).out);
  // A file that ends too early.
  std::filesystem::resize_file(gemma_ + "/model.safetensors", 100'000);
  const ChildResult damaged = client({"verify", gemma_});
  EXPECT_EQ(damaged.status, 0);
  EXPECT_EQ(damaged.err, "0\n");
  EXPECT_EQ(damaged.out, inspect({"--verify", gemma_}).out);
}

TEST_F(InspectionInC, ProfilesAModelInThreeFormats) {
  const std::vector<std::string> lines = lines_of(client({"profile", encoder_}).out);
  ASSERT_GT(lines.size(), 4u);
  const Json profile = Json::parse(lines[0], nullptr, false);
  EXPECT_EQ(profile["clock"], "stage");
  EXPECT_EQ(profile["work"], "32 texts of 1,280 tokens");
  EXPECT_TRUE(Json::parse(lines[1], nullptr, false)["traceEvents"].is_array());
  EXPECT_THAT(client({"profile", encoder_}).out, HasSubstr("pass,label,kernel,runs,us_total,"));
  // An input of the caller, and a clock after each command.
  write_file(folder_ / "texts", "a b\nc\n");
  const std::string own = client({"profile", encoder_, folder_.file("texts")}).out;
  EXPECT_THAT(own, HasSubstr("\"clock\":\"command\""));
  EXPECT_THAT(own, HasSubstr("\"work\":\"2 texts of "));
}

TEST_F(InspectionInC, ConvertsAModelAsTheProgramDoes) {
  for (const std::string& model : {encoder_, llama_}) {
    const std::string output = folder_.file("out.gguf");
    expect_same({"convert", model, output, "q8_0"}, {"--convert", output, "--type", "q8_0", model});
    EXPECT_EQ(Json::parse(client({"model", output}).out)["format"], "GGUF version 3");
  }
}

TEST_F(InspectionInC, RefusesBadArguments) {
  around_.folder = folder_.path();
  const ChildResult result = client({"refusals", encoder_});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.gguf"));
}

TEST_F(InspectionInC, FindsInstalledModels) {
  EXPECT_EQ(client({"find", "gemma"}).out, gemma_ + "\n");
  EXPECT_EQ(client({"find", gemma_}).out, gemma_ + "\n");
  EXPECT_EQ(client({"installed", "encoder"}).out, encoder_ + "\n");
  EXPECT_EQ(client({"installed", "nothing"}).out, "");
}

TEST_F(InspectionInC, ListsKnownModelsWithTheirDigests) {
  const Json list = Json::parse(client({"known"}).out, nullptr, false);
  ASSERT_EQ(list.size(), known_models().size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["name"], known_models()[i].name);
    EXPECT_EQ(list[i]["files"].size(), known_models()[i].beside.size() + 1);
    const Json& weights = list[i]["files"].back();
    EXPECT_EQ(weights["name"], known_models()[i].weights.name);
    const auto digest = published_digest(known_models()[i].weights);
    EXPECT_EQ(weights.value("sha1", weights.value("sha256", "")), digest ? digest->hex : "");
  }
}

// Of "abc", from FIPS 180-4's examples.
TEST_F(InspectionInC, DigestsFiles) {
  write_file(folder_ / "abc", "abc");
  EXPECT_EQ(client({"digest", folder_.file("abc"), "sha1"}).out,
            "a9993e364706816aba3e25717850c26c9cd0d89d\n");
  EXPECT_EQ(client({"digest", folder_.file("abc"), "sha256"}).out,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
}

TEST_F(InspectionInC, DownloadsWithProgressAndStopsWhenAsked) {
  const std::string content(2'000'000, 'x');
  const ModelServer server(content);
  around_.environment["HF_ENDPOINT"] = server.address() + "/slow";
  const std::string model = "hf://owner/talks/ggml-talk.bin",
                    file = models_ + "/owner--talks/ggml-talk.bin";
  const ChildResult cancelled = client({"cancel", model});
  EXPECT_EQ(cancelled.status, 7);
  EXPECT_THAT(cancelled.err, HasSubstr("stopped by the caller"));
  EXPECT_EQ(client({"stop", model}).status, 7);
  EXPECT_TRUE(std::filesystem::exists(file + ".part"));
  EXPECT_EQ(client({"find", model}).out, file + "\n");
  EXPECT_EQ(read_file(file), content);
  EXPECT_THAT(server.ranges().back(), HasSubstr("bytes=")) << "continued";
}

}  // namespace
}  // namespace vesper::capi_inspect_test
