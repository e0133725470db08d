// GBNF: what grammars admit, and where errors are.
#include "llm/grammar/gbnf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "error/error.h"
#include "llm/grammar/automaton/compiled_grammar.h"
#include "tests/damage_rounds.h"
#include "tests/llm/grammar/grammar_texts.h"

namespace vesper::gbnf_test {
namespace {

// A JSON document without space at its ends.
constexpr std::string_view kJson = R"gbnf(
# values
root   ::= value
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( member ( ws "," ws member )* )? ws "}"
member ::= string ws ":" ws value
array  ::= "[" ws ( value ( ws "," ws value )* )? ws "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]{1,3} )?
ws     ::= [ \t\n\r]*
)gbnf";

// Lines of "name = expression".
constexpr std::string_view kArithmetic = R"gbnf(
root   ::= ( [a-z] "=" sum "\n" )+
sum    ::= term ( [-+] term )*
term   ::= factor ( [*/] factor )*
factor ::= "-" factor
         | "(" sum ")"    # one level up
         | [a-z] | digits
digits ::= [0-9]+)gbnf";

// A list of up to four points.
constexpr std::string_view kList = R"gbnf(
item ::= ( "- " | "* " ) [^\r\n]{1,20} "\n"
root ::= item{1,4})gbnf";

// Numbered moves of a game of chess.
constexpr std::string_view kChess = R"gbnf(
root   ::= "1. " pair ( "\n" [1-9] [0-9]? ". " pair ){0,3}
pair   ::= move ( " " move )?
move   ::= ( pawn | piece | castle ) [+#]?
pawn   ::= ( [a-h] "x" )? square ( "=" [NBRQ] )?
piece  ::= [KQRBN] [a-h]? [1-8]? "x"? square
square ::= [a-h] [1-8]
castle ::= "O-O" "-O"?)gbnf";

void expect_texts(std::string_view gbnf, const std::vector<std::string>& admitted,
                  const std::vector<std::string>& refused) {
  GrammarTexts texts(parse_gbnf(gbnf));
  for (const std::string& text : admitted) EXPECT_TRUE(texts.accepts(text)) << gbnf << "\n" << text;
  for (const std::string& text : refused) EXPECT_FALSE(texts.accepts(text)) << gbnf << "\n" << text;
}

TEST(Gbnf, ReadsJson) {
  expect_texts(kJson,
               {R"({})", R"({"a": [1, -2.5e+10, true, null], "b\u00e9": "日本 👍"})", "[[[]]]", "0",
                R"("\"\\")", R"({"a":[{"a":{}}]})"},
               {"", "{", "01", "[1,]", R"({"a":})", R"("a)", R"({"a" 1})", "tru", "1.", "[] ",
                "\"\n\"", "\"\xff\"", R"("\u12g4")"});
}

TEST(Gbnf, ReadsArithmetic) {
  expect_texts(kArithmetic, {"a=1\n", "a=(1+b)*--3/c\nb=((a))\n"},
               {"a=1", "a=\n", "a=1+\n", "a=(1\n", "A=1\n", "a=1 \n"});
}

TEST(Gbnf, ReadsAList) {
  expect_texts(kList, {"- one\n", "- eins\n* zwölf\n- 日\n* d\n"},
               {"", "- \n", "- a", "-a\n", "- a\n- a\n- a\n- a\n- a\n", "- a\r\n",
                "- " + std::string(21, 'x') + "\n"});
}

TEST(Gbnf, ReadsMovesOfChess) {
  expect_texts(kChess, {"1. e4 e5\n2. Nf3 Nc6\n3. O-O exd5+", "1. e8=Q#", "1. O-O-O O-O"},
               {"1. e9", "e4", "1. e4 e5 ", "1. e4 e5\n0. e4", "1. Kx", "1. O-O-"});
}

TEST(Gbnf, ReadsEscapesAsCodePoints) {
  expect_texts(R"(root ::= "\x41\xe9\u65E5\U0001F44d\n\r\t\\\"\[\]")", {"Aé日👍\n\r\t\\\"[]"},
               {"A\xe9", "A"});
  expect_texts(R"(root ::= [\x41-\x43\u65e5\-\]\^]+)", {"ABC日-]^"}, {"D", "é", "\\"});
}

TEST(Gbnf, ReadsClasses) {
  expect_texts("root ::= [a-cx-]", {"a", "b", "c", "x", "-"}, {"d", "y", "", "ab"});
  expect_texts("root ::= [^a-cé]", {"d", "è", "日", "\n", "^"}, {"a", "c", "é", "", "\xc3"});
  expect_texts("root ::= [a^]", {"a", "^"}, {"b"});
  expect_texts("root ::= [é-日]", {"é", "ü", "日"}, {"e", "è", "\xc3", "👍"});
  expect_texts("root ::= .", {"a", "\n", "日", "👍"},
               {"", "\xff", "ab", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"});
}

TEST(Gbnf, RepeatsTheLastPart) {
  expect_texts(R"(root ::= "ab"* [c]+ (("d" | "e") "f")? )", {"c", "ababc", "ccef"},
               {"", "abbc", "cdef"});
  expect_texts(R"(root ::= "a"{2} "b"{1,} "c"{0,2} "d"{0} "e"{ 1 , 1 })", {"aabe", "aabbbcce"},
               {"abe", "aae", "aabccce", "aabde", "aaabe"});
  expect_texts(R"(root ::= "a"{2}{3})", {"aaaaaa"}, {"aaaa", "aaaaaaa"});
}

TEST(Gbnf, RepeatsPartsThatMayBeEmpty) {
  expect_texts(R"(root ::= (("a"* | "b"?)* ""*)+)", {"", "ab", "bbaab"}, {"c"});
  expect_texts(R"(root ::= (a | b){3}
                  a ::= "x"?
                  b ::= "y"{0,2})",
               {"", "x", "xyyx", "yyyyyy"}, {"xxxx", "yyyyyyy"});
}

TEST(Gbnf, ContinuesARuleOverLines) {
  expect_texts("root ::=\n  \"a\" |\n # none\n \"b\"\n\n# more\n | (\n\"c\"\n\"d\"\n)+\r\n",
               {"a", "b", "cdcd"}, {"", "c", "ab"});
  expect_texts("root ::= | \"a\" (\"b\" |)\n", {"", "a", "ab"}, {"b"});
  expect_texts("\xef\xbb\xbfroot::=x_1\nx_1::=\"a\"#\n", {"a"}, {""});
}

TEST(Gbnf, LeavesUnusedRulesAlone) {
  expect_texts("root ::= \"a\"\nother ::= other", {"a"}, {"b"});
}

void expect_error(std::string_view gbnf, const std::string& message) {
  try {
    CompiledGrammar compiled(parse_gbnf(gbnf));
    FAIL() << gbnf << ": expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << gbnf;
    EXPECT_EQ(error.setting(), "grammar");
    EXPECT_EQ(error.what(), "grammar: " + message) << gbnf;
  }
}

TEST(Gbnf, NamesThePlaceOfAnError) {
  expect_error("", "line 1, column 1: expected the rule \"root\", found no rules");
  expect_error("a ::= \"b\"",
               "line 1, column 10: expected the rule \"root\", found none of this name");
  expect_error("root ::= a\n", "line 1, column 10: expected a rule that is defined, found \"a\"");
  expect_error(
      "root ::= \"é\" b\n# x\nroot ::= \"c\"",
      "line 3, column 1: expected one definition of \"root\", found one at line 1, column 1 too");
  expect_error("root = \"a\"", "line 1, column 6: expected \"::=\" after \"root\", found \"=\"");
  expect_error("root ::= \"a\"\n  ::= b",
               "line 2, column 3: expected the name of a rule, found \":\"");
  expect_error("root ::= \"é",
               "line 1, column 12: expected '\"' for the string at line 1, column 10, found the "
               "end of the grammar");
  expect_error("root ::= [a",
               "line 1, column 12: expected \"]\" for the class at line 1, column 10, found the "
               "end of the grammar");
  expect_error("root ::= (\"a\"\n\"b\"",
               "line 2, column 4: expected \")\" for the \"(\" at line 1, column 10, \"|\" or a "
               "part of the group, found the end of the grammar");
  expect_error("root ::= \"a\" )",
               "line 1, column 14: expected a string, a class, a name, a group, a repetition, "
               "\"|\" or the end of the line, found \")\"");
  expect_error("root ::= *",
               "line 1, column 10: expected something before a repetition, found \"*\"");
  expect_error(
      "root ::= \"\\q\"",
      "line 1, column 12: expected one of n r t \\ \" [ ] x u U after \"\\\", found \"q\"");
  expect_error("root ::= \"\\x4\"",
               "line 1, column 14: expected 2 hexadecimal digits, found \"\"\"");
  expect_error("root ::= [\\uD800]",
               "line 1, column 11: expected a character of Unicode, found \"\\uD800\"");
  expect_error("root ::= [\\U00110000]",
               "line 1, column 11: expected a character of Unicode, found \"\\U00110000\"");
  expect_error("root ::= [z-a]",
               "line 1, column 11: expected a range of ascending characters, found \"z-a\"");
  expect_error("root ::= [z-\n]",
               "line 1, column 11: expected a range of ascending characters, found "
               "\"z-\\U0000000a\"");
  expect_error("root ::= \x01",
               "line 1, column 10: expected a string, a class, a name, a group, a repetition, "
               "\"|\" or the end of the line, found \"\\U00000001\"");
  expect_error("root ::= []",
               "line 1, column 10: expected a class with characters, found an empty one");
  expect_error("root ::= \"a\"{}",
               "line 1, column 14: expected a count of repetitions, found \"}\"");
  expect_error("root ::= \"a\"{2\n;}",
               "line 2, column 1: expected \"}\" for the \"{\" at line 1, column 13, found \";\"");
  expect_error("root ::= \"a\"{3,2}",
               "line 1, column 13: expected a highest count of at least 3, found 2");
  expect_error("root ::= \"a\"{1000001}",
               "line 1, column 14: expected a count of at most 1000000, found more");
  expect_error(
      "root ::= <think>",
      "line 1, column 10: expected text, because tokens cannot be referred to, found \"<\"");
  expect_error("root ::= \"a\"\n\"\xc3\"", "line 2, column 2: expected UTF-8, found the byte 195");
  expect_error("root ::= " + std::string(101, '('),
               "line 1, column 110: expected at most 100 nested parentheses, found more");
}

TEST(Gbnf, NamesTheRuleWithoutTexts) {
  expect_error(
      "root ::= a\na ::= \"x\" a",
      "expected a grammar that admits some text, found none in rule root (line 1, column 1)");
}

TEST(Gbnf, NamesTheRulesOfALeftRecursion) {
  expect_error("root ::= a\n  a ::= b? \"\" a \"x\" | \"y\"\nb ::= \"z\"",
               "expected no left recursion, found it in rule a (line 2, column 3)");
  for (const char* text :
       {"root ::= root", "root ::= root \"a\" | \"b\"", "root ::= (root)* \"b\"",
        "root ::= a\na ::= [x]* b\nb ::= a | \"c\"", "root ::= root{0,50} .{0,60}"}) {
    EXPECT_THROW(CompiledGrammar(parse_gbnf(text)), Error) << text;
  }
  expect_texts("root ::= \"a\" root | \"b\"", {"b", "aab"}, {"a"});
}

TEST(Gbnf, CompilesLongChainsOfRules) {
  const auto chain = [](int n_rules) {
    std::string text = "root ::= r0\n";
    for (int i = 0; i < n_rules; ++i) {
      text += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    }
    return text + "r" + std::to_string(n_rules) + " ::= \"a\"";
  };
  expect_texts(chain(30'000), {"a"}, {"", "aa"});
  EXPECT_NO_THROW(CompiledGrammar(parse_gbnf(chain(200'000))));
}

TEST(Gbnf, BoundsTheNestingOfARule) {
  std::string text = "root ::= \"a\"" + std::string(600, '*');
  expect_error(text, "expected at most 500 levels of nesting in a rule");
  text = "root ::= " + std::string(100, '(') + "\"a\"";
  for (int i = 0; i < 100; ++i) text += ")?";
  expect_texts(text, {"", "a"}, {"aa"});
}

TEST(Gbnf, SurvivesDamagedGrammars) {
  std::mt19937 random(21);
  const std::string_view sources[] = {kJson, kArithmetic, kList, kChess};
  constexpr std::string_view kPieces[] = {"(",    ")", "|",  "*",    "{9,}", "{99,999}",
                                          "[^",   "]", "\"", "\\x",  "::=",  "\n",
                                          "root", ".", "#",  "\xff", "?",    " "};
  int n_compiled = 0;
  for (size_t i = 0; i < damage_rounds(5000); ++i) {
    std::string text(sources[i % 4]);
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, kPieces[random() % std::size(kPieces)]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
      }
    }
    try {
      GrammarTexts texts(parse_gbnf(text));
      texts.accepts("{\"a\": [1]}");
      texts.accepts("a=(1+2)\n");
      texts.accepts("1. e4 e5");
      texts.matcher().forced_bytes(64);
      ++n_compiled;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(n_compiled, static_cast<int>(damage_rounds(5000) / 20));
}

}  // namespace
}  // namespace vesper::gbnf_test
