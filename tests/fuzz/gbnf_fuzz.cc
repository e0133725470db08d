// Grammars in GBNF, and texts that they admit: what a mask allows is accepted.
#include <memory>

#include "llm/grammar/gbnf.h"
#include "llm/grammar/matching/grammar_matcher.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

// All bytes, two pieces of more than one, and the end.
std::shared_ptr<const TokenVocabulary> fuzzed_vocabulary() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.insert(texts.end(), {" a", "\"\xc3", ""});
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const int32_t stop = 258;
  return std::make_shared<const TokenVocabulary>(views, std::span(&stop, 1), true);
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "root ::= \"a\"\n",
      "# lines\nroot ::= (item \",\" ws)* item?\nitem ::= [a-z\\x41-\\u00e9]{2,5} | \"\\\"\" .+ "
      "\"\\\"\"\n"
      "ws ::= [ \\t]*\n",
      "root ::= \"{\" pair (\",\" pair){0,300} \"}\" | list\npair ::= [^\\n\"]{1,400} \":\" root\n"
      "list ::= \"[\" (root | \"\") \"]\"\n",
      "root ::= x y | x\n  | \"\\U0001F600\"{3}\nx ::= y*\ny ::= (\"é\"? \"日\")+\n",
  };
}

void use(Bytes input) {
  static const auto vocabulary = fuzzed_vocabulary();
  GrammarMatcher matcher(std::make_shared<const GrammarMasks>(
      CompiledGrammar(parse_gbnf(text_of(input))), vocabulary));
  std::vector<uint32_t> mask(matcher.masks().n_words());
  for (uint32_t step = 0; step < 20 && matcher.fill_mask(mask); ++step) {
    matcher.forced_bytes(16);
    const uint32_t n = vocabulary->n_tokens();
    uint32_t id = step * 67 % n;
    while (!(mask[id / 32] >> id % 32 & 1)) id = (id + 1) % n;
    if (!matcher.accept(static_cast<int32_t>(id))) __builtin_trap();
  }
}

}  // namespace vesper::fuzz
