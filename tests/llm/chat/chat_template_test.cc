// Chat templates. Expected texts are from Python's jinja2 3.1.6, configured like Hugging Face's
// transformers (tests/reference/render_templates.py). The templates are our own and use the
// constructs of published ones of common families.
#include "llm/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/mapped_file.h"

namespace vesper::chat_template_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

// Times are UTC, as for the reference.
class Utc : public testing::Environment {
 public:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};
const auto* const kUtc = testing::AddGlobalTestEnvironment(new Utc);

std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  return ChatTemplate(source).render(variables, std::time_t{1'700'000'000});
}

std::string error_of(const std::string& source, const Json& variables = Json::object()) {
  try {
    rendered(source, variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, RendersAsJinja2) {
  const std::vector<uint8_t> bytes = [] {
    const MappedFile file(CHAT_TEMPLATES);
    return std::vector<uint8_t>(file.bytes().begin(), file.bytes().end());
  }();
  const Json golden = Json::parse(bytes);
  size_t n_refused = 0;
  for (const Json& entry : golden["cases"]) {
    const auto source = entry["template"].get<std::string>();
    const Json& variables = entry.contains("variables") ? entry["variables"] : golden["variables"];
    const std::time_t now = golden["now"].get<std::time_t>();
    if (entry["text"].is_null()) {
      EXPECT_THROW(ChatTemplate(source).render(variables, now), Error) << source;
      ++n_refused;
      continue;
    }
    try {
      EXPECT_EQ(ChatTemplate(source).render(variables, now), entry["text"].get<std::string>())
          << source << "\n"
          << variables.dump();
    } catch (const Error& error) {
      ADD_FAILURE() << source << ": " << error.what();
    }
  }
  EXPECT_GE(golden["cases"].size(), 130u);
  EXPECT_GE(n_refused, 20u);
}

TEST(ChatTemplate, MayAskForLittleThinking) {
  const ChatTemplate asks("{{ messages[0].content }} {{ enable_thinking }} {{ reasoning_effort }}");
  const std::vector<ChatMessage> messages = {{"user", "a"}};
  EXPECT_EQ(asks.render_prompt(messages, /*thinks=*/true, nullptr), "a  ");
  EXPECT_EQ(asks.render_prompt(messages, /*thinks=*/false, nullptr), "a False low");
}

TEST(ChatTemplate, StripsTheLineOfATagAndItsLineBreak) {
  EXPECT_EQ(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(rendered("a  {{- ' x ' -}}  b"), "a x b");
  EXPECT_EQ(rendered("a\n{%+ if true %}x{% endif %}"), "a\nx");
  EXPECT_EQ(rendered("  {# gone #}\nx"), "x");
}

TEST(ChatTemplate, KeepsLoopVariablesInTheLoop) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }} "
                     "{% endfor %}{{ x }}"),
            "2 3 1");
  EXPECT_EQ(rendered("{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}"
                     "{% endfor %}{{ ns.x }}"),
            "4");
}

TEST(ChatTemplate, ReportsRaiseException) {
  const std::string source =
      "{% if messages | length == 0 %}{{ raise_exception('Say more!') }}{% endif %}";
  try {
    rendered(source, {{"messages", Json::array()}});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("Say more!"));
  }
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
  EXPECT_THAT(error_of("a\nb {{ x.y }}"), HasSubstr("chat template: line 2: 'x' is undefined"));
  EXPECT_THAT(error_of("a\n\n{% unknown %}"), HasSubstr("line 3"));
  EXPECT_THAT(error_of("{{ 'a' | nothing }}"), HasSubstr("\"nothing\""));
}

TEST(ChatTemplate, HasErrorsOfOneLine) {
  EXPECT_THAT(error_of("{{ 1 | round(1, 'a\\nb') }}"), HasSubstr("a\\nb"));
  EXPECT_THAT(error_of("{{ raise_exception('a\\nb') }}"), HasSubstr("a\\nb"));
}

TEST(ChatTemplate, LimitsWork) {
  for (const char* source : {
           "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
           "{{ 'x' * 999999999999 }}",
           "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x * 8 "
           "%}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% "
           "endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% "
           "endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{{ range(10 ** 12) }}",
           "{{ [1] * 99999999999 }}",
           "{{ 'x' | center(99999999999) }}",
           "{{ '%999999999d' % 5 * 99999999 }}",
       }) {
    EXPECT_THAT(error_of(source), HasSubstr("expected")) << source;
  }
}

TEST(ChatTemplate, LimitsNesting) {
  const auto repeated = [](const std::string& part, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += part;
    return text;
  };
  for (const std::string& source :
       {"{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}",
        "{{ 1" + repeated("+1", 100'000) + " }}", "{{ x" + repeated(".y", 100'000) + " }}",
        "{{ " + repeated("not ", 100'000) + "1 }}", "{{ " + repeated("-", 100'000) + "1 }}",
        "{{ 1" + repeated("|abs", 100'000) + " }}",
        repeated("{% if true %}", 100'000) + repeated("{% endif %}", 100'000),
        "{{ 1" + repeated(" if 1 else 1", 100'000) + " }}",
        "{% set x = 1 %}" + repeated("{% set x = [x].index %}", 100'000)}) {
    EXPECT_THAT(error_of(source), HasSubstr("expected")) << source.substr(0, 60);
  }
}

}  // namespace
}  // namespace vesper::chat_template_test
