#include "llm/dtype/kv_types.h"

#include <algorithm>
#include <array>

#include "error/error.h"
#include "shaders/kernel_params.h"

namespace vesper {
namespace {

constexpr uint32_t kBlock = 32;  // elements that share a scale

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NamedType, 4> kTypes = {
    {{"f16", DType::kF16}, {"f32", DType::kF32}, {"int8", DType::kQ8_0}, {"int4", DType::kQ4_0}}};

DType type_named(std::string_view name, std::string_view text) {
  const auto* const found = std::ranges::find(kTypes, name, &NamedType::name);
  if (found != kTypes.end()) return found->dtype;
  throw Error(ErrorKind::kUsage, "kv type",
              "expected f16, f32, int8 or k=TYPE,v=TYPE, found " + std::string(text));
}

std::string name_of(DType dtype) {
  return std::string(std::ranges::find(kTypes, dtype, &NamedType::dtype)->name);
}

}  // namespace

uint32_t KvTypes::codes() const {
  return kv_dtypes_of(static_cast<uint32_t>(keys), static_cast<uint32_t>(values));
}

KvTypes parse_kv_types(std::string_view text) {
  std::string_view keys = text, values = text;
  if (text.starts_with("k=")) {
    const size_t comma = std::min(text.find(','), text.size());
    keys = text.substr(2, comma - 2);
    values = text.substr(comma);
    // Without values, the text is no name of a type.
    values = values.starts_with(",v=") ? values.substr(3) : text;
  }
  const KvTypes types(type_named(keys, text), type_named(values, text));
  if (types.keys == DType::kQ4_0) {
    throw Error(ErrorKind::kUsage, "kv type",
                "expected keys of f16, f32 or int8, found int4: with 4-bit keys the perplexity of "
                "SmolLM2 rises by 14%; k=int8,v=int4 has 4-bit values only");
  }
  return types;
}

std::string kv_types_text(const KvTypes& types) {
  if (types.keys == types.values) return name_of(types.keys);
  return "k=" + name_of(types.keys) + ",v=" + name_of(types.values);
}

void check_kv_types(const KvTypes& types, uint32_t head_dim) {
  for (const DType dtype : {types.keys, types.values}) {
    if (!kv_is_quantized(static_cast<uint32_t>(dtype)) || head_dim % kBlock == 0) continue;
    throw Error(ErrorKind::kUsage, "kv type",
                "expected f16 or f32 for heads of " + std::to_string(head_dim) +
                    " elements, found " + name_of(dtype) + ", which has blocks of " +
                    std::to_string(kBlock));
  }
}

}  // namespace vesper
