// Models by name in folders of this machine. download_test.cc tests downloads.
#include "session/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "error/error.h"
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

TEST(KnownModels, AreWellFormed) {
  for (const KnownModel& model : known_models()) {
    EXPECT_EQ(find_known_model(model.name), &model);
    EXPECT_TRUE(model.sha1.empty() || model.sha1.size() == 40) << model.name;
    EXPECT_EQ(model.sha1.find_first_not_of("0123456789abcdef"), std::string_view::npos);
    if (model.kind == ModelKind::kLanguage) {
      EXPECT_TRUE(model.file.ends_with(".gguf")) << model.name;
      continue;
    }
    EXPECT_EQ(model.file, model.kind == ModelKind::kSpeech
                              ? "ggml-" + std::string(model.name) + ".bin"
                              : "model.safetensors");
  }
  EXPECT_EQ(find_known_model("turbo")->name, "large-v3-turbo");
  EXPECT_EQ(find_known_model("nonsense"), nullptr);
}

}  // namespace
}  // namespace vesper::model_store_test
