// Converted files: what they contain, and what is left behind when writing fails.
#include "session/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>

#include "error/error.h"
#include "llm/conversion/mixture.h"
#include "llm/dtype/quantize.h"
#include "llm/files/gguf_file.h"
#include "llm/weights/weight_provider.h"
#include "tests/child_process.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::conversion_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<float> wave(size_t n, float step) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(step * static_cast<float>(i)) / 8;
  return values;
}

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A container of a family that no table has: conversion needs no configuration.
GgufBytes container() {
  return GgufBytes()
      .string("general.architecture", "unheard-of")
      .scalar<uint32_t>("general.file_type", 4, 0)
      .scalar<float>("unheard-of.scale", 6, 0.5f)
      .strings("tokenizer.ggml.tokens", {"a", "bc", ""})
      .array<int32_t>("tokenizer.ggml.token_type", 5, {1, 3, 6})
      .scalar<uint8_t>("tokenizer.ggml.add_bos_token", 7, 1)
      .tensor("token_embd.weight", {256, 4}, 0, bytes_of(wave(1024, 0.1f)))
      .tensor("blk.0.attn_norm.weight", {256}, 0, bytes_of(wave(256, 0.2f)))
      .tensor("blk.0.ffn_up.weight", {256, 3}, 0, bytes_of(wave(768, 0.3f)))
      .tensor("blk.0.ffn_gate.weight", {96, 3}, 0, bytes_of(wave(288, 0.4f)))
      .tensor("blk.0.ffn_gate_exps.weight", {32, 2, 3}, 0, bytes_of(wave(192, 0.5f)))
      .tensor("blk.0.odd.weight", {33, 2}, 0, bytes_of(wave(66, 0.6f)))
      .tensor("blk.0.ffn_norm.weight", {256}, 0, bytes_of(wave(256, 0.7f)));
}

class Conversion : public testing::Test {
 protected:
  fs::path write(const std::string& name, const GgufBytes& gguf) const {
    const std::vector<uint8_t> bytes = gguf.bytes();
    write_file(folder_.path() / name, std::string(bytes.begin(), bytes.end()));
    return folder_.path() / name;
  }
  ConversionReport convert(const fs::path& model, const std::string& type) const {
    return convert_model({model, output_, type, 2});
  }
  Gguf converted() const {
    return read_gguf_files(model_folder(output_), std::make_shared<const MappedFile>(output_));
  }
  std::string error_of(const fs::path& model, const std::string& type) const {
    try {
      convert(model, type);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "out.gguf";
};

const GgufTensor& find(const Gguf& gguf, const std::string& name) {
  for (const GgufTensor& tensor : gguf.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw Error(ErrorKind::kInternal, "no tensor " + name);
}

TEST_F(Conversion, KeepsTheMetadataExceptWhatIsAboutTheOldWeights) {
  convert(write("in.gguf", container()), "q8_0");
  const Gguf gguf = converted();
  EXPECT_EQ(gguf.find_string("general.architecture"), "unheard-of");
  EXPECT_EQ(gguf.find_unsigned("general.file_type"), 7u);
  EXPECT_EQ(gguf.find_number("unheard-of.scale"), 0.5);
  EXPECT_EQ(gguf.find("tokenizer.ggml.add_bos_token")->as_bool(), true);
  std::vector<std::string> tokens;
  GgufElements next(*gguf.find("tokenizer.ggml.tokens"));
  for (GgufValue token; next.next(token);) tokens.emplace_back(*token.as_string());
  EXPECT_THAT(tokens, ElementsAre("a", "bc", ""));
}

TEST_F(Conversion, QuantizesMatricesAndKeepsVectors) {
  const ConversionReport report = convert(write("in.gguf", container()), "q4_k");
  const Gguf gguf = converted();
  EXPECT_THAT(gguf.problems, IsEmpty());
  EXPECT_EQ(find(gguf, "token_embd.weight").format, "q6_k") << "it is the output matrix too";
  EXPECT_EQ(find(gguf, "blk.0.attn_norm.weight").format, "f32");
  EXPECT_EQ(find(gguf, "blk.0.ffn_gate.weight").format, "q5_0") << "rows of 96";
  EXPECT_EQ(find(gguf, "blk.0.ffn_gate_exps.weight").format, "q5_0") << "rows of 32";
  EXPECT_EQ(find(gguf, "blk.0.odd.weight").format, "f16") << "rows of 33";

  const GgufTensor& up = find(gguf, "blk.0.ffn_up.weight");
  EXPECT_EQ(up.format, "q4_k");
  const std::vector<float> values = wave(768, 0.3f);
  std::vector<uint8_t> expected(dtype_bytes(DType::kQ4_K, 768));
  quantize(DType::kQ4_K, values.data(), 768, expected.data());
  EXPECT_EQ(std::vector<uint8_t>(up.data.begin(), up.data.end()), expected);

  ASSERT_EQ(report.fallbacks.size(), 2u);
  EXPECT_EQ(report.fallbacks[0].wanted, "q4_k");
  EXPECT_EQ(report.fallbacks[0].used, "q5_0");
  EXPECT_EQ(report.fallbacks[0].n_tensors, 2u);
  EXPECT_EQ(report.bytes, fs::file_size(output_));
  EXPECT_FALSE(report.was_quantized);
}

TEST_F(Conversion, CopiesTensorsThatHaveTheFormat) {
  const fs::path first = write("in.gguf", container());
  convert(first, "q5_k");
  const std::string once = read_file(output_);
  fs::rename(output_, first);
  const ConversionReport report = convert(first, "q5_k");
  EXPECT_EQ(read_file(output_), once);
  EXPECT_FALSE(report.was_quantized);
  EXPECT_TRUE(convert(first, "q8_0").was_quantized);
}

TEST_F(Conversion, DoesNotDependOnTheNumberOfThreads) {
  const fs::path model = write("in.gguf", container());
  convert_model({model, output_, "q4_k", 1});
  const std::string one = read_file(output_);
  convert_model({model, output_, "q4_k", 5});
  EXPECT_EQ(read_file(output_), one);
}

TEST_F(Conversion, ReportsProgressUpToTheSizeOfTheFile) {
  ConversionOptions options{write("in.gguf", container()), output_, "f16"};
  uint64_t last = 0, size = 0;
  options.on_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    size = total;
  };
  convert_model(options);
  EXPECT_EQ(last, size);
  EXPECT_EQ(last, fs::file_size(output_));
}

TEST_F(Conversion, RejectsUnknownTypesAndTheModelItself) {
  const fs::path model = write("in.gguf", container());
  EXPECT_THAT(error_of(model, "q9_z"), HasSubstr("type: expected one of f32, f16"));
  output_ = model;
  EXPECT_THAT(error_of(model, "f16"), HasSubstr("expected another file than the model's"));
}

TEST_F(Conversion, RejectsTensorsThatCannotBeReadAndLeavesNothing) {
  const fs::path unknown =
      write("unknown.gguf", container().tensor("x.weight", {256, 1}, 16, std::vector<uint8_t>(66)));
  EXPECT_THAT(error_of(unknown, "q8_0"), HasSubstr("tensor x.weight in a known format"));
  const fs::path empty = write("empty.gguf", container().entry("x.weight", {0, 1ull << 60}, 0, 0));
  EXPECT_THAT(error_of(empty, "q8_0"), HasSubstr("tensor x.weight to hold weights"));
  std::vector<float> infinite = wave(256, 1);
  infinite[200] = INFINITY;
  const fs::path bad =
      write("bad.gguf", container().tensor("x.weight", {128, 2}, 0, bytes_of(infinite)));
  EXPECT_THAT(error_of(bad, "q8_0"), HasSubstr("found inf in row 1, column 72"));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("bad.gguf", "empty.gguf", "unknown.gguf"));
}

TEST_F(Conversion, LeavesTheOldFileWhenTheDiskIsFull) {
  const fs::path model = write("in.gguf", container());
  write_file(output_, "old");
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 2000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of(model, "f32");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("out.gguf"));
  EXPECT_EQ(read_file(output_), "old");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("in.gguf", "out.gguf"));
}

TEST(Mixture, GivesSensitiveMatricesOfSomeLayersMoreBits) {
  const Mixture& mixture = find_mixture("q4_k");
  const MixtureModel model{16, true};
  const auto format = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    return wanted_format(mixture, model, name, shape);
  };
  const std::vector<uint64_t> square = {256, 256};
  EXPECT_EQ(format("output.weight", square), DType::kQ6_K);
  EXPECT_EQ(format("token_embd.weight", square), DType::kQ4_K);
  std::string sensitive;
  for (int i = 0; i < 16; ++i) {
    const auto dtype = format("blk." + std::to_string(i) + ".attn_v.weight", square);
    sensitive += dtype == DType::kQ6_K ? '6' : '4';
  }
  // llama.cpp's Q4_K_M for 16 layers: the first and last two, and every third one between.
  EXPECT_EQ(sensitive, "6644644644644666");
  EXPECT_EQ(format("blk.3.ffn_gate_inp.weight", square), DType::kF32) << "the router";
  EXPECT_EQ(format("blk.3.attn_q.bias", {256}), DType::kF32);
}

}  // namespace
}  // namespace vesper::conversion_test
