// In place of the kernels' dot_instructions.h: the same instructions as functions.
#pragma once

#include <immintrin.h>

#define VESPER_VDPBF16PS(sum, a, b) vesper::vector_model::add_bf16_pairs(sum, a, b)
#define VESPER_VPDPBUSD(sum, a, b) vesper::vector_model::add_byte_quads(sum, a, b)
#define VESPER_VEX_VPDPBUSD(sum, a, b) vesper::vector_model::add_byte_quads(sum, a, b)
#define VESPER_VPDPWSSD_BROADCAST(sum, a, b_address) \
  vesper::vector_model::add_int16_pairs(sum, a, b_address)
