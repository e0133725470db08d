#include "llm/table/device.h"

#include "error/error.h"

namespace vesper {

namespace {

struct ComputeName {
  Compute compute;
  std::string_view name;
};
constexpr ComputeName kComputeNames[] = {{Compute::kAuto, "auto"},
                                         {Compute::kF32, "f32"},
                                         {Compute::kF16, "f16"},
                                         {Compute::kBF16, "bf16"},
                                         {Compute::kI8, "int8"}};

}  // namespace

Compute parse_compute(std::string_view name) {
  for (const ComputeName& row : kComputeNames) {
    if (row.name == name) return row.compute;
  }
  throw Error(ErrorKind::kUsage, "compute",
              "expected auto, f32, f16, bf16 or int8, found '" + std::string(name) + "'");
}

std::string_view compute_name(Compute compute) {
  for (const ComputeName& row : kComputeNames) {
    if (row.compute == compute) return row.name;
  }
  return "unknown";
}

DevicePolicy::DevicePolicy() {
  for (auto& of_storage : products_) {
    for (size_t i = 0; i < kComputeCount; ++i) {
      of_storage[i].activations = compute_name(static_cast<Compute>(i));
    }
  }
}

}  // namespace vesper
