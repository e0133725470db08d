#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/gguf/gguf_reader.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::gguf_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Gguf parse(const GgufBytes& writer) { return read_gguf_files(ModelFiles(".", {}), writer.file()); }

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.what();
  }
  return "no error";
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  for (const uint32_t version : {2u, 3u}) {
    const Gguf gguf = parse(GgufBytes(version)
                                .scalar<uint8_t>("u8", 0, 200)
                                .scalar<int8_t>("i8", 1, -3)
                                .scalar<uint16_t>("u16", 2, 60000)
                                .scalar<int16_t>("i16", 3, -30000)
                                .scalar<uint32_t>("u32", 4, 4000000000)
                                .scalar<int32_t>("i32", 5, -5)
                                .scalar<float>("f32", 6, 0.25f)
                                .scalar<uint8_t>("bool", 7, 1)
                                .string("string", "text")
                                .scalar<uint64_t>("u64", 10, ~uint64_t{0})
                                .scalar<int64_t>("i64", 11, -7)
                                .scalar<double>("f64", 12, 1e300));
    EXPECT_EQ(gguf.version, version);
    EXPECT_EQ(gguf.find_unsigned("u8"), 200u);
    EXPECT_EQ(gguf.find("i8")->as_signed(), -3);
    EXPECT_EQ(gguf.find_unsigned("i8"), std::nullopt);
    EXPECT_EQ(gguf.find_unsigned("u16"), 60000u);
    EXPECT_EQ(gguf.find("i16")->as_signed(), -30000);
    EXPECT_EQ(gguf.find_unsigned("u32"), 4000000000u);
    EXPECT_EQ(gguf.find_number("i32"), -5.0);
    EXPECT_EQ(gguf.find_number("f32"), 0.25);
    EXPECT_EQ(gguf.find("bool")->as_bool(), true);
    EXPECT_EQ(gguf.find_string("string"), "text");
    EXPECT_EQ(gguf.find_unsigned("u64"), ~uint64_t{0});
    EXPECT_EQ(gguf.find("u64")->as_signed(), std::nullopt);
    EXPECT_EQ(gguf.find("i64")->as_signed(), -7);
    EXPECT_EQ(gguf.find_number("f64"), 1e300);
    EXPECT_EQ(gguf.find("absent"), nullptr);
    EXPECT_EQ(gguf.find_unsigned("string"), std::nullopt);
  }
}

TEST(Gguf, ReadsArraysOfNumbersStringsAndArrays) {
  // [["a", "bc"], []] and behind it another value, which proves where the array ends.
  std::vector<uint8_t> nested;
  GgufBytes::put<uint32_t>(nested, 9);
  GgufBytes::put<uint64_t>(nested, 2);
  GgufBytes::put<uint32_t>(nested, 8);
  GgufBytes::put<uint64_t>(nested, 2);
  GgufBytes::put_string(nested, "a");
  GgufBytes::put_string(nested, "bc");
  GgufBytes::put<uint32_t>(nested, 8);
  GgufBytes::put<uint64_t>(nested, 0);
  const Gguf gguf = parse(GgufBytes()
                              .array<int32_t>("numbers", 5, {-1, 2})
                              .raw("nested", 9, nested)
                              .string("behind", "x"));
  GgufElements numbers(*gguf.find("numbers"));
  GgufValue value;
  ASSERT_TRUE(numbers.next(value));
  EXPECT_EQ(value.as_signed(), -1);
  ASSERT_TRUE(numbers.next(value));
  EXPECT_EQ(value.as_signed(), 2);
  EXPECT_FALSE(numbers.next(value));
  GgufElements outer(*gguf.find("nested"));
  ASSERT_TRUE(outer.next(value));
  GgufElements inner(value);
  GgufValue text;
  ASSERT_TRUE(inner.next(text));
  EXPECT_EQ(text.as_string(), "a");
  ASSERT_TRUE(inner.next(text));
  EXPECT_EQ(text.as_string(), "bc");
  EXPECT_FALSE(inner.next(text));
  ASSERT_TRUE(outer.next(value));
  EXPECT_EQ(value.n_elements, 0u);
  EXPECT_FALSE(outer.next(value));
  EXPECT_EQ(gguf.find_string("behind"), "x");
}

TEST(Gguf, ReadsTensorsWithTheOutermostDimensionFirst) {
  const Gguf gguf = parse(GgufBytes()
                              .alignment(64)
                              .tensor("first", {3}, 0, std::vector<uint8_t>(12, 1))
                              .tensor("second", {32, 2}, 2, std::vector<uint8_t>(36, 2)));
  ASSERT_EQ(gguf.tensors.size(), 2u);
  EXPECT_THAT(gguf.problems, IsEmpty());
  EXPECT_EQ(gguf.tensors[0].format, "f32");
  EXPECT_EQ(gguf.tensors[0].data.size(), 12u);
  EXPECT_EQ(gguf.tensors[0].offset % 64, 0u);
  EXPECT_THAT(gguf.tensors[1].shape, ElementsAre(2, 32));
  EXPECT_EQ(gguf.tensors[1].format, "q4_0");
  EXPECT_EQ(gguf.tensors[1].offset, gguf.tensors[0].offset + 64);
  EXPECT_EQ(gguf.tensors[1].data[35], 2);
}

TEST(Gguf, NamesUnsupportedAndUnknownTypes) {
  GgufBytes writer;
  writer.tensor("rows", {256}, 22, std::vector<uint8_t>(82, 1));
  writer.entry("strange", {256}, 57, 0);
  const Gguf gguf = parse(writer);
  EXPECT_EQ(gguf.tensors[0].format, "iq2_s");
  EXPECT_EQ(gguf.tensors[0].bytes, 82u);
  EXPECT_EQ(gguf.tensors[1].format, "type 57");
  EXPECT_EQ(gguf.tensors[1].bytes, 0u);
  const ModelContents contents = read_gguf(ModelFiles(".", {}), writer.file());
  ASSERT_EQ(contents.unreadable.size(), 2u);
  EXPECT_EQ(contents.unreadable[1].format, "type 57");
}

TEST(Gguf, ReportsProblemsOfSingleTensors) {
  struct Case {
    std::vector<uint64_t> dimensions;
    uint32_t type;
    uint64_t offset;
    const char* problem;
  };
  const std::vector<Case> cases = {
      {{32}, 0, 8, "multiple of 32, found 8"},
      {{1000}, 0, 0, "expected 4000 bytes, found 128"},
      {{32}, 0, 1u << 30, "expected 128 bytes, found 0"},
      {{32}, 0, ~uint64_t{31}, "overflows 64 bits"},
      {{33}, 2, 0, "rows of a multiple of 32"},
      {{~uint64_t{0}}, 28, 0, "its bytes overflow"},
      {{16}, 0, 32, "it overlaps tensor first"},
      {{32}, 57, 1u << 30, "after the end"},
  };
  for (const Case& c : cases) {
    GgufBytes writer;
    writer.tensor("first", {32}, 0, std::vector<uint8_t>(128, 1));
    writer.entry("bad", c.dimensions, c.type, c.offset);
    const Gguf gguf = parse(writer);
    ASSERT_EQ(gguf.tensors.size(), 2u);
    ASSERT_FALSE(gguf.problems.empty()) << c.problem;
    EXPECT_THAT(gguf.problems[0], HasSubstr(c.problem));
    const std::string error = error_of([&] { read_gguf(ModelFiles(".", {}), writer.file()); });
    EXPECT_THAT(error, HasSubstr(c.problem)) << "the engine takes no such file";
    EXPECT_THAT(error, HasSubstr("model.gguf, offset "));
  }
}

TEST(Gguf, ReportsOverlapsWithATensorBeforeThePreviousOne) {
  GgufBytes writer;
  writer.tensor("long", {64}, 0, std::vector<uint8_t>(256, 1));
  writer.entry("inside", {1}, 0, 32);
  writer.entry("after that", {1}, 0, 128);
  EXPECT_THAT(parse(writer).problems,
              ElementsAre(HasSubstr("tensor inside: it overlaps tensor long"),
                          HasSubstr("tensor after that: it overlaps tensor long")));
}

TEST(Gguf, ReadsArraysNestedFourDeep) {
  // [[...[7]...]] as the value of a key.
  const auto parse_nested = [](int depth) {
    std::vector<uint8_t> bytes;
    for (int i = 1; i < depth; ++i) {
      GgufBytes::put<uint32_t>(bytes, 9);
      GgufBytes::put<uint64_t>(bytes, 1);
    }
    GgufBytes::put<uint32_t>(bytes, 0);
    GgufBytes::put<uint64_t>(bytes, 1);
    bytes.push_back(7);
    parse(GgufBytes().raw("key", 9, bytes));
  };
  EXPECT_NO_THROW(parse_nested(4));
  EXPECT_THAT(error_of([&] { parse_nested(5); }), HasSubstr("nested at most 4 deep"));
}

TEST(Gguf, ReportsDuplicateNames) {
  const Gguf gguf = parse(GgufBytes()
                              .string("key", "a")
                              .string("key", "b")
                              .tensor("name", {1}, 0, {0, 0, 0, 0})
                              .tensor("name", {1}, 0, {0, 0, 0, 0}));
  EXPECT_THAT(gguf.problems,
              ElementsAre(HasSubstr("key key, found two"), HasSubstr("tensor name, found two")));
}

TEST(Gguf, RefusesInvalidHeaders) {
  const auto deep = [] {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < 1000; ++i) {
      GgufBytes::put<uint32_t>(bytes, 9);
      GgufBytes::put<uint64_t>(bytes, 1);
    }
    return bytes;
  };
  const auto length_only = [](uint64_t length) {
    std::vector<uint8_t> bytes;
    GgufBytes::put(bytes, length);
    return bytes;
  };
  std::vector<uint8_t> huge_array;
  GgufBytes::put<uint32_t>(huge_array, 10);
  GgufBytes::put<uint64_t>(huge_array, uint64_t{1} << 61);
  const std::vector<std::pair<GgufBytes, const char*>> cases = {
      {GgufBytes(1), "expected GGUF version 2 or 3, found version 1"},
      {GgufBytes(0x03000000), "big-endian"},
      {GgufBytes().scalar<uint8_t>("key", 13, 0), "type of value from 0 to 12, found 13"},
      {GgufBytes().raw("key", 9, deep()), "nested at most 4 deep"},
      {GgufBytes().raw("key", 8, length_only(~uint64_t{0})), "bytes of a string"},
      {GgufBytes().raw("key", 9, huge_array), "overflow 64 bits"},
      {GgufBytes().scalar<uint32_t>("general.alignment", 4, 0), "power of two"},
      {GgufBytes().scalar<uint32_t>("general.alignment", 4, 48), "power of two"},
      {GgufBytes().entry("t", std::vector<uint64_t>(9, 1), 0, 0), "at most 8 dimensions"},
      {GgufBytes().entry("t", {1u << 31, 1u << 31, 1u << 31}, 0, 0), "overflow 64 bits"},
      {GgufBytes().entry("a\nb", {1}, 0, 0), "a tensor's name of printable ASCII"},
      {GgufBytes().scalar<uint32_t>("", 4, 0), "a key of the metadata of printable ASCII"},
  };
  for (const auto& [writer, expected] : cases) {
    EXPECT_THAT(error_of([&, &w = writer] { parse(w); }), HasSubstr(expected));
  }
}

TEST(Gguf, JoinsTheFilesOfASplitModel) {
  const auto part = [](uint16_t number, uint16_t claimed) {
    GgufBytes writer;
    if (number == 0) writer.string("general.architecture", "llama");
    writer.scalar<uint16_t>("split.no", 2, claimed)
        .scalar<uint16_t>("split.count", 2, 2)
        .scalar<int32_t>("split.tensors.count", 5, 2)
        .tensor(number == 0 ? "t0" : "t1", {1}, 0, {0, 0, 128, 63});
    return writer.file(number == 0 ? "big-00001-of-00002.gguf" : "big-00002-of-00002.gguf");
  };
  const ModelFiles both("folder", {part(0, 0), part(1, 1)});
  for (const char* opened : {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf"}) {
    const Gguf gguf = read_gguf_files(both, both.open(opened));
    EXPECT_EQ(gguf.find_string("general.architecture"), "llama");
    ASSERT_EQ(gguf.tensors.size(), 2u);
    EXPECT_EQ(gguf.tensors[1].file, 1u);
    EXPECT_EQ(gguf.tensors[1].data[3], 63);
  }
  const ModelFiles one("folder", {part(0, 0)});
  EXPECT_THAT(error_of([&] { read_gguf_files(one, part(0, 0)); }),
              HasSubstr("big-00002-of-00002.gguf"));
  const ModelFiles swapped("folder", {part(0, 0), part(1, 0)});
  EXPECT_THAT(error_of([&] { read_gguf_files(swapped, part(0, 0)); }),
              HasSubstr("expected split.no to be 1"));
}

TEST(Gguf, DecodesTheSpellingOfTokens) {
  const auto bytes_of_tokens = [](const GgufBytes& gguf) {
    const auto tokenizer = open_text_tokenizer(*open_weights(gguf.file()));
    std::vector<std::string> bytes;
    for (uint32_t id = 0; id < tokenizer->n_vocab(); ++id) {
      bytes.emplace_back(tokenizer->bytes_of(static_cast<int32_t>(id)));
    }
    return bytes;
  };
  EXPECT_THAT(bytes_of_tokens(GgufBytes()
                                  .string("tokenizer.ggml.model", "gpt2")
                                  .strings("tokenizer.ggml.tokens", {"\xc4\xa0the", "<\xc4\xa0>"})
                                  .strings("tokenizer.ggml.merges", {})
                                  .array<int32_t>("tokenizer.ggml.token_type", 5, {1, 3})),
              ElementsAre(" the", "<\xc4\xa0>"));
  EXPECT_THAT(
      bytes_of_tokens(GgufBytes()
                          .string("tokenizer.ggml.model", "llama")
                          .strings("tokenizer.ggml.tokens", {"\xe2\x96\x81the", "<0x0A>", "<s>"})
                          .array<float>("tokenizer.ggml.scores", 6, {-1, 0, 0})
                          .array<int32_t>("tokenizer.ggml.token_type", 5, {1, 6, 3})),
      ElementsAre(" the", "\n", "<s>"));
}

}  // namespace
}  // namespace vesper::gguf_test
