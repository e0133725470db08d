// Time to compile JSON Schemas, from the text to the automaton: `schema_bench` prints the fastest
// of 20 runs of each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "llm/grammar/compiled_grammar.h"
#include "llm/grammar/json_schema/json_schema.h"

namespace {

// Properties of many kinds, in turn.
std::string object_schema(int n_properties, const std::string& more) {
  const std::vector<std::string> kinds = {
      R"({"type":"string"})",
      R"({"type":"integer","minimum":0,"maximum":100000})",
      R"({"type":"number"})",
      R"({"type":"boolean"})",
      R"({"enum":["red","green","blue"]})",
      R"({"type":"array","items":{"type":"string"}})",
      R"({"type":"string","format":"date-time"})",
      R"({"type":["string","null"],"maxLength":100})",
      R"({"type":"string","pattern":"^[A-Z]{2}-\\d{4}$"})",
      R"({"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x"]})"};
  std::string properties, required;
  for (int i = 0; i < n_properties; ++i) {
    const std::string name = "\"property_" + std::to_string(i * 7919 % 10007) + "\"";
    properties += (i ? "," : "") + name + ":" + kinds[size_t(i) % kinds.size()];
    if (i % 2 == 0) required += (i ? "," : "") + name;
  }
  return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]" +
         more + "}";
}

std::string enum_schema(int n) {
  std::string values;
  for (int i = 0; i < n; ++i)
    values += (i ? "," : "") + ("\"value " + std::to_string(i * 7919 % 100003)) + "\"";
  return R"({"enum":[)" + values + "]}";
}

}  // namespace

int main() {
  const std::vector<std::pair<const char*, std::string>> schemas = {
      {"100 properties", object_schema(100, "")},
      {"100 properties, no others", object_schema(100, R"(,"additionalProperties":false)")},
      {"100 properties and others",
       object_schema(100, R"(,"additionalProperties":{"type":"string"})")},
      {"1000 properties", object_schema(1000, "")},
      {"enum of 1000 texts", enum_schema(1000)},
      {"{}", "{}"},
  };
  for (const auto& [name, schema] : schemas) {
    double best = 1e9;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const vesper::CompiledGrammar grammar(vesper::grammar_of_json_schema(schema));
      const std::chrono::duration<double, std::milli> time =
          std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count());
    }
    std::printf("%-28s %8.2f ms\n", name, best);
  }
  return 0;
}
