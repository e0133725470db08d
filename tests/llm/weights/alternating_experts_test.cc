// Experts of gpt-oss in safetensors. The formula of each element is written from the layout's
// description.
#include "llm/weights/hugging_face/alternating_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <random>

#include "error/error.h"

namespace vesper::alternating_experts_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kExperts = 3, kRows = 6, kColumns = 64;
const std::string kPrefix = "model.layers.5.mlp.experts.";

class AlternatingExperts : public testing::Test {
 protected:
  void add_plain(const std::string& name, std::vector<uint64_t> shape, DType dtype = DType::kF32) {
    TensorView tensor;
    tensor.name = tensor.file_name = kPrefix + name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.bytes = dtype_bytes(dtype, tensor.n_elements());
    tensor.data = random_bytes(tensor.bytes).data();
    contents_.tensors.push_back(std::move(tensor));
  }
  void add_words(const std::string& name, std::vector<uint64_t> shape, const char* format = "U8") {
    uint64_t n = 1;
    for (const uint64_t size : shape) n *= size;
    const std::vector<uint8_t>& bytes = random_bytes(n);
    contents_.unreadable.push_back({kPrefix + name, format, std::move(shape), bytes.data(), n});
  }
  // Of the split model.
  std::vector<float> values(const std::string& name) {
    const WeightProvider provider("model", contents_);
    return provider.read(provider.require("decoder.layers.5.experts." + name));
  }
  std::string error() {
    try {
      split_alternating_experts(contents_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  ModelContents contents_ = [] {
    ModelContents contents;
    contents.files = {
        std::make_shared<const MappedFile>("model.safetensors", std::vector<uint8_t>(1))};
    return contents;
  }();

 private:
  // Small numbers in any format.
  const std::vector<uint8_t>& random_bytes(uint64_t n) {
    std::vector<uint8_t>& bytes = bytes_.emplace_back(n);
    for (size_t i = 0; i < n; ++i) {
      bytes[i] = i % 4 == 3 ? 0x3f : static_cast<uint8_t>(random_() % 128);
    }
    return bytes;
  }
  std::deque<std::vector<uint8_t>> bytes_;
  std::mt19937 random_{3};
};

TEST_F(AlternatingExperts, AreTransposedInPlainFormats) {
  add_plain("gate_up_proj", {kExperts, kColumns, kRows});
  add_plain("gate_up_proj_bias", {kExperts, kRows});
  add_plain("down_proj", {kExperts, kColumns, kRows});
  add_plain("down_proj_bias", {kExperts, kRows});
  const std::vector<TensorView> source = contents_.tensors;
  split_alternating_experts(contents_);
  for (uint64_t e = 0; e < kExperts; ++e) {
    const std::string expert = std::to_string(e) + ".";
    const auto check = [&](const std::string& name, size_t stack, uint64_t first, uint64_t step) {
      const std::vector<float> all = read_f32(source[stack]);
      const uint64_t columns = source[stack].shape.size() == 3 ? kColumns : 1;
      const std::vector<float> found = values(expert + name);
      ASSERT_EQ(found.size(), kRows / step * columns);
      for (size_t i = 0; i < found.size(); ++i) {
        const uint64_t row = first + i / columns * step, column = i % columns;
        ASSERT_EQ(found[i], all[(e * columns + column) * kRows + row]) << name << ", " << i;
      }
    };
    check("gate.weight", 0, 0, 2);
    check("up.weight", 0, 1, 2);
    check("gate.bias", 1, 0, 2);
    check("up.bias", 1, 1, 2);
    check("down.weight", 2, 0, 1);
    check("down.bias", 3, 0, 1);
  }
}

TEST_F(AlternatingExperts, KeepTheirValuesInMxfp4) {
  add_words("gate_up_proj_blocks", {kExperts, kRows, kColumns / 32, 16});
  add_words("gate_up_proj_scales", {kExperts, kRows, kColumns / 32});
  add_words("down_proj_blocks", {kExperts, kRows, kColumns / 32, 16});
  add_words("down_proj_scales", {kExperts, kRows, kColumns / 32});
  const std::vector<UnreadableTensor> source = contents_.unreadable;
  split_alternating_experts(contents_);
  EXPECT_TRUE(contents_.unreadable.empty());
  constexpr float kE2M1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const auto check = [&](const std::string& name, uint64_t expert, size_t stack, uint64_t first,
                         uint64_t step) {
    const auto* blocks = static_cast<const uint8_t*>(source[stack].data);
    const auto* scales = static_cast<const uint8_t*>(source[stack + 1].data);
    const std::vector<float> found = values(std::to_string(expert) + name);
    ASSERT_EQ(found.size(), kRows / step * kColumns);
    for (size_t i = 0; i < found.size(); ++i) {
      const uint64_t row = expert * kRows + first + i / kColumns * step;
      const uint64_t at = row * kColumns + i % kColumns;
      const int code = blocks[at / 2] >> (4 * (at % 2)) & 15;
      const float magnitude = std::ldexp(kE2M1[code % 8], scales[at / 32] - 127);
      ASSERT_EQ(found[i], code > 7 ? -magnitude : magnitude) << name << ", " << i;
    }
  };
  for (uint64_t e = 0; e < kExperts; ++e) {
    check(".gate.weight", e, 0, 0, 2);
    check(".up.weight", e, 0, 1, 2);
    check(".down.weight", e, 2, 0, 1);
  }
}

TEST_F(AlternatingExperts, ReportAMissingPart) {
  add_words("down_proj_blocks", {kExperts, kRows, 2, 16});
  EXPECT_THAT(error(), HasSubstr("expected a tensor model.layers.5.mlp.experts.down_proj_scales"));
}

TEST_F(AlternatingExperts, ReportScalesOfAnotherShape) {
  add_words("down_proj_blocks", {kExperts, kRows, 2, 16});
  add_words("down_proj_scales", {kExperts, kRows, 3});
  EXPECT_THAT(error(), HasSubstr("down_proj_scales: expected U8 of shape [3, 6, 2] in 36 bytes, "
                                 "found U8 of shape [3, 6, 3] in 54 bytes"));
}

TEST_F(AlternatingExperts, ReportBlocksOfAnotherSize) {
  add_words("down_proj_blocks", {kExperts, kRows, 2, 8});
  add_words("down_proj_scales", {kExperts, kRows, 2});
  EXPECT_THAT(error(), HasSubstr("expected U8 of shape [3, 6, 2, 16]"));
}

TEST_F(AlternatingExperts, ReportSizesThatOverflow) {
  add_words("down_proj_blocks", {1, 1, 1, 16});
  add_words("down_proj_scales", {1, 1, 1});
  for (UnreadableTensor& tensor : contents_.unreadable) {
    tensor.shape[1] = tensor.shape[2] = UINT32_MAX;
    tensor.shape[0] = 512;
  }
  EXPECT_THAT(error(), HasSubstr("expected U8 of shape [512, 4294967295, 4294967295, 16]"));
}

TEST_F(AlternatingExperts, ReportStacksThatAreNone) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{6, 64}, {0, 6, 64}, {3, 0, 64}, {513, 2, 2}}) {
    contents_.tensors.clear();
    add_plain("down_proj", shape);
    EXPECT_THAT(error(), HasSubstr("down_proj: expected 3 sizes above 0, the first at most 512"));
  }
}

TEST_F(AlternatingExperts, ReportAnOddNumberOfRows) {
  add_plain("gate_up_proj", {2, 64, 5});
  EXPECT_THAT(error(), HasSubstr("expected an even number of rows, found 5"));
}

TEST_F(AlternatingExperts, ReportOtherFormats) {
  add_plain("down_proj", {2, 64, 6}, DType::kI32);
  EXPECT_THAT(error(), HasSubstr("expected f32, f16 or bf16, found i32"));
  contents_.tensors.clear();
  add_words("down_proj", {2, 64, 6}, "F8_E4M3");
  EXPECT_THAT(error(), HasSubstr("expected f32, f16 or bf16, found F8_E4M3"));
}

TEST_F(AlternatingExperts, LeaveOtherTensorsAlone) {
  add_plain("down_proj_other", {2, 3});
  add_plain("0.down_proj.weight", {2, 3});
  split_alternating_experts(contents_);
  EXPECT_EQ(contents_.tensors.size(), 2u);
  EXPECT_FALSE(contents_.compute);
}

}  // namespace
}  // namespace vesper::alternating_experts_test
