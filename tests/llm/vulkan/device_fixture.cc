#include "tests/llm/vulkan/device_fixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "error/error.h"
#include "llm/vulkan/context/vulkan_tuning.h"
#include "tests/llm/test_devices.h"
#include "tests/llm/vulkan/matrix_model.h"

namespace vesper {

uint32_t test_device_index() {
  if (const char* number = std::getenv("VESPER_TEST_VULKAN")) {
    return static_cast<uint32_t>(std::strtoul(number, nullptr, 10));
  }
  const std::vector<VulkanListing> devices = list_vulkan_devices();
  int found = -1;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].unusable.empty()) continue;
    if (devices[i].is_hardware_gpu) return static_cast<uint32_t>(i);
    if (found < 0) found = static_cast<int>(i);
  }
  if (found < 0)
    throw Error(ErrorKind::kDevice, "the tests need a Vulkan device: install lavapipe");
  return static_cast<uint32_t>(found);
}

std::unique_ptr<Device> VulkanTest::open(VulkanOptions options) {
  if (!std::getenv("VESPER_TEST_NO_VALIDATION")) {
    options.on_message = validated_options().on_message;
    options.synchronization = true;
  }
  if (std::getenv("VESPER_TEST_MATRIX_MODEL")) options.matrix_model = matrix_model;
  options.pipeline_statistics = true;
  return open_vulkan_device(test_device_index(), options);
}

MatmulParams VulkanTest::product(uint32_t n_rows, uint32_t n_out, const Weight& weight, DType in,
                                 DType out) {
  MatmulParams p{};
  p.n_rows = p.rows_per_batch = n_rows;
  p.n_out = p.out_row_stride = n_out;
  p.n_in = p.in_row_stride = weight.n_in;
  p.in_dtype = static_cast<uint32_t>(in);
  p.out_dtype = static_cast<uint32_t>(out);
  p.weight_format = weight.format;
  return p;
}

void VulkanTest::run(const DispatchTable& table) {
  const ProgramId program = device().record(table);
  for (const CommandVariant& form : device().variants(program)) {
    // On an H100 only attention with heads of 256 needs memory, 240 bytes. Loops over matrices that
    // the compiler did not unroll needed 672 and more.
    const bool has_matrices = form.variant.ends_with("_cooperative");
    EXPECT_LE(has_matrices ? form.spilled_bytes : 0, 256u) << form.variant;
  }
  device().run(program);
}

std::unique_ptr<Device> VulkanTest::tuned_;

void VulkanTest::tune(const std::string& changes, const VulkanOptions& options) {
  device();
  const std::string all = std::getenv("VESPER_TUNING");
  setenv("VESPER_TUNING", (all + "," + changes).c_str(), 1);
  tuned_.reset();
  tuned_ = open(options);
  setenv("VESPER_TUNING", all.c_str(), 1);
}

Device& VulkanTest::device() {
  if (tuned_) return *tuned_;
  static const std::unique_ptr<Device> device = [] {
    // Software devices use int8 products, and every device fuses norms of all rows.
    setenv("VESPER_TUNING", "int8_rows=8x8", 0);
    return open({});
  }();
  return *device;
}

std::vector<std::string> VulkanTest::matmul_tiles(bool in_matrices) {
  const std::string name = in_matrices ? "matrix_tile=" : "matmul_tile=";
  // More threads than blocks of weights, and numbers of rows that steps do not divide.
  if (std::getenv("VESPER_TEST_MATRIX_MODEL")) {
    return {name + "64x64x32x32x32", name + "64x64x32x16x8", name + "48x80x32x24x40",
            name + "32x64x64x16x8"};
  }
  const VulkanTuning tuning = vulkan_tuning(true, "");
  std::span<const MatmulTile> tiles = tuning.tiles;
  if (in_matrices) tiles = tuning.matrix_tiles;
  std::vector<std::string> texts;
  for (const MatmulTile& t : tiles) {
    texts.push_back(name + std::to_string(t.rows) + "x" + std::to_string(t.outs) + "x" +
                    std::to_string(t.depth) + "x" + std::to_string(t.subgroup_rows) + "x" +
                    std::to_string(t.subgroup_outs));
  }
  for (const DeviceInfo::Capability& ability : VulkanTest::device().info().capabilities) {
    if (ability.name == "matrix units" && !ability.what.ends_with("f16")) texts.resize(1);
  }
  return texts;
}

uint16_t half_bits(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
float half_value(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

Operand VulkanTest::store(std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) return store_structs(values);
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    halves[i] = half_bits(values[i]);
    values[i] = half_value(halves[i]);
  }
  return store_structs(halves);
}

Operand VulkanTest::poisoned(size_t n, DType dtype) {
  std::vector<float> values(n, std::numeric_limits<float>::quiet_NaN());
  return store(values, dtype);
}

std::vector<float> VulkanTest::load(const Operand& operand, DType dtype) {
  if (dtype == DType::kF32) return load_structs<float>(operand);
  std::vector<float> values;
  for (const uint16_t bits : load_structs<uint16_t>(operand)) values.push_back(half_value(bits));
  return values;
}

Weight VulkanTest::upload(std::vector<float>& values, uint32_t n_out, uint32_t n_in, DType file,
                          Compute compute, WeightUse use, MatrixKind kind) {
  TensorView tensor;
  tensor.name = tensor.file_name = "test.weight";
  tensor.dtype = file;
  tensor.shape = {n_out, n_in};
  std::vector<uint16_t> halves;
  std::vector<int8_t> integers;
  if (file == DType::kF16) {
    for (float& value : values) {
      halves.push_back(half_bits(value));
      value = half_value(halves.back());
    }
    tensor.data = halves.data();
    tensor.bytes = halves.size() * 2;
  } else if (file == DType::kI8) {
    for (size_t row = 0; row < n_out; ++row) {
      float greatest = 0.0f;
      for (size_t k = 0; k < n_in; ++k)
        greatest = std::max(greatest, std::abs(values[row * n_in + k]));
      tensor.scale.push_back(greatest / 127.0f);
      for (size_t k = 0; k < n_in; ++k) {
        float& value = values[row * n_in + k];
        integers.push_back(static_cast<int8_t>(std::lrint(value / tensor.scale.back())));
        value = static_cast<float>(integers.back()) * tensor.scale.back();
      }
    }
    tensor.data = integers.data();
    tensor.bytes = integers.size();
  } else {
    tensor.data = values.data();
    tensor.bytes = values.size() * 4;
  }
  return device().upload({{&tensor}, kind}, use, compute);
}

}  // namespace vesper
