// Memory that runs out at the n-th allocation of a call of vesper/text.h or vesper/embedding.h: the
// call returns an error with a message, no exception leaves it, and the model is as usable as
// before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/embedder/tiny_bert.h"
#include "tests/faults/failing_calls.h"
#include "tests/session/text/tiny_text_model.h"
#include "tests/temporary_folder.h"

namespace vesper::text_allocation_test {
namespace {

class AllocationsOfTextInC : public testing::Test {
 protected:
  AllocationsOfTextInC() {
    write_tiny_text_weights(model_path_);
    write_letter_tokenizer(model_path_);
    std::filesystem::create_directories(encoder_path_);
    TinyBert().write(encoder_path_);
    vesper_language_model_options_init(&options_, sizeof options_);
    options_.load.device = "cpu";
    options_.load.compute = "f32";
    options_.load.threads = 1;
    vesper_embedder_options_init(&embedding_, sizeof embedding_);
    embedding_.load = options_.load;
    vesper_generate_options_init(&generate_, sizeof generate_);
    generate_.max_tokens = 8;
    generate_.no_reuse = 1;
  }
  ~AllocationsOfTextInC() override {
    failing_calls_arm(nullptr);
    vesper_language_model_close(model_);
    vesper_embedder_close(embedder_);
  }

  vesper_status open() {
    vesper_language_model_close(model_);
    return vesper_language_model_open(model_path_.c_str(), &options_, &model_);
  }
  vesper_status open_embedder() {
    vesper_embedder_close(embedder_);
    return vesper_embedder_open(encoder_path_.c_str(), &embedding_, &embedder_);
  }
  vesper_status keep(vesper_answer* answer, vesper_status status) {
    text_ = {};
    if (answer) std::strncpy(text_.data(), vesper_answer_text(answer), text_.size() - 1);
    vesper_answer_free(answer);
    return status;
  }

  // Makes `call` fail at each of a sample of its allocations: the first ones, and `n_sampled`
  // others. It leaves the same text where it succeeds.
  void fail_each(long n_sampled, const std::function<vesper_status()>& call) {
    failing_calls_arm("allocate:1000000000");
    const vesper_status unharmed = call();
    const long n = failing_calls_count();
    failing_calls_arm(nullptr);
    ASSERT_EQ(unharmed, VESPER_OK) << vesper_last_error();
    const auto text = text_;
    size_t n_errors = 0;
    for (long i = 1; i <= n; i += i < 20 ? 1 : std::max(1L, n / n_sampled)) {
      failing_calls_arm(("allocate:" + std::to_string(i)).c_str());
      const vesper_status status = call();
      failing_calls_arm(nullptr);
      SCOPED_TRACE("allocation " + std::to_string(i));
      if (status == VESPER_OK) {
        EXPECT_EQ(text_, text);
        continue;
      }
      ++n_errors;
      EXPECT_EQ(status, VESPER_ERROR_DEVICE) << vesper_last_error();
      EXPECT_THAT(vesper_last_error(), testing::HasSubstr("memory"));
    }
    EXPECT_GT(n_errors, 10u);
    EXPECT_EQ(call(), VESPER_OK);
    EXPECT_EQ(text_, text);
  }

  TemporaryFolder folder_;
  const std::string model_path_ = folder_.file("model"), encoder_path_ = folder_.file("bert");
  vesper_language_model_options options_;
  vesper_embedder_options embedding_;
  vesper_generate_options generate_;
  vesper_language_model* model_ = nullptr;
  vesper_embedder* embedder_ = nullptr;
  std::array<char, 4096> text_{};
};

// Not while a model is opened: the files that are read then are JSON, and the destructors of
// nlohmann's allocate (docs/faults.md).
TEST_F(AllocationsOfTextInC, MayFailWhileATextIsGenerated) {
  ASSERT_EQ(open(), VESPER_OK);
  const vesper_prompt prompt{"abc", nullptr, 0, nullptr, 0};
  fail_each(60, [&] {
    vesper_answer* answer = nullptr;
    const vesper_status status = vesper_generate(model_, &prompt, &generate_, &answer);
    return keep(answer, status);
  });
}

TEST_F(AllocationsOfTextInC, MayFailWhileTextsAreEmbedded) {
  ASSERT_EQ(open_embedder(), VESPER_OK);
  const char* texts[] = {"the cat", "a plan"};
  std::vector<float> vectors(2 * vesper_embedder_dimensions(embedder_));
  fail_each(60, [&] {
    return vesper_embed(embedder_, texts, 2, nullptr, nullptr, vectors.data(), nullptr);
  });
}

}  // namespace
}  // namespace vesper::text_allocation_test
