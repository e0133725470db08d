// Memory that runs out at one allocation of a function of vesper/inspect.h, or of what reads files
// of the system: the result is that of enough memory, or an error with a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper/inspect.h>

#include <functional>
#include <new>
#include <string>

#include "llm/cpu/cpu_features.h"
#include "tests/audio/made_recordings.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/faults/failing_calls.h"
#include "tests/temporary_folder.h"

namespace vesper::inspect_allocation_test {
namespace {

class AllocationsOfTheModelStore : public testing::Test {
 protected:
  AllocationsOfTheModelStore() {
    TinyBert().write(model_);
    vesper_load_options_init(&options_, sizeof options_);
    options_.offline = 1;
  }
  ~AllocationsOfTheModelStore() override { failing_calls_arm(nullptr); }

  // Fails each allocation of `call`.
  void fail_each(const std::function<vesper_status(char** text)>& call) {
    char* text = nullptr;
    ASSERT_EQ(call(&text), VESPER_OK) << vesper_last_error();  // what is made on first use
    vesper_string_free(text);
    failing_calls_arm("allocate:1000000000");
    const vesper_status unharmed = call(&text);
    const long n = failing_calls_count();
    failing_calls_arm(nullptr);
    ASSERT_EQ(unharmed, VESPER_OK) << vesper_last_error();
    const std::string expected = text;
    vesper_string_free(text);
    size_t n_errors = 0;
    for (long i = 1; i <= n; ++i) {
      failing_calls_arm(("allocate:" + std::to_string(i)).c_str());
      const vesper_status status = call(&text);
      failing_calls_arm(nullptr);
      SCOPED_TRACE("allocation " + std::to_string(i) + " of " + std::to_string(n));
      if (status == VESPER_OK) {
        EXPECT_EQ(text, expected);
        vesper_string_free(text);
        continue;
      }
      ++n_errors;
      EXPECT_EQ(text, nullptr);
      EXPECT_EQ(status, VESPER_ERROR_DEVICE) << vesper_last_error();
      EXPECT_THAT(vesper_last_error(), testing::HasSubstr("memory"));
    }
    EXPECT_GT(n_errors, 1u);
  }

  const TemporaryFolder folder_;
  const std::string models_ = folder_.file("models"), model_ = models_ + "/encoder";
  const ScopedEnvironment folder_of_models_{"VESPER_MODELS", models_};
  const ScopedEnvironment no_cache_{"XDG_CACHE_HOME", folder_.file("cache")};
  vesper_load_options options_;
};

// The documents are not here: the destructors of nlohmann's JSON allocate (docs/faults.md).
TEST_F(AllocationsOfTheModelStore, MayFailWhileAModelIsFound) {
  fail_each([&](char** text) {
    return vesper_model_find("encoder", VESPER_MODEL_TEXT_ENCODER, &options_, nullptr, text);
  });
  fail_each([&](char** text) { return vesper_model_find_installed("encoder", text); });
}

TEST_F(AllocationsOfTheModelStore, MayFailWhileAFileIsDigested) {
  const std::string file = model_ + "/model.safetensors";
  fail_each([&](char** text) { return vesper_file_digest(file.c_str(), "sha256", text); });
}

TEST(AllocationsOfSystemFiles, MayFail) {
  const uint32_t cores = available_cores();
  for (long i = 1; i < 300; ++i) {
    failing_calls_arm(("allocate:" + std::to_string(i)).c_str());
    uint32_t found = cores;
    bool has_memory = true;
    try {
      found = available_cores();
      available_memory_bytes();
      cpu_name();
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
    failing_calls_arm(nullptr);
    EXPECT_TRUE(found == cores || has_memory) << i;
  }
}

}  // namespace
}  // namespace vesper::inspect_allocation_test
