// Values of GGUF metadata, and ggml's tensor types.
#include <array>
#include <cstring>
#include <limits>

#include "llm/files/gguf_file.h"

namespace vesper {
namespace {

template <typename T>
T load(std::span<const uint8_t> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Bytes of a scalar, 0 for strings and arrays.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

// In ggml's order, without withdrawn types (4, 5, 31 to 33, 36 to 38).
constexpr std::array<GgmlType, 32> kGgmlTypes = {{
    {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},
    {3, "q4_1", 32, 20},      {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},
    {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},      {10, "q2_k", 256, 84},
    {11, "q3_k", 256, 110},   {12, "q4_k", 256, 144},   {13, "q5_k", 256, 176},
    {14, "q6_k", 256, 210},   {15, "q8_k", 256, 292},   {16, "iq2_xxs", 256, 66},
    {17, "iq2_xs", 256, 74},  {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},
    {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},  {22, "iq2_s", 256, 82},
    {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},
    {29, "iq1_m", 256, 56},   {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},
    {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},
}};

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr std::array<const char*, 13> kNames = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                         "i32", "f32", "bool", "string", "array",
                                                         "u64", "i64", "f64"};
  return kNames.at(static_cast<size_t>(type));
}

const GgmlType* find_ggml_type(uint32_t number) {
  for (const GgmlType& row : kGgmlTypes) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

std::optional<int64_t> GgufValue::as_signed() const {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(bytes);
    case GgufType::kI8:
      return load<int8_t>(bytes);
    case GgufType::kU16:
      return load<uint16_t>(bytes);
    case GgufType::kI16:
      return load<int16_t>(bytes);
    case GgufType::kU32:
      return load<uint32_t>(bytes);
    case GgufType::kI32:
      return load<int32_t>(bytes);
    case GgufType::kI64:
      return load<int64_t>(bytes);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> GgufValue::as_unsigned() const {
  if (type == GgufType::kU64) return load<uint64_t>(bytes);
  const auto value = as_signed();
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> GgufValue::as_number() const {
  if (type == GgufType::kF32) return load<float>(bytes);
  if (type == GgufType::kF64) return load<double>(bytes);
  if (type == GgufType::kU64) return static_cast<double>(load<uint64_t>(bytes));
  const auto value = as_signed();
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

std::optional<bool> GgufValue::as_bool() const {
  if (type != GgufType::kBool) return std::nullopt;
  return bytes[0] != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

GgufElements::GgufElements(const GgufValue& array)
    : type_(array.element_type), rest_(array.bytes), n_left_(array.n_elements) {
  if (array.type != GgufType::kArray) n_left_ = 0;
}

bool GgufElements::next(GgufValue& element) {
  if (n_left_ == 0) return false;
  --n_left_;
  element = {};
  element.type = type_;
  uint64_t header = 0;
  uint64_t size = scalar_bytes(type_);
  if (type_ == GgufType::kString) {
    header = sizeof(uint64_t);
    size = load<uint64_t>(rest_);
  } else if (type_ == GgufType::kArray) {
    header = sizeof(uint32_t) + sizeof(uint64_t);
    element.element_type = static_cast<GgufType>(load<uint32_t>(rest_));
    element.n_elements = load<uint64_t>(rest_.subspan(sizeof(uint32_t)));
    element.bytes = rest_.subspan(header);
    // The length of the inner array is known only from its elements.
    if (const uint64_t each = scalar_bytes(element.element_type); each != 0) {
      size = each * element.n_elements;
    } else {
      GgufElements inner(element);
      GgufValue skipped;
      while (inner.next(skipped)) {
      }
      size = element.bytes.size() - inner.rest_.size();
    }
  }
  element.bytes = rest_.subspan(header, size);
  rest_ = rest_.subspan(header + size);
  return true;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &metadata[found->second].value;
}

std::optional<uint64_t> Gguf::find_unsigned(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : value->as_unsigned();
}

std::optional<double> Gguf::find_number(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : value->as_number();
}

std::optional<std::string_view> Gguf::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : value->as_string();
}

}  // namespace vesper
