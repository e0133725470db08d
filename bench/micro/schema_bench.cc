// Time to compile JSON Schemas, from the text to the automaton: `schema_bench` prints the fastest
// of 20 runs of each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "llm/grammar/json_schema/json_schema.h"
#include "llm/grammar/matching/grammar_matcher.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"

namespace {

struct SchemaSample {
  const char* name;
  std::string schema, text;  // a text that matches
};

struct Kind {
  const char *schema, *value;
};
const std::vector<Kind> kKinds = {
    {R"({"type":"string"})", R"("A text of \"several\" words, as one finds it in a field.")"},
    {R"({"type":"integer","minimum":0,"maximum":100000})", "31415"},
    {R"({"type":"number"})", "-27.25"},
    {R"({"type":"boolean"})", "true"},
    {R"({"enum":["red","green","blue"]})", R"("green")"},
    {R"({"type":"array","items":{"type":"string"}})", R"(["Zürich", "Genève"])"},
    {R"({"type":"string","format":"date-time"})", R"("2026-11-24T10:15:00Z")"},
    {R"({"type":["string","null"],"maxLength":100})", R"("at most a hundred characters")"},
    {R"({"type":"string","pattern":"^[A-Z]{2}-\\d{4}$"})", R"("CH-8001")"},
    {R"({"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x"]})",
     R"({"x": 1.5, "y": 2})"}};

// Properties of all kinds in turn, every other one required.
SchemaSample object_sample(const char* name, int n_properties, const std::string& more) {
  std::string properties, required, text;
  for (int i = 0; i < n_properties; ++i) {
    const Kind& kind = kKinds[size_t(i) % kKinds.size()];
    const std::string property = "\"property_" + std::to_string(i * 7919 % 10007) + "\"";
    properties += (i ? "," : "") + property + ":" + kind.schema;
    text += (i ? ", " : "") + property + ": " + kind.value;
    if (i % 2 == 0) required += (i ? "," : "") + property;
  }
  return {name,
          R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]" +
              more + "}",
          "{" + text + "}"};
}

SchemaSample enum_sample(const char* name, int n) {
  std::string values;
  for (int i = 0; i < n; ++i)
    values += (i ? "," : "") + ("\"value " + std::to_string(i * 7919 % 100003)) + "\"";
  return {name, R"({"enum":[)" + values + "]}", "\"value 7919\""};
}

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void print_compile_time(const SchemaSample& sample) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    const vesper::CompiledGrammar grammar(vesper::grammar_of_json_schema(sample.schema));
    best = std::min(best, milliseconds_since(start));
  }
  std::printf("%-28s %8.2f ms\n", sample.name, best);
}

// The masks of all tokens of the sample, when no part of them is known and when all parts are.
void print_mask_times(const SchemaSample& sample, const vesper::TextTokenizer& tokenizer,
                      const std::shared_ptr<const vesper::TokenVocabulary>& vocabulary) {
  const auto masks = std::make_shared<const vesper::GrammarMasks>(
      vesper::CompiledGrammar(vesper::grammar_of_json_schema(sample.schema)), vocabulary);
  std::printf("%-28s", sample.name);
  for (const char* title : {"new", "known"}) {
    vesper::GrammarMatcher matcher(masks);
    std::vector<uint32_t> mask(masks->n_words());
    double total = 0, slowest = 0;
    const auto tokens = tokenizer.encode(sample.text, false, false);
    for (const int32_t token : tokens) {
      const auto start = Clock::now();
      matcher.fill_mask(mask);
      const double time = milliseconds_since(start);
      total += time;
      slowest = std::max(slowest, time);
      if (!matcher.accept(token)) {
        std::printf(" refused token %d", token);
        break;
      }
    }
    std::printf("  %s: %zu tokens, mean %.3f ms, slowest %.3f ms", title, tokens.size(),
                total / double(tokens.size()), slowest);
  }
  std::printf("\n");
}

}  // namespace

int main(int n_arguments, char** arguments) {
  const std::vector<SchemaSample> samples = {
      object_sample("100 properties", 100, ""),
      object_sample("100 properties, no others", 100, R"(,"additionalProperties":false)"),
      object_sample("100 properties and others", 100,
                    R"(,"additionalProperties":{"type":"string"})"),
      object_sample("1000 properties", 1000, ""),
      enum_sample("enum of 1000 texts", 1000),
      {"{}", "{}", R"({"a": [1, 2.5, {"b": "text"}], "c": null})"},
  };
  for (const SchemaSample& sample : samples) print_compile_time(sample);
  for (int i = 1; i < n_arguments; ++i) {
    const auto tokenizer = vesper::open_text_tokenizer(arguments[i]);
    const auto vocabulary = std::make_shared<const vesper::TokenVocabulary>(*tokenizer);
    std::printf("%s: %u tokens\n", arguments[i], vocabulary->n_tokens());
    for (const SchemaSample& sample : samples) print_mask_times(sample, *tokenizer, vocabulary);
  }
  return 0;
}
