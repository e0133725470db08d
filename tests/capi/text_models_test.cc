// Real models through the C API: the results of the programs.
#include <gtest/gtest.h>
#include <vesper.h>

#include <string>
#include <vector>

#include "tests/child_process.h"
#include "tests/fetched_model.h"

namespace vesper::capi_text_models_test {
namespace {

std::string printed(const std::vector<std::string>& command) {
  const ChildResult result = run_child(command, {});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(CTextModels, AnswersAsTheProgram) {
  const std::string path = fetched_model("smollm2-135m").string();
  vesper_language_model_options options;
  vesper_language_model_options_init(&options, sizeof options);
  options.load.device = "cpu";
  vesper_language_model* model = nullptr;
  ASSERT_EQ(vesper_language_model_open(path.c_str(), &options, &model), VESPER_OK)
      << vesper_last_error();
  vesper_generate_options generate;
  vesper_generate_options_init(&generate, sizeof generate);
  generate.max_tokens = 40;
  generate.no_reuse = 1;
  generate.seed = 1;
  for (const char* question : {"What is the capital of France?", "Name three colours.", "Grüße!"}) {
    const vesper_message message = {"user", question};
    const vesper_prompt prompt{nullptr, &message, 1, nullptr, 0};
    vesper_answer* answer = nullptr;
    ASSERT_EQ(vesper_generate(model, &prompt, &generate, &answer), VESPER_OK);
    std::string text = vesper_answer_text(answer);
    if (!text.ends_with('\n')) text += '\n';  // as the program
    EXPECT_EQ(
        printed({GENERATE, "-m", path, "--device", "cpu", "-n", "40", "--seed", "1", question}),
        text);
    vesper_answer_free(answer);
  }
  vesper_language_model_close(model);
}

TEST(CTextModels, EmbedsAsTheProgram) {
  const std::string path = fetched_model("all-minilm-l6-v2").string();
  vesper_embedder_options options;
  vesper_embedder_options_init(&options, sizeof options);
  options.load.device = "cpu";
  vesper_embedder* embedder = nullptr;
  ASSERT_EQ(vesper_embedder_open(path.c_str(), &options, &embedder), VESPER_OK)
      << vesper_last_error();
  const char* texts[] = {"a sentence", "another", "Grüße aus Bonn"};
  std::vector<float> vectors(3 * vesper_embedder_dimensions(embedder));
  ASSERT_EQ(vesper_embed(embedder, texts, 3, nullptr, nullptr, vectors.data(), nullptr), VESPER_OK);
  vesper_embedder_close(embedder);
  EXPECT_EQ(
      printed({EMBED, "-m", path, "--device", "cpu", "-f", "f32", texts[0], texts[1], texts[2]}),
      std::string(reinterpret_cast<const char*>(vectors.data()), vectors.size() * 4));
}

TEST(CTextModels, TokenizesTextOfEveryModelBothWays) {
  for (const char* name : {"smollm2-135m", "tiny.en", "base"}) {
    SCOPED_TRACE(name);
    vesper_tokenizer* tokenizer = nullptr;
    ASSERT_EQ(vesper_tokenizer_open(fetched_model(name).c_str(), nullptr, &tokenizer), VESPER_OK);
    const std::string text = " Grüße, world: 42!";
    int32_t* tokens = nullptr;
    size_t n = 0;
    char* decoded = nullptr;
    ASSERT_EQ(vesper_tokenizer_encode(tokenizer, text.data(), text.size(), 0, 0, &tokens, &n),
              VESPER_OK);
    ASSERT_EQ(vesper_tokenizer_decode(tokenizer, tokens, n, 0, &decoded), VESPER_OK);
    EXPECT_EQ(decoded, text);
    vesper_string_free(decoded);
    vesper_tokens_free(tokens);
    vesper_tokenizer_close(tokenizer);
  }
}

}  // namespace
}  // namespace vesper::capi_text_models_test
