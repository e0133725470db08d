// A Vulkan device under test, with the validation layers if installed, and random operands.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "llm/table/device.h"
#include "llm/vulkan/vulkan_device.h"

namespace vesper {

// The tested device: number VESPER_TEST_VULKAN, or the first usable one, preferably a GPU. Fails
// the test if there is none.
uint32_t test_device_index();

// One device for all kernel tests of a program. A message of the validation layers fails the
// running test.
class VulkanTest : public testing::Test {
 protected:
  static Device& device();
  // A new device. Messages fail the test too.
  static std::unique_ptr<Device> open(VulkanOptions options);
  // Until the end of the test, device() is a new device with these changes of VESPER_TUNING.
  void tune(const std::string& changes, const VulkanOptions& options = {});
  void TearDown() override { tuned_.reset(); }
  // The tiles of products of many rows that GPUs use, entries of VESPER_TUNING, or of those with
  // weights in the order of matrices; the first one if the tested device has no matrix units.
  static std::vector<std::string> matmul_tiles(bool in_matrices = false);

  std::vector<float> random(size_t n, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(n);
    for (float& value : values) value = normal(engine_);
    return values;
  }

  // A buffer of f32 or f16; `values` are rounded to its format.
  static Operand store(std::vector<float>& values, DType dtype);
  // A buffer of n NaNs.
  static Operand poisoned(size_t n, DType dtype);
  static std::vector<float> load(const Operand& operand, DType dtype);
  template <class T>
  static Operand store_structs(const std::vector<T>& values) {
    const Operand operand = device().allocate(values.size() * sizeof(T), "structs");
    device().write(operand, values.data());
    return operand;
  }
  template <class T>
  static std::vector<T> load_structs(const Operand& operand) {
    std::vector<T> values(operand.bytes / sizeof(T));
    device().read(operand, values.data());
    return values;
  }
  // Uploads a matrix of a file format; `values` are rounded to it.
  static Weight upload(std::vector<float>& values, uint32_t n_out, uint32_t n_in, DType file,
                       Compute compute, WeightUse use = WeightUse::kAnyRows,
                       MatrixKind kind = MatrixKind::kPlain);
  // Of a product of contiguous rows by `weight`, with n_out results in each row.
  static MatmulParams product(uint32_t n_rows, uint32_t n_out, const Weight& weight, DType in,
                              DType out);
  // Fails the test too if a kernel keeps matrices in memory, where the driver tells.
  static void run(const DispatchTable& table);

  std::mt19937 engine_{20261121};

 private:
  static std::unique_ptr<Device> tuned_;
};

uint16_t half_bits(float value);
float half_value(uint16_t bits);

}  // namespace vesper
