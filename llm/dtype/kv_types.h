// Number formats of the keys and values in a KV cache.
//
// f32, f16, q8_0 (int8) and, for values only, q4_0 (int4). Rows of the quantized ones are codes
// with an f16 scale per 32 (int8) or 16 elements (int4), quantized when they are written. Used by
// llm/models/kv_cache, and by the options of sessions and programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "llm/dtype/dtype.h"

namespace vesper {

struct KvTypes {
  DType keys = DType::kF16;
  DType values = DType::kF16;

  KvTypes() = default;
  // The same format for both.
  KvTypes(DType both) : keys(both), values(both) {}
  KvTypes(DType of_keys, DType of_values) : keys(of_keys), values(of_values) {}
  friend bool operator==(const KvTypes&, const KvTypes&) = default;

  // For parameters of commands: kv_dtypes_of (shaders/kernel_params.h).
  uint32_t codes() const;
};

// Reads "TYPE" or "k=TYPE,v=TYPE", with f16, f32, int8 and, for values, int4. Throws Error(kUsage)
// for other text.
KvTypes parse_kv_types(std::string_view text);
// The text that parse_kv_types reads.
std::string kv_types_text(const KvTypes& types);

// Throws Error(kUsage) if heads of this size cannot be quantized so: blocks have 32 elements.
void check_kv_types(const KvTypes& types, uint32_t head_dim);

}  // namespace vesper
