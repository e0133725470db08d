// Models by name in folders of this machine. download_test.cc tests downloads.
#include "session/models/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "error/error.h"
#include "llm/generation/sampling_defaults.h"
#include "tests/child_process.h"

namespace vesper::model_store_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelStoreOfTwoFolders : public testing::Test {
 protected:
  void put(const std::string& file) {
    std::filesystem::create_directories((folder_ / file).parent_path());
    write_file(folder_ / file, "weights");
  }
  std::string error_of(const std::string& name, ModelKind kind = ModelKind::kSpeech) {
    try {
      return "found " + store_.find(name, kind).string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      setting_ = error.setting();
      return error.what();
    }
  }

  TemporaryFolder folder_;
  ModelStore store_{{.folders = {folder_ / "first", folder_ / "second"}, .offline = true}};
  std::string setting_;
};

TEST_F(ModelStoreOfTwoFolders, FindsAModelInTheFirstFolderThatHasIt) {
  put("second/tiny/model.bin");
  EXPECT_EQ(store_.find("tiny"), folder_ / "second/tiny");
  put("first/ggml-tiny.bin");
  EXPECT_EQ(store_.find("tiny"), folder_ / "first/ggml-tiny.bin");
  put("second/mine.gguf");
  EXPECT_EQ(store_.find("mine"), folder_ / "second/mine.gguf");
  EXPECT_EQ(store_.find(folder_ / "second/mine.gguf"), folder_ / "second/mine.gguf");
  // Under the publisher's name.
  put("second/Qwen3-0.6B-Q8_0.gguf");
  EXPECT_EQ(store_.find("qwen3-0.6b"), folder_ / "second/Qwen3-0.6B-Q8_0.gguf");
  put("second/large-v3/model.bin");
  EXPECT_EQ(store_.find("large"), folder_ / "second/large-v3");
}

TEST_F(ModelStoreOfTwoFolders, FindsInstalledModelsOnlyInTheFolders) {
  EXPECT_EQ(store_.find_installed(kVadModel), std::nullopt);
  EXPECT_THAT(error_of(kVadModel, ModelKind::kVad), HasSubstr("scripts/fetch-models.sh"));
  put("second/silero-vad/silero_vad_16k.safetensors");
  EXPECT_EQ(store_.find_installed(kVadModel), folder_ / "second/silero-vad");
  EXPECT_EQ(store_.list()[0].kind, ModelKind::kVad);
  put("mine.gguf");
  EXPECT_EQ(store_.find_installed(folder_ / "mine.gguf"), std::nullopt);
}

TEST_F(ModelStoreOfTwoFolders, ChoosesALanguageModelByMemory) {
  std::vector<std::string> said;
  const auto chosen = [&](uint64_t memory_gib) {
    ModelStoreOptions options{.folders = {folder_ / "first", folder_ / "second"}, .offline = true};
    options.memory_bytes = memory_gib << 30;
    options.on_substitute = [&](const std::string& name, const std::string& why) {
      said.push_back(name + ": " + why);
    };
    said.clear();
    return ModelStore(options).find("default", ModelKind::kLanguage).filename().string();
  };
  EXPECT_THAT([&] { chosen(24); }, testing::Throws<Error>());
  EXPECT_THAT(error_of("default", ModelKind::kLanguage), HasSubstr("model \"qwen3-"));
  EXPECT_THAT(error_of("default"), HasSubstr("expected a path"));
  // What is installed, if the best cannot be had.
  put("second/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_EQ(chosen(24), "smollm2-135m");
  EXPECT_THAT(said, ElementsAre(testing::AllOf(testing::StartsWith("smollm2-135m: "),
                                               HasSubstr("model \"qwen3-1.7b\" is not in"))));
  EXPECT_EQ(chosen(2), "smollm2-135m");
  EXPECT_THAT(said, ElementsAre(HasSubstr("model \"qwen3-0.6b\" is not in")));
  put("first/gemma-3-1b.gguf");
  EXPECT_EQ(chosen(4), "gemma-3-1b.gguf");
  EXPECT_EQ(chosen(3), "smollm2-135m");  // too large for 3 GiB
  // The smaller one of those that are fetched is preferred to a download.
  put("second/Qwen3-0.6B-Q8_0.gguf");
  EXPECT_EQ(chosen(24), "Qwen3-0.6B-Q8_0.gguf");
  EXPECT_THAT(said, ElementsAre());
  put("second/Qwen3-1.7B-Q8_0.gguf");
  EXPECT_EQ(chosen(12), "Qwen3-1.7B-Q8_0.gguf");
  EXPECT_EQ(chosen(11), "Qwen3-0.6B-Q8_0.gguf");
}

TEST_F(ModelStoreOfTwoFolders, ListsModelsByName) {
  put("first/ggml-tiny.bin");
  put("first/notes.txt");
  put("first/half.bin.part");
  put("first/empty/readme.md");
  put("second/tiny/model.bin");
  put("second/mine.gguf");
  put("second/Qwen3-0.6B-Q8_0.gguf");
  put("second/all-minilm-l6-v2/model.safetensors");
  std::vector<std::string> names;
  for (const StoredModel& model : store_.list()) {
    names.push_back(model.name);
    EXPECT_EQ(store_.find(model.name), model.path);
  }
  EXPECT_THAT(names, ElementsAre("all-minilm-l6-v2", "mine", "qwen3-0.6b", "tiny"));
  const std::vector<StoredModel> models = store_.list();
  EXPECT_EQ(models[0].kind, ModelKind::kTextEncoder);
  EXPECT_EQ(models[1].kind, std::nullopt);
  EXPECT_EQ(models[2].kind, ModelKind::kLanguage);
  EXPECT_EQ(models[3].kind, ModelKind::kSpeech);
}

TEST_F(ModelStoreOfTwoFolders, ReportsSearchedFoldersAndKnownModels) {
  EXPECT_THAT(error_of("none", ModelKind::kLanguage),
              testing::AllOf(HasSubstr(folder_ / "first"), HasSubstr(folder_ / "second"),
                             HasSubstr("smollm2-135m"), testing::Not(HasSubstr("tiny.en"))));
  EXPECT_EQ(setting_, "");
  EXPECT_THAT(error_of("no/such/file"), HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of("tiny"), HasSubstr("may not be fetched"));
  EXPECT_EQ(setting_, "offline");
  EXPECT_TRUE(store_.list().empty());
}

TEST_F(ModelStoreOfTwoFolders, FindsAModelOfAnyRepository) {
  put("second/owner--name/files/mine.gguf");
  EXPECT_EQ(store_.find("hf://owner/name/files/mine.gguf", ModelKind::kLanguage),
            folder_ / "second/owner--name/files/mine.gguf");
  put("second/owner--encoder/model.safetensors");
  EXPECT_EQ(store_.find("hf://owner/encoder", ModelKind::kTextEncoder),
            folder_ / "second/owner--encoder");
  EXPECT_THAT(error_of("hf://owner/other/model.bin"), HasSubstr("may not be fetched"));
  EXPECT_EQ(setting_, "offline");
}

TEST_F(ModelStoreOfTwoFolders, RefusesOtherFormsOfRepositories) {
  for (const char* name :
       {"hf://", "hf://owner", "hf://owner/name", "hf://owner/name/", "hf://owner//model.bin",
        "hf://owner/name/../model.bin", "hf://../name/model.bin", "hf://owner/name/a b.bin"}) {
    EXPECT_THAT(error_of(name), HasSubstr("expected hf://OWNER/NAME/FILE")) << name;
  }
  EXPECT_THAT(error_of("hf://owner", ModelKind::kTextEncoder),
              HasSubstr("expected hf://OWNER/NAME or hf://OWNER/NAME/FILE"));
}

void expect_digest(std::string_view digest, std::string_view of) {
  EXPECT_TRUE(digest.size() == 40 || digest.size() == 64) << of;
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string_view::npos) << of;
}

TEST(KnownModels, HaveTheSamplingOfTheirPublishers) {
  for (const KnownModel& model : known_models()) {
    if (model.generation_config.empty()) continue;
    EXPECT_GT(sampling_defaults("", model.generation_config).sampling.temperature, 0) << model.name;
  }
  const KnownModel* qwen3 = find_known_model_of_file("models/Qwen3-0.6B-Q8_0.gguf");
  ASSERT_NE(qwen3, nullptr);
  EXPECT_EQ(qwen3->name, "qwen3-0.6b");
  EXPECT_EQ(sampling_defaults("", qwen3->generation_config).sampling.top_k, 20u);
  EXPECT_EQ(find_known_model_of_file("models/other.gguf"), nullptr);
}

TEST(KnownModels, AreWellFormed) {
  std::vector<std::string> without_digests;
  for (const KnownModel& model : known_models()) {
    EXPECT_EQ(find_known_model(model.name), &model);
    if (model.repository.empty()) continue;
    if (model.has_digests()) {
      expect_digest(model.weights.digest, model.name);
    } else {
      without_digests.emplace_back(model.name);
    }
    for (const ModelFile& file : model.beside) {
      if (model.has_digests()) {
        expect_digest(file.digest, model.name);
      } else {
        EXPECT_EQ(file.digest, "") << model.name;
      }
    }
    EXPECT_EQ(model.is_folder(), model.kind == ModelKind::kTextEncoder) << model.name;
    // A commit, which its publisher cannot change.
    if (model.is_folder()) {
      EXPECT_EQ(model.revision.size(), 40u) << model.name;
    }
    if (model.kind == ModelKind::kLanguage) {
      EXPECT_TRUE(model.weights.name.ends_with(".gguf")) << model.name;
      continue;
    }
    EXPECT_EQ(model.weights.name, model.kind == ModelKind::kSpeech
                                      ? "ggml-" + std::string(model.name) + ".bin"
                                      : "model.safetensors");
  }
  // A new model has the digests of all its files.
  EXPECT_THAT(without_digests,
              ElementsAre("e5-base-v2", "gte-small", "all-mpnet-base-v2", "e5-small-v2", "gte-base",
                          "nomic-embed-text-v1.5", "modernbert-embed-base"));
  EXPECT_EQ(find_known_model("turbo")->name, "large-v3-turbo");
  EXPECT_EQ(find_known_model("nonsense"), nullptr);
}

}  // namespace
}  // namespace vesper::model_store_test
