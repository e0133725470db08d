// Plans one command: a function per kernel, in the file of its kind (plan_matmul.cc,
// plan_attention.cc, plan_rows.cc, plan_sampling.cc). Used by kernel_plan.cc only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "llm/table/dispatch_table.h"
#include "llm/vulkan/context/vulkan_memory.h"
#include "llm/vulkan/kernels/block_layout.h"
#include "llm/vulkan/kernels/kernel_plan.h"
#include "llm/vulkan/kernels/weight_layout.h"

namespace vesper {

// Blocks of `block` that cover `n`.
inline uint32_t blocks(uint32_t n, uint32_t block) { return n / block + (n % block != 0); }

class KernelPlanner {
 public:
  KernelPlanner(const Command& command, const std::string& label, const VulkanMemory& memory,
                const VulkanCapabilities& capabilities)
      : command_(command),
        label_(label),
        memory_(memory),
        capabilities_(capabilities),
        tuning_(capabilities.tuning) {}

  KernelPlan plan();

 private:
  // A function of the kernel's name for each kernel: checks, constants, push constants, grid.
#define VESPER_PLAN_KERNEL(id, name, params) void name(const params& p);
  VESPER_KERNELS(VESPER_PLAN_KERNEL)
#undef VESPER_PLAN_KERNEL

  [[noreturn]] void fail(const std::string& what) const;
  void require(bool condition, const char* what) const {
    if (!condition) fail(std::string("expected ") + what);
  }
  void require_float(uint32_t dtype) const {
    require(dtype == kDTypeF32 || dtype == kDTypeF16, "f32 or f16 between commands");
  }
  void require_kv_dtype(uint32_t dtype, uint32_t page_rows, uint32_t head_dim) const;
  void require_kv_dtypes(uint32_t kv_dtypes, uint32_t page_rows, uint32_t head_dim) const {
    require_kv_dtype(key_dtype(kv_dtypes), page_rows, head_dim);
    require_kv_dtype(value_dtype(kv_dtypes), page_rows, head_dim);
  }
  void require_weight(uint32_t weight_format) const;

  uint32_t at_most(uint32_t n_threads) const {
    return std::min(n_threads, capabilities_.max_workgroup_threads);
  }
  // Of a kernel without a fixed shape.
  uint32_t threads() const { return at_most(tuning_.threads); }

  // Of the device, or assumed if the driver does not report it.
  uint32_t n_processors() const {
    return capabilities_.n_processors != 0 ? capabilities_.n_processors : tuning_.n_processors;
  }

  bool present(uint32_t operand) const { return command_.operands[operand].present(); }
  uint64_t address(uint32_t operand) const {
    return present(operand) ? memory_.address(command_.operands[operand]) : 0;
  }
  // The DType of a weight.
  static uint32_t storage(uint32_t weight_format) {
    return weight_format & ~(kWeightHalfProducts | kWeightInt8Products | kWeightInMatrices |
                             kWeightGatesInMatrices);
  }
  static bool in_matrices(uint32_t weight_format) {
    return (weight_format & kWeightInMatrices) != 0;
  }
  static bool in_blocks(uint32_t weight_format) {
    return (weight_format & kWeightKindMask) == kWeightBlocks;
  }

  void shader(Shader shader, std::initializer_list<uint32_t> constants);
  void push(const void* data, size_t bytes);
  void push_addresses(uint32_t n);
  // Lets the kernel, for `n_rows` rows, wait by counters. Its push constants have room at
  // `push_at`.
  void allow_waiting(uint32_t push_at, uint32_t n_rows);

  // Of products.
  struct VectorShape {
    uint32_t threads, outs, out_groups, split;
  };
  // Whether every row of `in` starts and ends at a multiple of `n` elements (or of 16 bytes, if
  // that is less).
  bool rows_aligned(const MatmulParams& p, uint32_t n) const;
  // A tile of matmul_cooperative, and how many workgroups divide its columns.
  struct TileChoice {
    MatmulTile tile;
    uint32_t n_splits;
  };
  TileChoice choose_tile(const MatmulParams& p) const;
  uint64_t estimated_ns(const MatmulParams& p, const TileChoice& choice) const;
  // The most rows for which matmul_vector is faster than matrix units.
  uint32_t vector_rows(const MatmulParams& p) const;
  VectorShape vector_shape(const MatmulParams& p) const;
  void matmul_cooperative(const MatmulParams& p, uint32_t has);
  void matmul_vector(const MatmulParams& p, uint32_t has);
  const Int8Shape& int8_shape(const MatmulParams& p) const;
  void matmul_int8(const MatmulParams& p, uint32_t has);
  // The address of the tiles after the slots in operand `groups`.
  void push_tiles(uint32_t groups, uint32_t n_slots);
  // out, in, weight, bias, no residual, scale.
  void push_expert_operands();
  void expert_vector(const ExpertMatmulParams& p, const MatmulParams& one, uint32_t has,
                     uint32_t in_slots);

  // Of attention.
  // How a workgroup of paged_attention works, with `sharing` heads that share keys.
  const StepAttention& step_attention(const PagedAttentionParams& p, uint32_t sharing,
                                      uint32_t longest) const;
  // Workgroups per row of paged_attention with `n_groups` workgroups for all heads.
  uint32_t splits(const PagedAttentionParams& p, uint32_t n_groups, uint32_t longest) const;
  // Workgroups of `rows` rows. shaders/attention/attention_rows.glsl maps them to packed sequences.
  std::array<uint32_t, 3> attention_groups(const AttentionParams& p, uint32_t rows) const;
  // Whether attention_tile.glsl exponentiates scores in registers.
  bool in_registers() const {
    return capabilities_.matrix_rows_in_quads && tuning_.attention_shared == 0;
  }
  // The tile of attention_tile.glsl, if it supports this head size.
  std::optional<AttentionTile> attention_tile(uint32_t head_dim) const;
  // These plan the kernel for matrix units if it can run the command.
  bool paged_attention_cooperative(const PagedAttentionParams& p);
  bool attention_cooperative(const AttentionParams& p);

  const Command& command_;
  const std::string& label_;
  const VulkanMemory& memory_;
  const VulkanCapabilities& capabilities_;
  const VulkanTuning& tuning_;
  KernelPlan plan_;
};

}  // namespace vesper
