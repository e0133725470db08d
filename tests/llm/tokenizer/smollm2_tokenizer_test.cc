// The tokenizer of SmolLM2-135M-Instruct (as scripts/fetch-models.sh gets it) against llama.cpp
// (Debian sid, 0.7.0+dfsg-2) on the same file: llama-server's /tokenize with and without
// parse_special, and its /apply-template.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"
#include "tests/fetched_model.h"

namespace vesper::smollm2_tokenizer_test {
namespace {

struct Golden {
  const char* text;
  std::vector<int32_t> ids;
  std::vector<int32_t> ids_as_text;  // if different: special tokens encoded as text
};

const std::vector<Golden>& golden() {
  static const std::vector<Golden> texts = {
      {"Hello, world!", {19556, 28, 905, 17}, {}},
      {"  leading and   multiple   spaces", {216, 2899, 284, 256, 2701, 256, 5600}, {}},
      {"tabs\tand\nnewlines\r\n\n\nend  ",
       {100, 7366, 197, 397, 198, 2241, 5110, 201, 1116, 198, 486, 256},
       {}},
      {"na\303\257ve caf\303\251 \342\200\224 \342\200\234quotes\342\200\235 \342\200\246 "
       "\357\254\201",
       {3546, 46494, 37366, 1841, 619, 385, 2346, 573, 5548, 40367},
       {}},
      {"\346\227\245\346\234\254\350\252\236\343\201\256\343\203\206\343\202\255\343\202\271\343"
       "\203\210\343\201\250\344\270\255\346\226\207\345\255\227\347\254\246",
       {23274, 115, 40993, 179, 120,  248, 26453, 11100, 224,   10391, 251,
        10391, 134, 11100, 226, 7365, 118, 28589, 29184, 36518, 40562, 116},
       {}},
      {"\360\237\230\200\360\237\221\251\342\200\215\360\237\221\251\342\200\215\360\237\221\247"
       "\342\200\215\360\237\221\246\360\237\207\253\360\237\207\267 emoji",
       {10813, 242, 218, 10813, 235, 119, 321,   231, 10813, 235,   119, 321, 231, 10813, 235,
        117,   321, 231, 10813, 235, 116, 10813, 225, 121,   10813, 225, 132, 649, 33777},
       {}},
      {"1234567890 3.14159 1,000,000 v2.0.1",
       {33, 34,  35, 36, 37, 38, 39, 40, 41, 32, 216, 35,  30, 33, 36, 33, 37,
        41, 216, 33, 28, 32, 32, 32, 28, 32, 32, 32,  386, 34, 30, 32, 30, 33},
       {}},
      {"def f(x):\n    return x**2 + 1  # comment",
       {1604, 275, 24, 104, 727, 472, 1003, 1792, 828, 34, 1232, 216, 33, 216, 907, 5189},
       {}},
      {"I'm you're we've they'll it's don't I'D",
       {57, 5248, 346, 2316, 392, 3543, 502, 3060, 357, 506, 1326, 982, 339, 23, 52},
       {}},
      {"\320\227\320\264\321\200\320\260\320\262\321\201\321\202\320\262\321\203\320\271\321\202"
       "\320\265 \331\205\330\261\330\255\330\250\330\247 \327\251\327\234\327\225\327\235 "
       "\340\244\250\340\244\256\340\244\270\340\245\215\340\244\244\340\245\207",
       {155,  241,   19263, 23728, 16464, 24674, 16464, 14714, 24958, 8355,
        6643, 36395, 20602, 44626, 31462, 10805, 12960, 119,   31838, 23970,
        162,  247,   12335, 118,   35090, 38770, 16525, 26293, 30581},
       {}},
      {"<|im_start|>user\nhi<|im_end|>\n",
       {1, 4093, 198, 6004, 2, 198},
       {44, 108, 306, 79, 3738, 108, 46, 4093, 198, 6004, 44, 108, 306, 79, 486, 108, 46, 198}},
      {"a\314\200\342\200\213\357\273\277\302\240b",
       {81, 151, 218, 321, 229, 186, 136, 140, 15442, 82},
       {}},
      {"https://example.com/a?b=c&d=%20#x",
       {4687, 1742, 7434, 30, 824, 31, 81, 47, 82, 45, 83, 22, 84, 23446, 34, 32, 19, 104},
       {}},
      {"", {}, {}},
  };
  return texts;
}

class SmolLm2Tokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const auto weights = open_weights(fetched_model("smollm2-135m"));
    tokenizer = open_text_tokenizer(*weights);
    chat_template = chat_template_source(*weights);
  }

  std::unique_ptr<TextTokenizer> tokenizer;
  std::optional<std::string> chat_template;
};

TEST_F(SmolLm2Tokenizer, GivesTheIdsOfLlamaCpp) {
  EXPECT_EQ(tokenizer->kind(), "byte-level BPE, smollm");
  EXPECT_EQ(tokenizer->n_vocab(), 49152u);
  for (const Golden& entry : golden()) {
    EXPECT_EQ(tokenizer->encode(entry.text, true, true), entry.ids) << entry.text;
    EXPECT_EQ(tokenizer->encode(entry.text, false, true),
              entry.ids_as_text.empty() ? entry.ids : entry.ids_as_text)
        << entry.text;
    EXPECT_EQ(tokenizer->decode(entry.ids, true), entry.text);
  }
}

// The vocabulary has no token for a byte that never occurs in UTF-8.
TEST_F(SmolLm2Tokenizer, ReplacesInvalidUtf8) {
  EXPECT_FALSE(tokenizer->encode("\xff", false, false).empty());
  EXPECT_EQ(tokenizer->encode("\xff", false, false), tokenizer->encode("\ufffd", false, false));
}

TEST_F(SmolLm2Tokenizer, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->is_end(0));  // <|endoftext|>
  EXPECT_TRUE(tokenizer->is_end(2));  // <|im_end|>
  EXPECT_FALSE(tokenizer->is_end(1));
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(504));
  EXPECT_EQ(tokenizer->find("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer->bytes_of(504), "The");
  EXPECT_EQ(tokenizer->bytes_of(3575), " capital");
}

TEST_F(SmolLm2Tokenizer, HasAChatTemplateThatRendersAsInLlamaCpp) {
  ASSERT_TRUE(chat_template.has_value());
  const ChatTemplate chat(*chat_template);
  std::vector<ChatMessage> messages = {{"user", "Hi, who are you?"},
                                       {"assistant", "I am a helper."},
                                       {"user", "What is the capital of Italy?"}};
  const std::string conversation =
      "<|im_start|>user\nHi, who are you?<|im_end|>\n"
      "<|im_start|>assistant\nI am a helper.<|im_end|>\n"
      "<|im_start|>user\nWhat is the capital of Italy?<|im_end|>\n"
      "<|im_start|>assistant\n";
  EXPECT_EQ(chat.render(messages, true, tokenizer.get()),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n" +
                conversation);
  messages.insert(messages.begin(), {"system", "Be terse."});
  EXPECT_EQ(chat.render(messages, true, tokenizer.get()),
            "<|im_start|>system\nBe terse.<|im_end|>\n" + conversation);
}

}  // namespace
}  // namespace vesper::smollm2_tokenizer_test
