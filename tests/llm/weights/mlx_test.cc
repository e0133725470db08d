// MLX's quantized safetensors from the reader, compared with codes taken from the stream bit by
// bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "error/error.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/kernels/quantized_matrix.h"

namespace vesper::mlx_test {
namespace {

using testing::HasSubstr;

struct Entry {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};

std::string safetensors(const std::vector<Entry>& entries) {
  std::string header = "{", data;
  for (const Entry& entry : entries) {
    std::string shape;
    for (const uint64_t size : entry.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += (header.size() > 1 ? "," : "") + ("\"" + entry.name) + "\":{\"dtype\":\"" +
              entry.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + entry.bytes.size()) +
              "]}";
    data.append(entry.bytes.begin(), entry.bytes.end());
  }
  header += "}";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

class Mlx : public testing::Test {
 protected:
  Mlx() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Mlx() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& config, const std::vector<Entry>& entries) const {
    std::ofstream(folder_ / "config.json") << config;
    std::ofstream(folder_ / "model.safetensors", std::ios::binary) << safetensors(entries);
  }
  std::string failure() const {
    try {
      open_weights(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return error.what();
    }
    return "";
  }

  // The three tensors of a module.
  static std::vector<Entry> triple(const std::string& module, const QuantizedMatrix& matrix) {
    const auto& view = matrix.view;
    const uint64_t rows = view.shape[0];
    const std::string dtype = view.groups.dtype == DType::kF32    ? "F32"
                              : view.groups.dtype == DType::kBF16 ? "BF16"
                                                                  : "F16";
    const uint64_t n_groups = view.shape[1] / view.groups.group;
    return {{module + ".weight", "U32", {rows, matrix.bytes.size() / rows / 4}, matrix.bytes},
            {module + ".scales", dtype, {rows, n_groups}, matrix.scales},
            {module + ".biases", dtype, {rows, n_groups}, matrix.biases}};
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("mlx_test_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(Mlx, ReadsEveryBitWidthAndGroupSize) {
  for (const QuantizedFormat& format : quantized_formats()) {
    if (format.group == 0) continue;
    SCOPED_TRACE(format.name());
    const QuantizedMatrix matrix(format, 5, 2 * format.group, 3);
    const auto bits = static_cast<uint32_t>(matrix.bytes.size() * 8 / matrix.numbers.size());
    std::vector<Entry> entries = triple("model.layers.0.mlp.up_proj", matrix);
    entries.push_back({"model.norm.weight", "F32", {2}, std::vector<uint8_t>(8)});
    write("{\"model_type\":\"llama\",\"quantization\":{\"group_size\":" +
              std::to_string(format.group) + ",\"bits\":" + std::to_string(bits) + "}}",
          entries);
    const auto weights = open_weights(folder_);
    EXPECT_EQ(weights->tensors().size(), 2u);
    EXPECT_TRUE(weights->unreadable().empty());
    bool found = false;
    for (const TensorView& tensor : weights->tensors()) {
      if (tensor.file_name != "model.layers.0.mlp.up_proj.weight") continue;
      found = true;
      EXPECT_EQ(tensor.shape, matrix.view.shape);
      EXPECT_EQ(read_f32(tensor), matrix.numbers);
    }
    EXPECT_TRUE(found);
  }
}

TEST_F(Mlx, ModulesMayHaveTheirOwnBitWidth) {
  const QuantizedMatrix narrow({DType::kAffine4, 64}, 3, 128, 1),
      wide({DType::kAffine8, 32}, 3, 128, 2);
  std::vector<Entry> entries = triple("a", narrow);
  for (Entry& entry : triple("b", wide)) entries.push_back(std::move(entry));
  write(R"({"model_type":"llama","quantization":{"group_size":64,"bits":4,)"
        R"("b":{"group_size":32,"bits":8},"c":false}})",
        entries);
  const auto weights = open_weights(folder_);
  ASSERT_EQ(weights->tensors().size(), 2u);
  for (const TensorView& tensor : weights->tensors()) {
    EXPECT_EQ(read_f32(tensor), tensor.file_name == "a.weight" ? narrow.numbers : wide.numbers);
  }
}

TEST_F(Mlx, RefusesInconsistentTensors) {
  const QuantizedMatrix matrix({DType::kAffine4, 64}, 3, 128, 1);
  const std::string config = R"({"model_type":"llama","quantization":{"group_size":64,"bits":4}})";
  const std::vector<Entry> whole = triple("a", matrix);
  write(config, {whole[0], whole[1]});
  EXPECT_THAT(failure(), HasSubstr("a.biases"));
  std::vector<Entry> entries = whole;
  entries[1].shape = {6, 1};
  write(config, entries);
  EXPECT_THAT(failure(), HasSubstr("a.scales"));
  write(R"({"model_type":"llama","quantization":{"group_size":64,"bits":7}})", whole);
  EXPECT_THAT(failure(), HasSubstr("found 7 and 64"));
  write(R"({"model_type":"llama","quantization":{"group_size":128,"bits":6}})", whole);
  EXPECT_THAT(failure(), HasSubstr("whole groups of 128"));
  entries = whole;
  for (const int more : {-4, 4}) {
    entries[0].bytes.resize(whole[0].bytes.size() + static_cast<size_t>(more));
    write(config, entries);
    EXPECT_THAT(failure(), HasSubstr("bytes by its shape, found"));
  }
  entries = whole;
  entries[0].shape = {3, 32};
  write(config, entries);
  EXPECT_THAT(failure(), HasSubstr("a."));
}

}  // namespace
}  // namespace vesper::mlx_test
