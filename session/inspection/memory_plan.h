// The memory that a model takes on a device, found by building it without loading it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "session/inspection/observed_model.h"

namespace vesper {

// In bytes. 0: unknown.
struct MemoryNeed {
  std::string device;  // "cpu"
  std::string compute;
  uint64_t weights = 0, kv_cache = 0, scratch = 0;
  // If programs and the device share memory: this process with the model's vocabulary (its peak so
  // far), and the additional memory while weights are stored (a matrix and its part of the file at
  // once).
  uint64_t program = 0, loading = 0;
  uint64_t available = 0;
  uint32_t n_ctx = 0;  // positions of a language model's planned cache
  // A lower limit computed from the file sizes, not planned.
  bool at_least = false;
  std::string problem;  // why the device cannot run it; empty if it can
  uint64_t total() const { return weights + kv_cache + scratch + program + loading; }
};

// `kv_types`: of a decoder's cache. Does not open the model's files again. On the CPU it
// includes this process, because other programs need as much. Throws Error(kModel, kDevice,
// kUsage).
MemoryNeed plan_memory(const OpenModel& model, std::unique_ptr<Device> device,
                       const std::string& compute, const KvTypes& kv_types = {});

// Bytes of a model alone: its weights, caches and scratch, without this process and without what
// only loading needs. `device`: as for open_device(). On the CPU a cache takes memory when it is
// first written, so that this is an upper limit. Throws as plan_memory() does.
uint64_t model_bytes(const OpenModel& model, const std::string& device, const std::string& compute,
                     const ModelUse& use = {});

}  // namespace vesper
