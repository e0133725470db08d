#include "llm/grammar/json_schema/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "error/error.h"
#include "tests/damage_rounds.h"
#include "tests/llm/grammar/grammar_texts.h"

namespace vesper {
namespace {

struct SchemaCase {
  const char* schema;
  std::vector<const char*> accepted, refused;
};

void check(const std::vector<SchemaCase>& cases, bool undescribed_values = true) {
  for (const SchemaCase& one : cases) {
    SCOPED_TRACE(one.schema);
    GrammarTexts texts(grammar_of_json_schema(one.schema, {undescribed_values}));
    for (const char* text : one.accepted) EXPECT_TRUE(texts.accepts(text)) << text;
    for (const char* text : one.refused) EXPECT_FALSE(texts.accepts(text)) << text;
  }
}

std::string error_of(std::string_view schema) {
  try {
    const CompiledGrammar grammar(grammar_of_json_schema(schema));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.setting(), "JSON schema");
    return error.what();
  }
  return {};
}

TEST(JsonGrammar, IsAnObjectOrAnArray) {
  GrammarTexts texts(json_grammar());
  for (const char* text :
       {"{}", "[]", R"({"a":1, "b": [true,false, null]})",
        R"([-1.5e-3, "\"\\\/\b\f\n\r\t\u00e9é"])", R"(["\ud83d\ude00"])", R"({"":{"":[[]]}})"}) {
    EXPECT_TRUE(texts.accepts(text)) << text;
  }
  for (const char* text :
       {"", "1", "\"a\"", "{", "[1,]", "{\"a\"}", "{\"a\":}", "[01]", "[+1]", "[.5]", "[1.]",
        "[\"\n\"]", "[\"\\x\"]", "[\"\\ud83d\"]", "[tru]", "{a:1}", "[1,  2]", "[1]x"}) {
    EXPECT_FALSE(texts.accepts(text)) << text;
  }
}

TEST(JsonSchema, TypesAndValues) {
  check({
      {"true", {"1", "null", R"({"a":[]})"}, {"", "nul"}},
      {R"({"type":"integer"})", {"0", "-12"}, {"1.5", "\"1\"", "-0", "01"}},
      {R"({"type":"number"})", {"0", "-1.5", "2e10"}, {"null", ".5"}},
      {R"({"type":["boolean","null"]})", {"true", "false", "null"}, {"0"}},
      {R"({"type":"string","nullable":true})", {"\"\"", "null"}, {"0"}},
      {R"({"enum":["a",1.5,null,[1,{"b":2}],"qu\"ote"]})",
       {"\"a\"", "1.5", "null", R"([1, {"b":2}])", R"("qu\"ote")"},
       {"\"b\"", "1", "[1]", R"([1,{"b":2,"c":1}])"}},
      {R"({"const":{"a":1,"b":[]}})", {R"({"b":[],"a": 1})"}, {R"({"a":1})"}},
      {R"({"enum":[1,2,3,"x"],"minimum":2,"type":"number"})", {"2", "3"}, {"1", "\"x\""}},
      {R"({"type":"object"})", {"{}", R"({"a":1})"}, {"[]"}},
      {R"({"type":"array"})", {"[]", R"([1,"a"])"}, {"{}"}},
  });
}

TEST(JsonSchema, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("éßü")", R"("\n\"x")", "\"\xF0\x9F\x98\x80y\""},
       {R"("a")", R"("abcd")", R"("\n")", R"("\u0061b")"}},
      {R"({"type":"string","maxLength":1000000000})", {R"("abc")"}, {"1"}},
      {R"({"type":"string","pattern":"^a+\"$"})", {R"("aa\"")"}, {R"("a")", R"("xa\"")"}},
      {R"({"type":"string","pattern":"\\d"})", {R"("x1\n")", R"("1")"}, {R"("x")", R"("")"}},
      {R"({"type":"string","pattern":"^a","minLength":3,"allOf":[{"pattern":"z$"}]})",
       {R"("abz")"},
       {R"("az")", R"("abc")"}},
      {R"({"type":"string","not":{"pattern":"a"}})", {R"("bc")", R"("\t")"}, {R"("ba")"}},
      {R"({"type":"string","not":{"enum":["","x"]}})", {R"("xx")", R"("y")"}, {R"("")", R"("x")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("0000-01-01")",
        R"("2023-1-1")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-02-29T23:59:59.25+01:00")", R"("1985-04-12T10:00:00Z")"},
       {R"("2024-02-29 23:59:59Z")", R"("2024-02-29T24:00:00Z")", R"("2024-02-29T23:59:59")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("2eb8aa08-aa98-11ea-b4aa-73b441d16380")"},
       {R"("2eb8aa08-aa98-11ea-b4aa73b441d16380")"}},
      {R"({"type":"string","format":"email"})",
       {R"("a.b@c-d.org")"},
       {R"("a@b")", R"("a..b@c.de")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("192.168.0.255")"},
       {R"("256.1.1.1")", R"("1.1.1")"}},
      {R"({"type":"string","format":"ipv6"})",
       {R"("::1")", R"("2001:db8::7:0")", R"("1:2:3:4:5:6:7:8")"},
       {R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")", R"("12345::")"}},
      {R"({"type":"string","format":"uri"})",
       {R"("https://a.org:80/b/c?d=e#f")", R"("mailto:a@b.c")"},
       {R"("a.org")", R"("http://a b")"}},
  });
}

TEST(JsonSchema, Numbers) {
  check({
      {R"({"type":"integer","minimum":-3,"maximum":12})", {"-3", "0", "12"}, {"-4", "13", "1.0"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.001"},
       {"0", "1", "0.0", "1.0"}},
      {R"({"type":"integer","minimum":1,"exclusiveMinimum":true})", {"2"}, {"1"}},
      {R"({"type":"integer","minimum":1,"exclusiveMinimum":1,"maximum":9,"exclusiveMaximum":9})",
       {"2", "8"},
       {"1", "9"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "-14", "700"}, {"8"}},
      {R"({"type":"number","multipleOf":0.01})", {"1.25", "3"}, {"1.255"}},
      {R"({"type":"integer","not":{"minimum":5}})", {"4", "-9"}, {"5", "50"}},
  });
}

TEST(JsonSchema, Objects) {
  const char* person = R"({"type":"object","properties":{"name":{"type":"string"},
      "age":{"type":"integer"},"ok":{"type":"boolean"}},"required":["name","age"],
      "additionalProperties":false})";
  check({
      {person,
       {R"({"name":"a","age":1})", R"({"age": 1, "name": "a"})",
        R"({"ok":true,"age":1,"name":""})"},
       {"{}", R"({"name":"a"})", R"({"name":"a","age":1,"x":1})", R"({"name":"a","age":1,"age":2})",
        R"({"name":1,"age":1})", R"({"name":"a","age":1,})"}},
      {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"},"type":"object"})",
       {R"({"a":1,"b":null,"aa":null,"":null})"},
       {R"({"a":null})", R"({"b":1})"}},
      {R"({"type":"object","required":["q\"\n"]})", {R"({"q\"\n":1})"}, {"{}"}},
      {R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},"x$":{"minimum":5}},
           "additionalProperties":false})",
       {R"({"n_a":1,"yx":"s","n_x":7})", "{}"},
       {R"({"n_a":"s"})", R"({"n_x":1})", R"({"a":1})"}},
      {R"({"type":"object","propertyNames":{"maxLength":2}})", {R"({"ab":1})"}, {R"({"abc":1})"}},
      {R"({"type":"object","minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,
           "additionalProperties":false})",
       {R"({"a":1,"c":2})"},
       {R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","dependentRequired":{"a":["b"]},"properties":{"b":{"type":"null"}}})",
       {R"({"a":1,"b":null})", R"({"b":null})", "{}"},
       {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":false,"b":true}})", {R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{}},"unevaluatedProperties":false,
           "anyOf":[{"properties":{"b":{"type":"integer"}},"required":["b"]},{"required":["a"]}]})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {R"({"a":1,"c":2})", "{}"}},
  });
}

TEST(JsonSchema, UndescribedValuesCanBeLeftOut) {
  check({{R"({"type":"object","properties":{"a":{}}})", {R"({"a":1})", "{}"}, {R"({"b":1})"}},
         {R"({"type":"object"})", {R"({"b":1})"}, {}},
         {R"({"type":"object","properties":{"a":{}},"additionalProperties":true})",
          {R"({"a":1,"b":2})"},
          {}},
         {R"({"prefixItems":[{"type":"integer"}],"type":"array"})", {"[1]", "[]"}, {"[1,2]"}},
         {R"({"type":"object","properties":{"a":{}},"required":["b"]})", {R"({"b":1})"}, {}}},
        false);
}

TEST(JsonSchema, Arrays) {
  check({
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1, 2,3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":false})",
       {"[]", "[1]", "[1,null]"},
       {"[null]", "[1,null,2]"}},
      {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
       {"[1,null,null]"},
       {"[1,2]"}},
      {R"({"type":"array","contains":{"type":"null"},"minContains":2,"maxContains":3})",
       {"[null,null]", "[1,null,2,null,null,3]"},
       {"[null]", "[null,null,null,null]"}},
      {R"({"type":"array","contains":{"const":1},"maxItems":2})",
       {"[1]", "[0,1]"},
       {"[0,0]", "[0,0,1]"}},
      {R"({"type":"array","items":{"enum":["a","b",1,true]},"uniqueItems":true,"minItems":2})",
       {R"(["a",1])", R"([true, "b","a",1])"},
       {R"(["a"])", R"(["a","a"])"}},
      {R"({"type":"array","not":{"items":{"type":"integer"}}})", {"[1,\"a\"]"}, {"[]", "[1,2]"}},
      {R"({"type":"array","items":{"type":"string"},"minItems":2000000000})", {}, {"[]"}},
      {R"({"type":"array","unevaluatedItems":false,"allOf":[{"prefixItems":[true]}]})",
       {"[1]"},
       {"[1,2]"}},
  });
}

TEST(JsonSchema, Combinations) {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", R"("a")"},
       {R"("ab")"}},
      {R"({"oneOf":[{"type":"integer"},{"minimum":2,"type":"number"}]})",
       {"1", "2.5", "-3"},
       {"3", "1.5"}},
      {R"({"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},
                    {"properties":{"kind":{"const":"b"}},"required":["kind"]}],"type":"object"})",
       {R"({"kind":"a","x":1})", R"({"kind":"b"})"},
       {R"({"kind":"a"})", R"({"kind":"c"})"}},
      {R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"maximum":3}}}],
           "type":"object","required":["a"],"properties":{"a":{"type":"integer"}}})",
       {R"({"a":1})", R"({"a":3})"},
       {R"({"a":0})", R"({"a":4})"}},
      {R"({"not":{"type":["object","array","string"]}})",
       {"1", "null", "true"},
       {"{}", "[]", R"("")"}},
      {R"({"type":"object","not":{"required":["a"]}})", {R"({"b":1})", "{}"}, {R"({"a":1})"}},
      {R"({"type":"object","not":{"properties":{"a":{"type":"null"}}}})",
       {R"({"a":1})"},
       {R"({"a":null})", "{}"}},
      {R"({"type":"object","not":{"additionalProperties":{"type":"null"}}})",
       {R"({"b":1})"},
       {R"({"a":null})", "{}"}},
      {R"({"type":"integer","if":{"minimum":10},"then":{"multipleOf":5},"else":{"maximum":3}})",
       {"10", "15", "3", "-1"},
       {"11", "4"}},
  });
}

TEST(JsonSchema, ManyAlternativesThatExcludeEachOther) {
  std::string schema = R"({"oneOf":[)";
  for (int i = 0; i < 200; ++i) {
    schema +=
        (i ? "," : "") +
        (R"({"type":"object","required":["k"],"properties":{"k":{"const":)" + std::to_string(i)) +
        R"(},"v":{"type":"string"}}})";
  }
  GrammarTexts texts(grammar_of_json_schema(schema + "]}"));
  EXPECT_TRUE(texts.accepts(R"({"k":199,"v":"x"})"));
  EXPECT_FALSE(texts.accepts(R"({"k":200,"v":"x"})"));
}

TEST(JsonSchema, NegatedCounts) {
  check({
      {R"({"type":"string","not":{"minLength":2}})", {R"("a")", R"("")"}, {R"("ab")"}},
      {R"({"type":"string","not":{"maxLength":2}})", {R"("abc")"}, {R"("ab")"}},
      {R"({"type":"array","not":{"minItems":2}})", {"[1]"}, {"[1,2]"}},
      {R"({"type":"array","not":{"contains":{"const":1},"minContains":2}})",
       {"[1,0]", "[]"},
       {"[1,1]"}},
      {R"({"type":"array","not":{"contains":{"const":1},"minContains":0,"maxContains":1}})",
       {"[1,0,1]"},
       {"[1,0]"}},
      {R"({"type":"array","not":{"prefixItems":[{"type":"integer"}]}})", {"[null]"}, {"[]", "[1]"}},
      {R"({"type":"object","not":{"maxProperties":0}})", {R"({"a":1})"}, {"{}"}},
      {R"({"anyOf":[{"not":{"minLength":0}},{"type":"null"}]})", {"null"}, {R"("")", "1"}},
  });
}

// Two properties that are demanded might be one, if a text repeats its name.
TEST(JsonSchema, PropertiesWithoutNamesAreDemandedOnce) {
  EXPECT_THAT(
      error_of(R"({"type":"object","allOf":[{"not":{"additionalProperties":{"type":"null"}}},
                           {"not":{"additionalProperties":{"type":"string"}}}]})"),
      testing::HasSubstr("expected a grammar that admits some text"));
}

TEST(JsonSchema, References) {
  check({
      {R"({"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},
            "kids":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["v"],
            "additionalProperties":false}},"$ref":"#/$defs/t"})",
       {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"},
       {R"({"kids":[]})", R"({"v":1,"kids":[{}]})"}},
      {R"({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"},"maxItems":2}]})",
       {"null", "[[],[null,[]]]"},
       {"[1]", "[[],[],[]]"}},
      {R"({"properties":{"a/b~c %":{"type":"integer"}},"$defs":{"x":{"$anchor":"here","type":"null"}},
           "anyOf":[{"$ref":"#/properties/a~1b~0c%20%25"},{"$ref":"#here"}],"type":["integer","null"]})",
       {"1", "null"},
       {"\"a\""}},
      {R"({"$id":"http://x.org/s","$ref":"http://x.org/s#/$defs/a","$defs":{"a":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"$id":"http://x.org/a/root","$ref":"list","$defs":{"l":{"$id":"list","type":"array",
           "items":{"$ref":"#/$defs/i"},"$defs":{"i":{"anyOf":[{"$ref":"/b/n#m"},{"$ref":"list"}]}}},
           "n":{"$id":"http://x.org/b/n","$defs":{"x":{"$anchor":"m","type":"null"}}}}})",
       {"[null,[[]]]"},
       {"[1]", "null"}},
      {R"({"$id":"Node","type":"object","properties":{"next":{"$ref":"Node"}},
           "additionalProperties":false})",
       {R"({"next":{"next":{}}})"},
       {R"({"next":1})"}},
  });
}

TEST(JsonSchema, ErrorsNameThePlace) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{", "JSON schema: expected JSON, found something else at byte 2"},
      {"3", "JSON schema: at #: expected a schema, an object or a boolean, found 3"},
      {R"({"properties":{"a/b":{"typ":"string"}}})",
       R"(JSON schema: at #/properties/a~1b/typ: expected a supported keyword, found "typ")"},
      {R"({"properties":{"a\nb%":{"type":3}}})",
       R"(JSON schema: at #/properties/a%0Ab%25/type: expected types such as "string", found 3)"},
      {R"({"type":"strin"})",
       R"(JSON schema: at #/type: expected types such as "string", found "strin")"},
      {R"({"items":{"minLength":-1}})",
       "JSON schema: at #/items/minLength: expected a whole number from 0, found -1"},
      {R"({"pattern":"a("})",
       R"(JSON schema: at #/pattern: wrong pattern "a(": at byte 1: expected a ) for this (, found the end)"},
      {R"({"$ref":"#/$defs/x"})",
       R"(JSON schema: at #/$ref: expected a schema of this document, found no "#/$defs/x")"},
      {R"({"$ref":"http://x.org/y"})",
       R"(JSON schema: at #/$ref: expected a reference into this document, #/..., found "http://x.org/y")"},
      {R"({"$ref":"#"})", "JSON schema: at #: the schema refers to itself for the same value"},
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}})",
       "JSON schema: at #/$defs/a: the schema refers to itself for the same value"},
      {R"({"type":"integer","not":{"$ref":"#"}})",
       "JSON schema: at #: the schema refers to itself for the same value"},
      {R"({"multipleOf":0})", "JSON schema: at #/multipleOf: expected a number above 0, found 0"},
      {R"({"multipleOf":12345678})",
       "JSON schema: at #/multipleOf: expected a divisor of few digits, at most 20,000 without the "
       "decimal point"},
      {R"({"type":"array","uniqueItems":true})",
       "JSON schema: at #/uniqueItems: uniqueItems is supported for items that all match one enum"},
      {R"({"type":"object","minProperties":2})",
       "JSON schema: at #/minProperties: expected at most 1, or as many as there are described "
       "properties"},
      {R"({"type":"string","not":{"format":"date"}})",
       "JSON schema: at #/not/format: a format cannot be negated"},
      {R"({"properties":{"a":false},"required":["a"],"type":"object"})",
       "JSON schema: expected a grammar that admits some text, found none in rule value (#)"},
      {R"({"type":"integer","minimum":3,"maximum":2})",
       "JSON schema: expected a grammar that admits some text, found none in rule value (#)"},
  };
  for (const auto& [schema, message] : cases) EXPECT_EQ(error_of(schema), message) << schema;
  EXPECT_THAT(error_of(R"({"format":"colour"})"),
              testing::HasSubstr("at #/format: expected one of"));
}

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

// Each is an error within the limits, and none takes long.
TEST(JsonSchema, HostileSchemasAreErrors) {
  std::string overlapping = R"({"type":"object","oneOf":[)";
  for (int i = 0; i < 24; ++i) {
    const std::string n = std::to_string(i);
    overlapping += (i ? "," : "") + (R"({"properties":{"a)" + n) + R"(":{"minimum":1},"b)" + n +
                   R"(":{"maximum":1}}})";
  }
  std::string intervals = R"({"type":"object","allOf":[)";
  for (int i = 0; i < 24; ++i) {
    const std::string n = std::to_string(i);
    intervals += (i ? "," : "") + (R"({"anyOf":[{"required":["a)" + n) + R"("]},{"required":["b)" +
                 n + R"("]}]})";
  }
  std::string patterns = R"({"type":"object","patternProperties":{)";
  for (int i = 0; i < 26; ++i)
    patterns += (i ? "," : "") + (R"(")" + std::string(1, char('a' + i))) + R"(":{"minimum":)" +
                std::to_string(i) + "}";
  const std::vector<std::string> schemas = {
      repeated(R"({"items":)", 200) + "true" + repeated("}", 200),
      repeated("[", 100'000),
      R"({"type":"string","pattern":")" + repeated("(", 5000) + "\"}",
      R"({"type":"string","pattern":"(a{1000}){1000}b","maxLength":5})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){40}","minLength":3})",
      R"({"type":"array","contains":{"const":1},"maxItems":100000000})",
      R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
      overlapping + "]}",
      intervals + "]}",
      patterns + "}}",
  };
  for (const std::string& schema : schemas) {
    EXPECT_NE(error_of(schema), "") << schema.substr(0, 100);
  }
}

TEST(JsonSchema, DamagedSchemasGiveErrorsOrGrammars) {
  const std::string schema =
      R"({"$defs":{"t":{"type":"object","properties":{"k":{"$ref":"#/$defs/t"},
      "e":{"enum":["a",1,null]},"d":{"format":"date","type":"string"}},"required":["e"],
      "patternProperties":{"^x[0-9]{2}$":{"type":"integer","minimum":-5,"multipleOf":3}},
      "minProperties":1}},"type":"array","items":{"oneOf":[{"$ref":"#/$defs/t"},{"type":"string",
      "pattern":"^a(b|c)*$","maxLength":9}]},"contains":{"not":{"const":"a"}},"maxItems":4})";
  std::mt19937 random(7);
  const std::string bytes = "{}[]\",:0123456789.-+eatfn\\$#/xé";
  size_t n_grammars = 0;
  for (size_t round = 0; round < damage_rounds(600); ++round) {
    std::string damaged = schema;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          damaged.erase(at, 1 + random() % 4);
          break;
        default:
          damaged.insert(at, 1, bytes[random() % bytes.size()]);
          break;
      }
    }
    n_grammars += error_of(damaged).empty();
  }
  EXPECT_GT(n_grammars, damage_rounds(600) / 50);
}

}  // namespace
}  // namespace vesper
