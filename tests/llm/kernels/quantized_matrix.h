// Random quantized matrices as files have them, with what their numbers are.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "llm/dtype/dtype.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"

namespace vesper {

// A format of a file; `group` and `scale` are of MLX's only.
struct QuantizedFormat {
  DType dtype;
  uint32_t group = 0;
  DType scale = DType::kF16;
  std::string name() const {
    return std::string(dtype_descriptor(dtype).name) +
           (group == 0
                ? ""
                : ", groups of " + std::to_string(group) + " in " + dtype_descriptor(scale).name);
  }
  // Numbers that a row must have a multiple of.
  uint32_t unit() const { return group == 0 ? dtype_descriptor(dtype).block : group; }
};

inline std::vector<QuantizedFormat> quantized_formats() {
  std::vector<QuantizedFormat> formats;
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,
        DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL}) {
    formats.push_back({dtype});
  }
  formats.push_back({DType::kAffine2, 64, DType::kF16});
  formats.push_back({DType::kAffine3, 64, DType::kBF16});
  formats.push_back({DType::kAffine4, 32, DType::kF16});
  formats.push_back({DType::kAffine4, 64, DType::kBF16});
  formats.push_back({DType::kAffine4, 128, DType::kF32});
  formats.push_back({DType::kAffine5, 32, DType::kBF16});
  formats.push_back({DType::kAffine6, 64, DType::kF16});
  formats.push_back({DType::kAffine8, 128, DType::kF16});
  return formats;
}

class QuantizedMatrix {
 public:
  QuantizedMatrix(const QuantizedFormat& format, uint32_t n_out, uint32_t n_in, uint32_t seed)
      : numbers(size_t{n_out} * n_in) {
    std::mt19937 random(seed);
    view.name = view.file_name = "test.weight";
    view.dtype = format.dtype;
    view.shape = {n_out, n_in};
    bytes.resize(dtype_bytes(format.dtype, numbers.size()));
    view.data = bytes.data();
    view.bytes = bytes.size();
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    if (format.group == 0) {
      set_scales(random);
      read_f32(view, numbers.data());
    } else {
      add_groups(format, random);
    }
  }
  QuantizedMatrix(const QuantizedMatrix&) = delete;
  MatrixSource source() const { return {{&view}, false}; }

  TensorView view;
  std::vector<uint8_t> bytes, scales, biases;
  std::vector<float> numbers;  // [n_out, n_in]

 private:
  static float draw(std::mt19937& random, float least, float most) {
    return std::uniform_real_distribution<float>(least, most)(random);
  }

  // Gives every block scales that are numbers, of either sign.
  void set_scales(std::mt19937& random) {
    struct Place {
      DType dtype;
      std::vector<uint32_t> offsets;
      float most;
    };
    const Place places[] = {{DType::kQ4_0, {0}, 0.1f},      {DType::kQ4_1, {0, 2}, 0.1f},
                            {DType::kQ5_0, {0}, 0.05f},     {DType::kQ5_1, {0, 2}, 0.05f},
                            {DType::kQ8_0, {0}, 0.01f},     {DType::kQ2_K, {80, 82}, 0.02f},
                            {DType::kQ3_K, {108}, 0.01f},   {DType::kQ4_K, {0, 2}, 0.002f},
                            {DType::kQ5_K, {0, 2}, 0.001f}, {DType::kQ6_K, {208}, 0.0003f},
                            {DType::kIQ4_NL, {0}, 0.01f}};
    const uint32_t block_bytes = dtype_descriptor(view.dtype).block_bytes;
    for (const Place& place : places) {
      if (place.dtype != view.dtype) continue;
      for (size_t block = 0; block < bytes.size(); block += block_bytes) {
        for (const uint32_t offset : place.offsets) {
          const uint16_t bits = f32_to_f16(draw(random, -place.most, place.most));
          std::memcpy(&bytes[block + offset], &bits, 2);
        }
      }
    }
  }

  void add_groups(const QuantizedFormat& format, std::mt19937& random) {
    const auto bits = static_cast<uint32_t>(bytes.size() * 8 / numbers.size());
    const float most = 1.0f / static_cast<float>(1 << bits);
    const auto put = [&](std::vector<uint8_t>& to, float value) {
      if (format.scale == DType::kF32) {
        to.resize(to.size() + 4);
        std::memcpy(to.data() + to.size() - 4, &value, 4);
        return value;
      }
      const bool half = format.scale == DType::kF16;
      const uint16_t stored = half ? f32_to_f16(value) : f32_to_bf16(value);
      to.resize(to.size() + 2);
      std::memcpy(to.data() + to.size() - 2, &stored, 2);
      return half ? f16_to_f32(stored) : bf16_to_f32(stored);
    };
    for (size_t i = 0; i < numbers.size(); i += format.group) {
      const float scale = put(scales, draw(random, -most, most));
      const float bias = put(biases, draw(random, -0.5f, 0.5f));
      for (size_t j = i; j < i + format.group; ++j) {
        // One stream of bits, the lowest first.
        uint32_t code = 0;
        for (uint32_t b = 0; b < bits; ++b) {
          const size_t at = j * bits + b;
          code |= static_cast<uint32_t>(bytes[at / 8] >> at % 8 & 1) << b;
        }
        numbers[j] = scale * static_cast<float>(code) + bias;
      }
    }
    view.groups = {format.group, format.scale, scales.data(), biases.data()};
  }
};

}  // namespace vesper
