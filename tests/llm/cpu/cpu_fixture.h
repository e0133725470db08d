// What the CPU device's tests share: random matrices as files have them, and a table run once.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "llm/cpu/cpu_device.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"

namespace vesper::testing {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::vector<float> random_numbers(size_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(-spread, spread);
  std::vector<float> numbers(n);
  for (float& number : numbers) number = distribution(random);
  return numbers;
}

inline uint32_t code(DType dtype) { return static_cast<uint32_t>(dtype); }
inline size_t size_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// Numbers as a buffer or file of f32, f16 or bf16 holds them.
inline std::vector<uint8_t> encode(const std::vector<float>& numbers, DType dtype) {
  std::vector<uint8_t> bytes(numbers.size() * size_of(dtype));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(&bytes[i * 4], &numbers[i], 4);
    } else {
      const uint16_t bits = dtype == DType::kF16 ? f32_to_f16(numbers[i]) : f32_to_bf16(numbers[i]);
      std::memcpy(&bytes[i * 2], &bits, 2);
    }
  }
  return bytes;
}

inline std::vector<float> decode(const std::vector<uint8_t>& bytes, DType dtype) {
  std::vector<float> numbers(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(&numbers[i], &bytes[i * 4], 4);
    } else {
      uint16_t bits;
      std::memcpy(&bits, &bytes[i * 2], 2);
      numbers[i] = dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
  }
  return numbers;
}

// What the numbers are after a buffer of that format.
inline std::vector<float> rounded(const std::vector<float>& numbers, DType dtype) {
  return decode(encode(numbers, dtype), dtype);
}

// A matrix as a file has it.
struct FileMatrix {
  FileMatrix(const std::vector<float>& numbers, uint64_t rows, uint64_t cols, DType dtype)
      : bytes(encode(numbers, dtype)) {
    view.file_name = view.name = "test.weight";
    view.dtype = dtype;
    view.shape = {rows, cols};
    view.data = bytes.data();
    view.bytes = bytes.size();
  }
  FileMatrix(const FileMatrix&) = delete;
  MatrixSource source() const { return {{&view}}; }

  std::vector<uint8_t> bytes;
  TensorView view;
};

template <class T>
Operand store(Device& device, const std::vector<T>& values, const char* label = "test") {
  const Operand buffer = device.allocate(values.size() * sizeof(T), label);
  device.write(buffer, values.data());
  return buffer;
}

template <class T>
std::vector<T> fetch(Device& device, const Operand& from) {
  std::vector<T> values(from.bytes / sizeof(T));
  device.read(from, values.data());
  return values;
}

// A buffer of n NaNs of that format.
inline Operand nan_buffer(Device& device, size_t n, DType dtype) {
  return store(device, encode(std::vector<float>(n, kNaN), dtype), "output");
}

inline std::unique_ptr<Device> cpu(uint32_t n_threads = 2) {
  DeviceOptions options;
  options.n_threads = n_threads;
  return open_cpu_device(options);
}

inline void run_once(Device& device, const DispatchTable& table) {
  device.run(device.record(table));
}

}  // namespace vesper::testing
