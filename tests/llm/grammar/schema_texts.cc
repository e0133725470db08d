// Answers questions about JSON Schemas, one per line of stdin, for
// tests/reference/check_json_schema.py:
//   {"schema": ..., "texts": ["..."]}      -> {"accepted": [true]}
//   {"schema": ..., "walks": 3, "seed": 1} -> {"texts": ["..."]}, random texts of the grammar
// or {"error": "..."}. Each answer has the milliseconds that it took to compile the schema.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "error/error.h"
#include "llm/grammar/json_schema/json_schema.h"
#include "tests/llm/grammar/grammar_texts.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr size_t kLongText = 200, kLongestText = 4000;  // bytes of a walk

// Empty if it became too long.
std::string random_text(GrammarMatcher& matcher, std::mt19937& random) {
  const TokenVocabulary& vocabulary = matcher.masks().vocabulary();
  std::vector<uint32_t> mask(matcher.masks().n_words());
  matcher.reset();
  std::string text;
  while (text.size() < kLongestText) {
    matcher.fill_mask(mask);
    std::vector<int32_t> allowed;
    const auto is_allowed = [&](int32_t id) { return mask[size_t(id) / 32] >> (id % 32) & 1; };
    for (int32_t id = 0; id < int32_t(vocabulary.n_tokens()); ++id) {
      // Of characters beyond ASCII, few: else a string has hardly another one.
      if (is_allowed(id) && (id < 129 || id > 256 || random() % 16 == 0)) allowed.push_back(id);
    }
    for (int32_t id = 129; allowed.empty() && id <= 256; ++id)
      if (is_allowed(id)) allowed.push_back(id);
    if (allowed.empty()) throw Error(ErrorKind::kInternal, "no token may follow " + text);
    int32_t token = allowed[random() % allowed.size()];
    const bool is_short = text.size() < kLongText && random() % 12 != 0;
    for (const char closing : {'}', ']', '"'}) {
      if (!is_short && is_allowed(1 + closing)) token = 1 + closing;
    }
    if (is_allowed(0) && (!is_short || random() % 4 == 0)) token = 0;
    if (token == 0) return text;
    matcher.accept(token);
    text += vocabulary.bytes_of(token);
  }
  return {};
}

json answer(const json& question) {
  json out;
  try {
    const auto start = std::chrono::steady_clock::now();
    const Grammar grammar = grammar_of_json_schema(
        question["schema"].dump(), {.undescribed_values = question.value("undescribed", true)});
    GrammarTexts texts(grammar);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    out["ms"] = time.count();
    for (const json& text : question.value("texts", json::array()))
      out["accepted"].push_back(texts.accepts(text.get<std::string>()));
    std::mt19937 random(question.value("seed", 0u));
    for (int i = 0; i < question.value("walks", 0); ++i) {
      out["texts"].push_back(random_text(texts.matcher(), random));
    }
  } catch (const Error& error) {
    out["error"] = error.what();
  }
  return out;
}

}  // namespace
}  // namespace vesper

int main() {
  std::string line;
  while (std::getline(std::cin, line))
    std::cout << vesper::answer(nlohmann::json::parse(line)).dump() << std::endl;
  return 0;
}
