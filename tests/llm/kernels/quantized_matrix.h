// Random quantized matrices as files have them, with what their numbers are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "llm/dtype/dtype.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"

namespace vesper {

// A format of a file; `group` and `scale` are of formats with separate scales only.
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

// Whether a code of the file takes more bits in memory than in the file: values without even steps,
// and base-3 digits.
inline bool has_wider_codes(DType dtype) {
  return dtype == DType::kIQ4_NL || dtype == DType::kIQ4_XS || dtype == DType::kMXFP4 ||
         dtype == DType::kTQ1_0;
}

// Every format of the table; those of MLX with some groups and kinds of scales.
inline std::vector<QuantizedFormat> quantized_formats() {
  std::vector<QuantizedFormat> formats;
  for (const DTypeDescriptor& dtype : dtypes()) {
    if (dtype.unpack != nullptr && dtype.blocks.group != 0) formats.push_back({dtype.dtype});
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
    if (format.dtype == DType::kMXFP4) {
      for (size_t at = 0; at < bytes.size(); at += 17) bytes[at] = small_e8m0(random);
      read_f32(view, numbers.data());
    } else if (format.group == 0) {
      set_scales(random);
      read_f32(view, numbers.data());
    } else {
      add_groups(format, random);
    }
  }
  QuantizedMatrix(const QuantizedMatrix&) = delete;
  MatrixSource source() const { return {{&view}}; }

  TensorView view;
  std::vector<uint8_t> bytes, scales, biases;
  std::vector<float> numbers;  // [n_out, n_in]

 private:
  static float draw(std::mt19937& random, float least, float most) {
    return std::uniform_real_distribution<float>(least, most)(random);
  }

  // 2^-8 to 2^-3.
  static uint8_t small_e8m0(std::mt19937& random) {
    return static_cast<uint8_t>(119 + random() % 6);
  }

  // Where a block has its f16 scale and minimum: an f16 that is written there is found again.
  static std::vector<uint32_t> scale_offsets(const DTypeDescriptor& dtype) {
    std::vector<uint32_t> offsets;
    for (uint32_t at = 0; at + 1 < dtype.block_bytes; ++at) {
      std::vector<uint8_t> block(dtype.block_bytes);
      block[at] = 0x34;
      block[at + 1] = 0x12;
      const Unpacked unpacked(dtype, block.data());
      if (unpacked.scale == 0x1234 || (unpacked.minimum & 0x7fff) == 0x1234) offsets.push_back(at);
    }
    return offsets;
  }

  struct Unpacked {
    Unpacked(const DTypeDescriptor& dtype, const uint8_t* block) {
      dtype.unpack(block, 1, {codes, &scale, &minimum, part_scales, part_minimums});
    }
    uint8_t codes[256];
    uint32_t scale = 0, minimum = 0;
    int8_t part_scales[16] = {}, part_minimums[16] = {};
  };

  // Gives every block scales that are numbers, of either sign, such that elements are at most 1.5.
  void set_scales(std::mt19937& random) {
    const DTypeDescriptor& dtype = dtype_descriptor(view.dtype);
    const std::vector<uint32_t> offsets = scale_offsets(dtype);
    int largest_part = 1;
    for (size_t block = 0; block < bytes.size(); block += dtype.block_bytes) {
      for (const int part : Unpacked(dtype, &bytes[block]).part_scales) {
        largest_part = std::max(largest_part, std::abs(part));
      }
    }
    const float most = 1.5f / static_cast<float>(largest_part << dtype.blocks.bits);
    for (size_t block = 0; block < bytes.size(); block += dtype.block_bytes) {
      for (const uint32_t offset : offsets) {
        const uint16_t bits = f32_to_f16(draw(random, -most, most));
        std::memcpy(&bytes[block + offset], &bits, 2);
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
