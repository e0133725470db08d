// Cost of grammars with a vocabulary of 150,000 tokens. `grammar_bench MODEL [FOLDER]` prints the
// time to compile each grammar, and the times to make the mask before each token of a text: for the
// first text, which computes what is kept, and for the same one again. The vocabulary is the one of
// MODEL and pairs of its tokens; a text is cut into the longest tokens. FOLDER: gets the
// vocabulary, the grammars and the tokens of the texts, for compare_grammar.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "error/error.h"
#include "llm/grammar/gbnf.h"
#include "llm/grammar/matching/grammar_matcher.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"

namespace {

using vesper::Error;
using vesper::ErrorKind;
using vesper::TokenVocabulary;
using Clock = std::chrono::steady_clock;

constexpr size_t kTokens = 150'000;

struct Case {
  const char* name;
  const char* grammar;
  std::string text;
};

std::vector<Case> cases() {
  std::string json = "[", sums, list;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    json += (i ? ",\n " : "") +
            (R"({"id": )" + n + R"(, "name": "Person number )" + n + R"(", "born": "19)" + n +
             R"(-05-01", "tags": ["tall", "caf\u00e9", "日本"], "x": -1.5e)" + n + "}");
    sums += "x=(" + n + "+y)*-(z/12345)-(((a)))\n";
    list += "- The point of item " + n + " is that it has quite ordinary words, in a line.\n";
  }
  return {{"JSON", R"gbnf(root   ::= value
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( member ( ws "," ws member )* )? ws "}"
member ::= string ws ":" ws value
array  ::= "[" ws ( value ( ws "," ws value )* )? ws "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]{1,3} )?
ws     ::= [ \t\n\r]*
)gbnf",
           json + "]"},
          {"arithmetic", R"gbnf(root   ::= ( [a-z] "=" sum "\n" )+
sum    ::= term ( [-+] term )*
term   ::= factor ( [*/] factor )*
factor ::= "-" factor | "(" sum ")" | [a-z] | [0-9]+
)gbnf",
           sums},
          {"list of lines", R"gbnf(root ::= ( "- " [^\r\n]{1,200} "\n" ){1,20}
)gbnf",
           list}};
}

// The last token is the stop token.
std::vector<std::string> vocabulary_of(const char* model) {
  const auto tokenizer = vesper::open_text_tokenizer(std::filesystem::path(model));
  std::vector<std::string> texts;
  std::unordered_set<std::string> known;
  const auto add = [&](std::string text) {
    if (!text.empty() && known.insert(text).second) texts.push_back(std::move(text));
  };
  for (int byte = 0; byte < 256; ++byte) add({static_cast<char>(byte)});
  for (uint32_t id = 0; id < tokenizer->n_vocab(); ++id) {
    if (tokenizer->is_special(static_cast<int32_t>(id))) continue;
    add(std::string(tokenizer->bytes_of(static_cast<int32_t>(id))));
  }
  const size_t n_real = texts.size();
  for (std::mt19937 random(1); texts.size() < kTokens - 1;) {
    const size_t first = random() % n_real, second = random() % n_real;
    add(texts[first] + texts[second]);
  }
  texts.emplace_back();
  return texts;
}

std::vector<int32_t> longest_tokens(const TokenVocabulary& vocabulary, std::string_view text) {
  const TokenVocabulary::Trie& trie = vocabulary.trie();
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    int32_t longest = -1;
    uint32_t node = 0, end = trie.n_nodes();
    for (const char c : text) {
      uint32_t child = node + 1;
      while (child < end && trie.byte[child] != static_cast<uint8_t>(c)) child = trie.end[child];
      if (child >= end) break;
      node = child;
      end = trie.end[node];
      if (trie.first_token[node] < trie.first_token[node + 1]) {
        longest = trie.tokens[trie.first_token[node]];
      }
    }
    tokens.push_back(longest);
    text.remove_prefix(vocabulary.bytes_of(longest).size());
  }
  return tokens;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void print_masks(vesper::GrammarMatcher matcher, const std::vector<int32_t>& tokens) {
  std::vector<uint32_t> mask(matcher.masks().n_words());
  std::vector<double> times;
  for (const int32_t token : tokens) {
    const Clock::time_point start = Clock::now();
    matcher.fill_mask(mask);
    times.push_back(milliseconds_since(start) * 1000);
    if (!matcher.accept(token)) {
      throw Error(ErrorKind::kInternal, "expected a text of the grammar");
    }
  }
  std::ranges::sort(times);
  std::printf("  %8.0f %8.0f %8.0f", times[times.size() / 2], times[times.size() * 99 / 100],
              times.back());
}

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw Error(ErrorKind::kOutput, path.string() + ": cannot be written");
}

std::string hexadecimal(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

void run(const char* model, const char* folder) {
  const std::vector<std::string> texts = vocabulary_of(model);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto stop = static_cast<int32_t>(texts.size()) - 1;
  const Clock::time_point before = Clock::now();
  const auto vocabulary = std::make_shared<const TokenVocabulary>(views, std::span(&stop, 1));
  std::printf("vocabulary of %zu tokens: %.0f ms\n", texts.size(), milliseconds_since(before));
  std::printf("%-14s %7s %10s  %26s  %26s\n", "", "tokens", "compile", "first text, us a mask",
              "second text, us a mask");
  std::printf("%-14s %7s %10s  %8s %8s %8s  %8s %8s %8s\n", "", "", "ms", "median", "p99", "most",
              "median", "p99", "most");
  std::string listed;
  for (const std::string& text : texts) listed += hexadecimal(text) + "\n";
  if (folder != nullptr) write(std::filesystem::path(folder) / "vocabulary", listed);
  for (const Case& one : cases()) {
    const std::vector<int32_t> tokens = longest_tokens(*vocabulary, one.text);
    const Clock::time_point start = Clock::now();
    const auto masks = std::make_shared<const vesper::GrammarMasks>(
        vesper::CompiledGrammar(vesper::parse_gbnf(one.grammar)), vocabulary);
    std::printf("%-14s %7zu %10.2f", one.name, tokens.size(), milliseconds_since(start));
    print_masks(vesper::GrammarMatcher(masks), tokens);
    print_masks(vesper::GrammarMatcher(masks), tokens);
    std::printf("\n");
    if (folder == nullptr) continue;
    std::string ids;
    for (const int32_t token : tokens) ids += std::to_string(token) + "\n";
    write(std::filesystem::path(folder) / (std::string(one.name) + ".gbnf"), one.grammar);
    write(std::filesystem::path(folder) / (std::string(one.name) + ".tokens"), ids);
  }
}

}  // namespace

int main(int n_arguments, char** arguments) {
  try {
    if (n_arguments < 2 || n_arguments > 3) {
      throw Error(ErrorKind::kUsage, "expected MODEL [FOLDER]");
    }
    run(arguments[1], n_arguments > 2 ? arguments[2] : nullptr);
  } catch (const Error& error) {
    std::fprintf(stderr, "grammar_bench: %s\n", error.what());
    return vesper::exit_status(error.kind());
  }
  return 0;
}
