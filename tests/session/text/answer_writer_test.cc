// Tokens to text: stop texts, tokens of the text, thinking.
#include "session/text/answer_writer.h"

#include <gtest/gtest.h>

#include "session/text/channel_text.h"
#include "session/text/thinking_text.h"

namespace vesper::answer_writer_test {
namespace {

TEST(StopTexts, HoldBackPossibleBeginnings) {
  StopTexts stops({"END", "##"});
  EXPECT_EQ(stops.push("text E"), "text ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("TRY #"), "ENTRY ");
  EXPECT_EQ(stops.push("1"), "#1");
  EXPECT_FALSE(stops.is_stopped());
  EXPECT_EQ(stops.push(" EN"), " ");
  EXPECT_EQ(stops.push("D more"), "");
  EXPECT_TRUE(stops.is_stopped());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopTexts, ReleaseTheRestAtTheEnd) {
  StopTexts stops({"\n\n"});
  EXPECT_EQ(stops.push("a\n"), "a");
  EXPECT_EQ(stops.finish(), "\n");
}

TEST(StopTexts, EndBeforeTheFirstOfThem) {
  StopTexts stops({"two", "one"});
  EXPECT_EQ(stops.push("zero one two"), "zero ");
  EXPECT_TRUE(stops.is_stopped());
}

TEST(StopTexts, PassEverythingWithoutStopTexts) {
  StopTexts stops({});
  EXPECT_EQ(stops.push("anything"), "anything");
}

class AnswerTokens : public testing::Test {
 protected:
  // One token each, and the number of tokens in the text after each and at the end.
  std::vector<size_t> in_text_of(const std::vector<std::string>& tokens,
                                 const std::vector<std::string>& stops) {
    TokenizerParts parts;
    parts.bytes = tokens;
    parts.spellings = tokens;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (tokens[i].starts_with('<'))
        parts.added.push_back({.spelling = tokens[i], .id = id, .special = true});
      if (tokens[i] == "<end>") parts.eos = id;
    }
    const TextTokenizer tokenizer(std::move(parts));
    AnswerWriter writer(&tokenizer, stops);
    text_.clear();
    std::vector<size_t> counts;
    for (size_t i = 0; i < tokens.size() && !writer.is_stopped(); ++i) {
      text_ += writer.push(static_cast<int32_t>(i));
      counts.push_back(writer.n_in_text());
    }
    text_ += writer.finish();
    counts.push_back(writer.n_in_text());
    return counts;
  }
  using Counts = std::vector<size_t>;
  std::string text_;
};

TEST_F(AnswerTokens, AreThoseBeforeTheEnd) {
  EXPECT_EQ(in_text_of({"one", " two", "<end>"}, {}), (Counts{1, 2, 2, 2}));
  EXPECT_EQ(in_text_of({"one", " two"}, {}), (Counts{1, 2, 2}));
  EXPECT_EQ(in_text_of({"<end>"}, {}), (Counts{0, 0}));
}

// A token with the last bytes of the text belongs to the text, whatever else it has.
TEST_F(AnswerTokens, AreNotThoseOfAStopText) {
  EXPECT_EQ(in_text_of({"one", "\n", "\n", "two"}, {"\n\n"}), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(text_, "one");
  EXPECT_EQ(in_text_of({"one", "\n", "two", "\n"}, {"\n\n"}), (Counts{1, 1, 3, 3, 4}));
  EXPECT_EQ(text_, "one\ntwo\n");
  EXPECT_EQ(in_text_of({"one", " two"}, {"two"}), (Counts{1, 2, 2}));
  EXPECT_EQ(text_, "one ");
  EXPECT_EQ(in_text_of({"stop", " it"}, {"stop"}), (Counts{0, 0}));
}

TEST_F(AnswerTokens, MayBeHalfACharacterOrNone) {
  EXPECT_EQ(in_text_of({"a", "\xc3", "\xa9", "<tool>", "b", "<tool>"}, {}),
            (Counts{1, 1, 3, 3, 5, 5, 6}));
  EXPECT_EQ(text_, "a\u00e9b");
  EXPECT_EQ(in_text_of({"a", "\xc3"}, {}), (Counts{1, 1, 2}));
  EXPECT_EQ(text_, "a\ufffd");
  EXPECT_EQ(in_text_of({"a", "\xc3", "\xa9"}, {"\u00e9"}), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(text_, "a");
}

TEST_F(AnswerTokens, AreAllTokensWithoutATokenizer) {
  AnswerWriter writer(nullptr, {"stop"});
  EXPECT_EQ(writer.push(1) + writer.push(2), "");
  EXPECT_EQ(writer.n_in_text(), 2u);
  EXPECT_EQ(writer.finish(), "");
  EXPECT_EQ(writer.n_in_text(), 2u);
}

std::string marked(const std::vector<AnswerPart>& parts) {
  std::string text;
  for (const AnswerPart& part : parts) {
    text += part.is_thinking ? "[" + part.text + "]" : part.text;
  }
  return text;
}

TEST(ThinkingText, IsSeparatedFromTheAnswer) {
  const std::string answer = "<think>\nhm < 3\n</think>\n\nYes, a < b.";
  for (size_t step = 1; step <= answer.size(); ++step) {
    ThinkingText thinking;
    std::string inside, outside;
    const auto take = [&](const std::vector<AnswerPart>& parts) {
      for (const AnswerPart& part : parts) (part.is_thinking ? inside : outside) += part.text;
    };
    for (size_t at = 0; at < answer.size(); at += step)
      take(thinking.push(answer.substr(at, step)));
    take(thinking.finish());
    EXPECT_EQ(inside, "hm < 3\n");
    EXPECT_EQ(outside, "Yes, a < b.");
  }
}

TEST(ThinkingText, MayStartInThePrompt) {
  const auto marked_whole = [](const std::string& answer, bool starts_inside) {
    ThinkingText thinking(starts_inside);
    const std::string text = marked(thinking.push(answer));
    return text + marked(thinking.finish());
  };
  EXPECT_EQ(marked_whole("so.\n</think>\n\nIt is.", true), "[so.\n]It is.");
  EXPECT_EQ(marked_whole("It is <thin", false), "It is <thin");
  EXPECT_EQ(marked_whole("<think>and so", false), "[and so]");
  // Space before a first tag is of no answer; before text it is.
  EXPECT_EQ(marked_whole("\n <think>so</think>\n\nIt is.", false), "[so]It is.");
  EXPECT_EQ(marked_whole(" are long", false), " are long");
  EXPECT_EQ(marked_whole(" \n", false), " \n");
}

// Text and thinking, in parts of `n` bytes.
std::pair<std::string, std::string> split_channels(std::string_view text, size_t n,
                                                   bool starts_in_header = true) {
  ChannelText channels(starts_in_header);
  std::string shown, thinking;
  const auto take = [&](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) (part.is_thinking ? thinking : shown) += part.text;
  };
  for (size_t at = 0; at < text.size(); at += n) take(channels.push(text.substr(at, n)));
  take(channels.finish());
  return {shown, thinking};
}

using Split = std::pair<std::string, std::string>;

TEST(ChannelText, SeparatesAnalysisFromTheFinalText) {
  const std::string text =
      "<|channel|>analysis<|message|>Is 2 < 3?<|end|><|start|>assistant<|channel|>final<|message|>"
      "Yes: 2 <| 3.<|return|>";
  // <|return|> ends an answer and is no part of it.
  for (const size_t n : {1, 2, 5, 1000}) {
    EXPECT_EQ(split_channels(text.substr(0, text.rfind("<|return|>")), n),
              (Split{"Yes: 2 <| 3.", "Is 2 < 3?"}));
  }
}

TEST(ChannelText, ShowsTextBeforeACall) {
  EXPECT_EQ(
      split_channels("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
                     "<|channel|>commentary to=functions.find <|constrain|>json<|message|>"
                     "{\"x\": 1}<|call|>",
                     3),
      (Split{"I look.<tool_call>{\"name\": \"find\", \"arguments\": {\"x\": 1}}</tool_call>", ""}));
  EXPECT_EQ(split_channels(" to=functions.a\"b<|channel|>commentary json<|message|>[", 1000),
            (Split{"<tool_call>{\"name\": \"a\\\"b\", \"arguments\": [}</tool_call>", ""}))
      << "cut off";
}

TEST(ChannelText, TakesUnfinishedMessages) {
  EXPECT_EQ(split_channels("<|channel|>analysis<|message|>Hm", 4), (Split{"", "Hm"}));
  EXPECT_EQ(split_channels("<|channel|>final<|message|>Ye<|en", 4), (Split{"Ye<|en", ""}));
  EXPECT_EQ(split_channels("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", 4),
            (Split{"b", "a"}));
  EXPECT_EQ(split_channels("<|channel|>ana", 4), (Split{"", ""}));
}

TEST(ChannelText, ShowsTextWithoutMessages) {
  EXPECT_EQ(split_channels("plain text", 3), (Split{"plain text", ""}));
  EXPECT_EQ(split_channels("goes on<|end|><|start|>assistant<|channel|>analysis<|message|>x", 3,
                           /*starts_in_header=*/false),
            (Split{"goes on", "x"}));
}

}  // namespace
}  // namespace vesper::answer_writer_test
