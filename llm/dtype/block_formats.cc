#include "llm/dtype/block_formats.h"

#include <cstring>

namespace vesper {
namespace {

uint32_t u16_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

uint32_t u32_at(const uint8_t* at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

void unpack_nibbles(const uint8_t* from, uint8_t* codes) {
  for (uint32_t j = 0; j < 16; ++j) codes[j] = from[j] & 15;
  for (uint32_t j = 0; j < 16; ++j) codes[j + 16] = from[j] >> 4;
}

void unpack_five_bits(const uint8_t* from, uint32_t high, uint8_t* codes) {
  for (uint32_t j = 0; j < 16; ++j) {
    codes[j] = static_cast<uint8_t>((from[j] & 15) | (high >> j & 1) << 4);
    codes[j + 16] = static_cast<uint8_t>(from[j] >> 4 | (high >> (j + 16) & 1) << 4);
  }
}

// dmin is subtracted in a file and added in an UnpackedBlock.
uint32_t negated_f16(uint32_t bits) { return bits ^ 0x8000; }

// The eight 6-bit scales and minimums in the 12 bytes of q4_k and q5_k: the first four pairs lie
// whole in the low bits of bytes 0-3 and 4-7; the last four have their low bits in bytes 8-11 and
// their high bits above the first four.
void unpack_six_bit_scales(const uint8_t* packed, int8_t* scales, int8_t* minimums) {
  for (uint32_t k = 0; k < 4; ++k) {
    scales[k] = static_cast<int8_t>(packed[k] & 63);
    minimums[k] = static_cast<int8_t>(packed[k + 4] & 63);
    scales[k + 4] = static_cast<int8_t>((packed[k + 8] & 15) | (packed[k] >> 6) << 4);
    minimums[k + 4] = static_cast<int8_t>(packed[k + 8] >> 4 | (packed[k + 4] >> 6) << 4);
  }
}

}  // namespace

void unpack_q4_0(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  unpack_nibbles(block + 2, to.codes);
}

void unpack_q4_1(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  *to.minimums = u16_at(block + 2);
  unpack_nibbles(block + 4, to.codes);
}

void unpack_q5_0(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  unpack_five_bits(block + 6, u32_at(block + 2), to.codes);
}

void unpack_q5_1(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  *to.minimums = u16_at(block + 2);
  unpack_five_bits(block + 8, u32_at(block + 4), to.codes);
}

void unpack_q8_0(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  for (uint32_t j = 0; j < 32; ++j) to.codes[j] = block[2 + j] ^ 0x80;
}

void unpack_iq4_nl(const uint8_t* block, const UnpackedBlock& to) {
  // ggml-common.h, kvalues_iq4nl.
  constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
  *to.scales = u16_at(block);
  unpack_nibbles(block + 2, to.codes);
  for (uint32_t j = 0; j < 32; ++j) {
    to.codes[j] = static_cast<uint8_t>(kValues[to.codes[j]] + 128);
  }
}

void unpack_q2_k(const uint8_t* block, const UnpackedBlock& to) {
  for (uint32_t k = 0; k < 16; ++k) {
    to.part_scales[k] = static_cast<int8_t>(block[k] & 15);
    to.part_minimums[k] = static_cast<int8_t>(block[k] >> 4);
  }
  // The four runs of 32 elements of a half share their bytes.
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* low = block + 16 + 32 * (run / 4);
    for (uint32_t l = 0; l < 32; ++l) to.codes[32 * run + l] = low[l] >> (2 * (run % 4)) & 3;
  }
  *to.scales = u16_at(block + 80);
  *to.minimums = negated_f16(u16_at(block + 82));
}

void unpack_q3_k(const uint8_t* block, const UnpackedBlock& to) {
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t *low = block + 32 + 32 * (run / 4), *high = block;  // bit `run` of each byte
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((low[l] >> (2 * (run % 4)) & 3) | (high[l] >> run & 1) << 2);
    }
  }
  const uint8_t* packed = block + 96;
  for (uint32_t k = 0; k < 16; ++k) {
    const int low = packed[k % 8] >> (4 * (k / 8)) & 15;
    const int high = packed[8 + k % 4] >> (2 * (k / 4)) & 3;
    to.part_scales[k] = static_cast<int8_t>((low | high << 4) - 32);
  }
  *to.scales = u16_at(block + 108);
}

void unpack_q4_k(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  *to.minimums = negated_f16(u16_at(block + 2));
  unpack_six_bit_scales(block + 4, to.part_scales, to.part_minimums);
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* nibbles = block + 16 + 32 * (run / 2);
    for (uint32_t l = 0; l < 32; ++l) to.codes[32 * run + l] = nibbles[l] >> (4 * (run % 2)) & 15;
  }
}

void unpack_q5_k(const uint8_t* block, const UnpackedBlock& to) {
  *to.scales = u16_at(block);
  *to.minimums = negated_f16(u16_at(block + 2));
  unpack_six_bit_scales(block + 4, to.part_scales, to.part_minimums);
  const uint8_t* high = block + 16;  // bit `run` of byte l: the fifth bit of element 32 run + l
  for (uint32_t run = 0; run < 8; ++run) {
    const uint8_t* nibbles = block + 48 + 32 * (run / 2);
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((nibbles[l] >> (4 * (run % 2)) & 15) | (high[l] >> run & 1) << 4);
    }
  }
}

void unpack_q6_k(const uint8_t* block, const UnpackedBlock& to) {
  // Runs k and k + 2 of a half share their low bytes.
  for (uint32_t run = 0; run < 8; ++run) {
    const uint32_t half = run / 4, k = run % 4;
    const uint8_t *low = block + 64 * half + 32 * (k % 2), *high = block + 128 + 32 * half;
    for (uint32_t l = 0; l < 32; ++l) {
      to.codes[32 * run + l] =
          static_cast<uint8_t>((low[l] >> (4 * (k / 2)) & 15) | (high[l] >> (2 * k) & 3) << 4);
    }
  }
  std::memcpy(to.part_scales, block + 192, 16);
  *to.scales = u16_at(block + 208);
}

}  // namespace vesper
