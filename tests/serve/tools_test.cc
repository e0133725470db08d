// The forms in which models write calls of functions.
#include "serve/api/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vesper::tools_test {
namespace {

Tools two_functions() {
  Tools tools;
  tools.list = Json::parse(R"([{"type": "function", "function": {"name": "f"}},
                               {"type": "function", "function": {"name": "g"}}])");
  return tools;
}

// "NAME(ARGUMENTS)" for each call, then what is left of the text.
std::vector<std::string> parsed(std::string text) {
  std::vector<std::string> result;
  for (const ToolCall& call : parse_tool_calls(text, two_functions())) {
    result.push_back(call.name + "(" + call.arguments + ")");
  }
  result.push_back(text);
  return result;
}

using testing::ElementsAre;

TEST(ToolCalls, AreReadBetweenTags) {
  EXPECT_THAT(parsed(R"(Let me see.
<tool_call>
{"name": "f", "arguments": {"a": 1}}
</tool_call>
<tool_call>{"name": "g", "arguments": "{}"}</tool_call>)"),
              ElementsAre(R"(f({"a":1}))", "g({})", "Let me see."));
  // A grammar ends the answer before the tag.
  EXPECT_THAT(parsed(R"(<tool_call>{"name": "f", "arguments": {}})"), ElementsAre("f({})", ""));
}

TEST(ToolCalls, AreReadInTheFormsOfMistralAndLlama) {
  EXPECT_THAT(parsed(R"([TOOL_CALLS][{"name": "f", "arguments": {"a": [1]}}, {"name": "g"}])"),
              ElementsAre(R"(f({"a":[1]}))", "g({})", ""));
  EXPECT_THAT(parsed(R"(<|python_tag|>{"name": "g", "parameters": {"b": null}})"),
              ElementsAre(R"(g({"b":null}))", ""));
  EXPECT_THAT(parsed(R"( {"name": "f", "parameters": {}} )"), ElementsAre("f({})", ""));
  EXPECT_THAT(parsed(R"({"name": "f", "parameters": {"a": ";"}}; {"name": "g", "parameters": {}})"),
              ElementsAre(R"(f({"a":";"}))", "g({})", ""));
  EXPECT_THAT(parsed(R"(Let me see.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{})"),
              ElementsAre(R"(f({"a":1}))", "g({})", "Let me see."));
  EXPECT_THAT(parsed(R"([TOOL_CALLS]f[CALL_ID]x1[ARGS]{"a": 1})"),
              ElementsAre(R"(f({"a":1}))", ""));
}

// Control tokens have no text.
TEST(ToolCalls, AreReadWithoutTheirMarks) {
  EXPECT_THAT(parsed(R"([{"name": "f", "arguments": {"a": [1]}}, {"name": "g"}])"),
              ElementsAre(R"(f({"a":[1]}))", "g({})", ""));
  EXPECT_THAT(parsed(R"(f{"a": "]}"}g{})"), ElementsAre(R"(f({"a":"]}"}))", "g({})", ""));
}

TEST(ToolCalls, OtherTextsStayAsTheyAre) {
  for (const char* text :
       {"words", R"({"name": "unknown", "arguments": {}})", "[1, 2]",
        R"(<tool_call>{"name": "f", )", R"(Use {"name": "f"} here)", "",
        R"({"name": "f"} and more)", R"([{"name": "f"}, {"name": "unknown"}])", "f", "f[ARGS]",
        "f[ARGS]1", "f[CALL_ID]", "<|python_tag|>print(1)", "[TOOL_CALLS]"}) {
    EXPECT_THAT(parsed(text), ElementsAre(text));
  }
  std::string text = R"({"name": "f"})";
  EXPECT_TRUE(parse_tool_calls(text, Tools{}).empty());  // no tools were given
}

}  // namespace
}  // namespace vesper::tools_test
