// A block of rows times a packed weight in oneDNN: sums only, everything around it is ours.
//
// Serves every format and CPU for which there is no kernel of ours. A primitive is made for each
// number of rows that a task can have, at load, with scratchpad from the caller; it runs on the
// calling thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "llm/device.h"

namespace vesper {

class OnednnProduct {
 public:
  // `weight` is [n_out, n_in] of f32, bf16 bits or int8 for kF32, kBF16, kI8; not kept.
  // Throws Error(kDevice) if oneDNN refuses.
  OnednnProduct(const void* weight, uint32_t n_out, uint32_t n_in, Compute compute);

  // Makes the primitive for `rows` rows, if it is not there. Throws Error(kDevice).
  void prepare(uint32_t rows);
  // Bytes that a call with `rows` rows needs. prepare(rows) must have been called.
  size_t scratchpad_bytes(uint32_t rows) const;
  // sums [rows, n_out] (f32, int32 for kI8) = in [rows, n_in] (as the weight) times the weight.
  void multiply(uint32_t rows, const void* in, void* sums, void* scratchpad) const;

  uint64_t bytes() const { return weight_.get_desc().get_size(); }

 private:
  struct Plan {
    dnnl::matmul primitive;
    dnnl::memory::desc in, sums, scratchpad;
  };
  dnnl::matmul::primitive_desc describe(uint32_t rows, const dnnl::memory::desc& weight) const;

  uint32_t n_out_, n_in_;
  Compute compute_;
  dnnl::memory weight_;  // in the layout that the primitive for kBlockRows rows asked for
  std::map<uint32_t, Plan> plans_;  // by rows
};

}  // namespace vesper
