// Which answers count as loops. The tokenizers of tests/llm/tokenizer have small vocabularies, so
// that texts have more tokens than with a real model, and rows are longer.
#include "session/text/answer_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "llm/tokenizer/files/open_text_tokenizer.h"

namespace vesper::answer_loop_test {
namespace {

std::string times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

class AnswerLoop : public testing::Test {
 protected:
  // The first token after which the text is a loop; 0: none.
  size_t loop_of(const std::string& text) const {
    const auto ids = tokenizer_->encode(text, false, false);
    for (size_t n = 1; n <= ids.size(); ++n) {
      if (answer_loop(std::span(ids).first(n), tokenizer_.get()).period > 0) return n;
    }
    return 0;
  }

  const std::unique_ptr<TextTokenizer> tokenizer_ =
      open_text_tokenizer(std::filesystem::path(TOKENIZER_FOLDER) / "qwen2");
};

TEST_F(AnswerLoop, IsFoundInWordsThatRepeat) {
  const std::string capital = "The capital of France is ";
  EXPECT_GE(loop_of(capital + times(200, "the capital of the ")), kWordLoopTokens);
  EXPECT_GE(loop_of("Paris. " + times(60, "I'm happy to help, and I am ready! ")), kWordLoopTokens);
  EXPECT_GT(loop_of(times(100, "Париж - столица. ")), 0u);
  EXPECT_GT(loop_of(times(100, "パリは首都です。")), 0u);
}

TEST_F(AnswerLoop, IsFoundInRowsAfterFarMore) {
  EXPECT_GE(loop_of("[" + times(600, "{\"a\": 0}, ")), kRowLoopTokens);
  EXPECT_GE(loop_of(times(600, "| 0 | 1 |\n")), kRowLoopTokens);
  EXPECT_GE(loop_of(times(2000, "0")), kRowLoopTokens);
  EXPECT_GE(loop_of(times(2000, "\n")), kRowLoopTokens);
}

TEST_F(AnswerLoop, IsNotARefrain) {
  EXPECT_EQ(loop_of(times(7, "Row, row, row your boat, gently down the stream. ")), 0u);
  std::string song;
  for (const char* verse :
       {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}) {
    song += std::string("There were ") + verse + " in the bed, and the little one said: \n" +
            times(4, "Roll over! ") + "\n";
  }
  EXPECT_EQ(loop_of(times(3, song)), 0u);
  EXPECT_EQ(loop_of("And he laughed: " + times(50, "ha ")), 0u);
}

TEST_F(AnswerLoop, IsNotAListTableOrCode) {
  std::string list, table = "| n | square |\n|---|---|\n", counted;
  for (int i = 1; i <= 300; ++i) {
    list += std::to_string(i) + ". I will not talk in class.\n";
    table += "| " + std::to_string(i) + " | " + std::to_string(i * i) + " |\n";
    counted += "case " + std::to_string(i) + ": return 0;\n";
  }
  EXPECT_EQ(loop_of(list), 0u);
  EXPECT_EQ(loop_of(table), 0u);
  EXPECT_EQ(loop_of(counted), 0u);
  EXPECT_EQ(loop_of("int main() {\n" + times(60, "  x += 1;\n") + "}\n"), 0u);
  EXPECT_EQ(loop_of(times(60, "- [ ] item\n")), 0u);
}

TEST_F(AnswerLoop, IsNotAJsonArrayOfEqualRows) {
  EXPECT_EQ(loop_of("[" + times(40, "{\"n\": 0, \"ok\": true},\n") + "]"), 0u);
  EXPECT_EQ(loop_of("[" + times(100, "0, ") + "0]"), 0u);
}

TEST_F(AnswerLoop, NeedsManyTokensWithoutATokenizer) {
  const std::vector<int32_t> ids(kRowLoopTokens, 7);
  EXPECT_EQ(answer_loop(ids, nullptr).length, kRowLoopTokens);
  EXPECT_EQ(answer_loop(std::span(ids).first(kRowLoopTokens - 1), nullptr).period, 0u);
}

}  // namespace
}  // namespace vesper::answer_loop_test
