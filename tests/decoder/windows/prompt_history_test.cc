// The prompts of windows, with the tokenizer of a tiny Whisper of random weights.
#include "decoder/windows/prompt_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "decoder/windows/window_decoder.h"
#include "llm/devices/open_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::prompt_history_test {
namespace {

using ::testing::IsEmpty;
using Tokens = std::vector<int32_t>;

constexpr uint32_t kTextContext = 40;  // a prompt has up to 19 tokens after the first

class PromptOfWindows : public testing::Test {
 protected:
  PromptOfWindows() {
    model_ = std::make_unique<WhisperModel>(folder_.path(), open_device("cpu", {.n_threads = 1}),
                                            Compute::kF32);
    settings_.initial_prompt = "ab";
    settings_.hotwords = "";
  }

  PromptHistory history() const {
    return PromptHistory(settings_, model_->tokenizer(), model_->tokens(), kTextContext);
  }
  Tokens phrase(const std::string& text) const {
    return tokens_of_phrase(model_->tokenizer(), text);
  }
  Tokens after_prev(Tokens tokens) const {
    tokens.insert(tokens.begin(), model_->tokens().prev);
    return tokens;
  }
  static Tokens said(int32_t n) {
    Tokens tokens;
    for (int32_t i = 0; i < n; ++i) tokens.push_back(100 + i);
    return tokens;
  }
  static Tokens joined(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const test::ModelFolder folder_{test::TinyWhisper().ctranslate2(DType::kF32)};
  std::unique_ptr<WhisperModel> model_;
  DecodingSettings settings_ = greedy_settings();
};

TEST_F(PromptOfWindows, IsEmptyWithoutText) {
  settings_.initial_prompt.clear();
  EXPECT_THAT(history().before_next(), IsEmpty());
}

TEST_F(PromptOfWindows, StartsWithTheInitialPrompt) {
  EXPECT_EQ(history().before_next(), after_prev(phrase("ab")));
}

TEST_F(PromptOfWindows, IsTheLastTextThatFits) {
  PromptHistory prompts = history();
  prompts.add(said(30));
  const Tokens all = said(30);
  EXPECT_EQ(prompts.before_next(), after_prev({all.end() - 19, all.end()}));
}

TEST_F(PromptOfWindows, KeepsTheInitialPromptOnlyIfCarried) {
  const Tokens all = said(30), initial = phrase("ab");
  for (const bool carry : {false, true}) {
    settings_.carry_initial_prompt = carry;
    PromptHistory prompts = history();
    prompts.add(all);
    const auto room = static_cast<std::ptrdiff_t>(19 - (carry ? initial.size() : 0));
    const Tokens last{all.end() - room, all.end()};
    EXPECT_EQ(prompts.before_next(), after_prev(carry ? joined(initial, last) : last)) << carry;
    prompts.forget();
    EXPECT_EQ(prompts.before_next(), carry ? after_prev(initial) : Tokens{}) << carry;
  }
}

TEST_F(PromptOfWindows, HasACarriedInitialPromptOnce) {
  settings_.carry_initial_prompt = true;
  EXPECT_EQ(history().before_next(), after_prev(phrase("ab")));
  PromptHistory prompts = history();
  prompts.add(said(2));
  EXPECT_EQ(prompts.before_next(), after_prev(joined(phrase("ab"), said(2))));
}

// openai-whisper, transcribe.py: text decoded above a temperature of 0.5 is a bad prompt.
TEST_F(PromptOfWindows, ForgetsTextOfAHighTemperature) {
  settings_.initial_prompt.clear();
  const WindowDecoder decoder(*model_, settings_);
  for (const double temperature : {0.5, 0.6}) {
    RecordingState state = decoder.begin(3000);
    WindowCursor cursor = decoder.cursor(state, 0, 3000);
    WindowResult result;
    const int32_t begin = model_->tokens().timestamp_begin;
    result.decoded.tokens = {begin, 100, 101, begin + 50};
    result.temperature = temperature;
    EXPECT_EQ(decoder.advance(state, cursor, result, 0).size(), 1u);
    EXPECT_EQ(cursor.history.before_next(),
              temperature > 0.5 ? Tokens{} : after_prev(result.decoded.tokens));
  }
}

TEST_F(PromptOfWindows, StartsWithHotwords) {
  settings_.hotwords = "cd";
  PromptHistory prompts = history();
  prompts.forget();
  EXPECT_EQ(prompts.before_next(), after_prev(phrase("cd")));
  prompts.add({{7, 8}});
  EXPECT_EQ(prompts.before_next(), after_prev(joined(phrase("cd"), {7, 8})));
}

}  // namespace
}  // namespace vesper::prompt_history_test
