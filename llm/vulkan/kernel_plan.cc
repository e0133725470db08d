#include "llm/vulkan/kernel_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "error/error.h"
#include "llm/vulkan/block_layout.h"
#include "llm/vulkan/weight_layout.h"

namespace vesper {
namespace {

uint32_t blocks(uint32_t n, uint32_t block) { return n / block + (n % block != 0); }

class Planner {
 public:
  Planner(const Command& command, const std::string& label, const VulkanMemory& memory,
          const VulkanCapabilities& capabilities)
      : command_(command),
        label_(label),
        memory_(memory),
        capabilities_(capabilities),
        tuning_(capabilities.tuning) {}

  KernelPlan plan() {
    switch (command_.kernel) {
#define VESPER_PLAN_KERNEL(id, name, params) \
  case Kernel::id:                           \
    name(command_.params_as<params>());      \
    break;
      VESPER_KERNELS(VESPER_PLAN_KERNEL)
#undef VESPER_PLAN_KERNEL
    }
    for (uint32_t i = 0; i < 3; ++i) {
      if (plan_.groups[i] > capabilities_.max_groups[i]) {
        fail("needs " + std::to_string(plan_.groups[i]) + " workgroups, the device has " +
             std::to_string(capabilities_.max_groups[i]));
      }
    }
    return plan_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInternal, label_ + " (" + kernel_name(command_.kernel) + "): " + what);
  }
  void require(bool condition, const char* what) const {
    if (!condition) fail(std::string("expected ") + what);
  }

  uint32_t at_most(uint32_t n_threads) const {
    return std::min(n_threads, capabilities_.max_workgroup_threads);
  }
  // Of a kernel without a fixed shape.
  uint32_t threads() const { return at_most(tuning_.threads); }

  bool present(uint32_t operand) const { return command_.operands[operand].present(); }
  uint64_t address(uint32_t operand) const {
    return present(operand) ? memory_.address(command_.operands[operand]) : 0;
  }

  void shader(Shader shader, std::initializer_list<uint32_t> constants) {
    plan_.pipeline.shader = shader;
    std::copy(constants.begin(), constants.end(), plan_.pipeline.constants.begin());
  }
  void push(const void* data, size_t bytes) {
    if (plan_.push_bytes + bytes > plan_.push.size()) fail("more to push than fits");
    std::memcpy(plan_.push.data() + plan_.push_bytes, data, bytes);
    plan_.push_bytes += static_cast<uint32_t>(bytes);
  }
  void push_addresses(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t value = address(i);
      push(&value, sizeof value);
    }
  }

  void require_float(uint32_t dtype) const {
    require(dtype == kDTypeF32 || dtype == kDTypeF16, "f32 or f16 between commands");
  }
  // The DType of a weight.
  static uint32_t storage(uint32_t weight_format) {
    return weight_format & ~(kWeightHalfProducts | kWeightInt8Products);
  }
  static bool in_blocks(uint32_t weight_format) {
    return (weight_format & kWeightKindMask) == kWeightBlocks;
  }
  void require_weight(uint32_t weight_format) const {
    const uint32_t format = storage(weight_format);
    require(format == kDTypeF32 || format == kDTypeF16 || format == kDTypeI8 || in_blocks(format),
            "a weight of f32, f16, int8 or quantized blocks");
  }

  void embed(const EmbedParams& p) {
    require_weight(p.weight_format);
    const bool blocks_of_codes = in_blocks(p.weight_format);
    require(!blocks_of_codes || (present(4) && p.d_model % 32 == 0),
            "scales beside a quantized weight of whole blocks");
    const uint32_t has_scale = !blocks_of_codes && present(4);
    shader(Shader::kEmbed, {threads(), storage(p.weight_format), present(3) * 1u + has_scale * 2u});
    push_addresses(5);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.d_model, threads()), p.n_rows, 1};
  }

  void norm(const NormParams& p) {
    if (p.out_dtype != kDTypeI8) require_float(p.out_dtype);
    require_float(p.in_dtype);
    // Four values per thread if rows begin at multiples of 16 bytes.
    const bool aligned = p.d % 4 == 0 && p.row_stride % 4 == 0 &&
                         (address(0) | address(1) | address(2) | address(3) | address(5)) % 16 == 0;
    require(p.out_dtype != kDTypeI8 || (aligned && p.d % 32 == 0 && p.row_stride == p.d),
            "int8 rows of whole blocks");
    const uint32_t vectors = blocks(p.d, 4), subgroup = capabilities_.subgroup_size;
    const uint32_t n_threads =
        std::min(blocks(vectors, subgroup) * subgroup,
                 std::min(2 * threads(), capabilities_.max_workgroup_threads));
    shader(Shader::kNorm,
           {n_threads, blocks(vectors, n_threads), p.kind, p.out_dtype,
            present(3) * 1u + present(4) * 2u + present(5) * 4u, aligned, p.in_dtype});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {p.n_rows, 1, 1};
  }

  void matmul(const MatmulParams& p) {
    require_weight(p.weight_format);
    require(p.rows_per_batch != 0 && p.n_in != 0 && p.n_out != 0, "sizes above 0");
    require(p.activation <= kActivationSigmoid, "a known activation");
    const bool blocks_of_codes = in_blocks(p.weight_format);
    require(!blocks_of_codes || (present(5) && p.n_in % 32 == 0),
            "scales beside a quantized weight of whole blocks");
    const uint32_t has_scale = !blocks_of_codes && present(5);
    const uint32_t has = present(3) * 1u + present(4) * 2u + has_scale * 4u;
    if ((p.weight_format & kWeightInt8Products) && p.n_rows <= tuning_.int8_rows &&
        p.n_rows <= p.rows_per_batch && p.in_row_stride == p.n_in && p.out_row_stride == p.n_out &&
        rows_aligned(p, 4)) {
      return matmul_int8(p, has);
    }
    require_float(p.in_dtype);
    require_float(p.out_dtype);
    require(!present(7) && (p.flags & kMatmulGated) == 0,
            "few contiguous rows and a quantized weight for a norm or gates");
    const bool cooperative = (p.weight_format & kWeightHalfProducts) &&
                             capabilities_.has_cooperative_matrix() && rows_aligned(p, 8);
    const uint32_t vector_rows = !cooperative     ? kMaxVectorRows
                                 : p.n_in >= 4096 ? tuning_.vector_rows_of_long
                                                  : tuning_.vector_rows;
    if (p.n_rows <= std::min(vector_rows, kMaxVectorRows) && p.rows_per_batch >= p.n_rows) {
      return matmul_vector(p, has);
    }
    if (cooperative) return matmul_cooperative(p, has);
    uint32_t tile = 64;
    if (capabilities_.max_workgroup_threads >= 256 &&
        uint64_t{blocks(p.n_rows, 128)} * blocks(p.n_out, 128) >= tuning_.large_tile_groups) {
      tile = 128;
    }
    shader(Shader::kMatmulTiled,
           {tile / 8 * (tile / 8), tile, tile, p.in_dtype, p.out_dtype, storage(p.weight_format),
            p.flags, has, rows_aligned(p, 4), p.activation});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_out, tile), blocks(p.n_rows, tile), 1};
  }

  // Whether every row of `in` starts and ends at a multiple of `n` elements (or of 16 bytes, if
  // that is less).
  bool rows_aligned(const MatmulParams& p, uint32_t n) const {
    const uint64_t element = p.in_dtype == kDTypeF16 ? 2 : 4;
    const bool batches = p.n_rows > p.rows_per_batch;
    return p.n_in % n == 0 && p.in_row_stride % n == 0 &&
           (!batches || p.in_batch_stride % n == 0) &&
           address(1) % std::min<uint64_t>(16, n * element) == 0;
  }

  void matmul_cooperative(const MatmulParams& p, uint32_t has) {
    const MatmulTile tile = choose_tile(p);
    const uint32_t threads = tile.rows / tile.subgroup_rows * (tile.outs / tile.subgroup_outs) *
                             capabilities_.subgroup_size;
    const bool batches = p.n_rows > p.rows_per_batch;
    const bool aligned_out = p.n_out % 8 == 0 && p.out_row_stride % 8 == 0 &&
                             (!batches || p.out_batch_stride % 8 == 0) &&
                             (address(0) | address(3) | address(4) | address(5)) % 16 == 0;
    shader(Shader::kMatmulCooperative,
           {threads, tile.rows, tile.outs, tile.depth, tile.subgroup_rows, tile.subgroup_outs,
            capabilities_.matrix_m, capabilities_.matrix_k, p.in_dtype | p.out_dtype << 4, p.flags,
            has, aligned_out, storage(p.weight_format), p.activation, tile.buffers});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_out, tile.outs), blocks(p.n_rows, tile.rows), 1};
  }

  MatmulTile choose_tile(const MatmulParams& p) const {
    if (capabilities_.shared_bytes < 47 * 1024) return tuning_.tile_of_small_memory;
    if (p.n_rows <= 16) return tuning_.tile_of_16_rows;
    if (p.n_rows <= 32) return tuning_.tile_of_32_rows;
    const uint64_t groups = uint64_t{blocks(p.n_rows, 128)} * blocks(p.n_out, 128);
    if (groups < 100) return tuning_.tile_of_few;
    if (in_blocks(p.weight_format)) return tuning_.tile_of_blocks;
    // Large subgroup tiles are faster but fewer, and leave processors idle in the last round. Two
    // workgroups fit on a processor. An H200 reaches 235 TFLOP/s instead of 197 if the last round
    // is 90% full, but 183 instead of 205 if it is a third full.
    const uint64_t round = 2 * capabilities_.n_processors;
    if (round != 0 && groups * 20 >= (groups + round - 1) / round * round * 17) {
      return tuning_.tile_of_full_rounds;
    }
    return tuning_.tile;
  }

  struct VectorShape {
    uint32_t threads, outs, out_groups, split;
  };
  VectorShape vector_shape(const MatmulParams& p) const {
    const uint32_t subgroup = capabilities_.subgroup_size;
    const uint32_t columns = blocks(p.n_in, 32) * 32;
    // An output is split over subgroups until each has two loads left. Few outputs per subgroup
    // give enough subgroups to keep the memory busy. With one row by quantized weights a lane loads
    // 32 columns at once.
    const bool one_row_of_blocks = in_blocks(p.weight_format) && p.n_rows == 1;
    const bool many_outs = p.n_out >= 16384;
    uint32_t outs = many_outs ? tuning_.vector_outs_of_many : tuning_.vector_outs;
    uint32_t split = std::max(tuning_.vector_split, 1u);
    if (one_row_of_blocks && names_minimums(p.weight_format)) outs = tuning_.vector_outs_minimums;
    if (tuning_.vector_split == 0) {
      if (one_row_of_blocks) {
        if (!many_outs && columns >= 2048) split = 2;
      } else {
        while (split < tuning_.vector_subgroups && columns >= split * 2 * subgroup * 8 * 2) {
          split *= 2;
        }
      }
    }
    const uint32_t out_groups = std::max(tuning_.vector_subgroups / split, 1u);
    if (p.n_rows > 4) outs = std::min(outs, 2u);
    return {split * out_groups * subgroup, outs, out_groups, split};
  }

  void matmul_vector(const MatmulParams& p, uint32_t has) {
    const VectorShape shape = vector_shape(p);
    const uint32_t aligned = rows_aligned(p, 4);
    shader(Shader::kMatmulVector,
           {shape.threads, p.n_rows, shape.outs, shape.out_groups, shape.split, p.in_dtype,
            p.out_dtype, storage(p.weight_format), p.flags, has, aligned, p.activation});
    push_addresses(6);
    const uint32_t sizes[] = {p.n_out, p.n_in, p.in_row_stride, p.out_row_stride};
    push(sizes, sizeof sizes);
    plan_.groups = {blocks(p.n_out, shape.out_groups * shape.outs), 1, 1};
  }

  void matmul_int8(const MatmulParams& p, uint32_t has) {
    require(!present(7) || (p.in_dtype == kDTypeF32 && address(7) % 16 == 0), "a norm of f32 rows");
    require(p.in_dtype == kDTypeI8 || p.in_dtype <= kDTypeF16, "f32, f16 or int8 rows");
    const bool writes_int8 = p.out_dtype == kDTypeI8, gated = (p.flags & kMatmulGated) != 0;
    if (!writes_int8) require_float(p.out_dtype);
    const uint32_t subgroup = capabilities_.subgroup_size;
    const Int8Shape& shape =
        p.n_rows > 1  ? p.n_in >= 4096 ? tuning_.int8_rows_of_long : tuning_.int8_rows_of_short
        : writes_int8 ? tuning_.int8_row_to_int8
                      : tuning_.int8_row;
    // A workgroup writes whole blocks of 32 outputs, in turns if it has fewer.
    const uint32_t most = writes_int8 ? (gated ? 64 : 32) / shape.outs : shape.subgroups;
    const uint32_t subgroups =
        std::min({shape.subgroups, most, capabilities_.max_workgroup_threads / subgroup});
    const bool splits = p.n_in >= 64 * subgroup && p.n_out < 16384 && !writes_int8;
    const uint32_t split = splits ? std::min(shape.split, subgroups) : 1;
    const uint32_t outs = shape.outs, out_groups = subgroups / split;
    const uint32_t width = out_groups * (gated ? outs / 2 : outs);
    const uint32_t turns = writes_int8 ? blocks(32, width) : 1;
    require(!writes_int8 || (p.n_out % 32 == 0 && 32 % width == 0), "whole blocks of outputs");
    // A column of a row takes a byte, and a block 12 more.
    const uint32_t fitting = capabilities_.shared_bytes * 3 / 4 / (p.n_rows * 11 / 8 + 1);
    const uint32_t chunk =
        p.in_dtype == kDTypeI8 ? p.n_in : std::min(p.n_in, fitting / 1024 * 1024);
    shader(Shader::kMatmulInt8,
           {split * out_groups * subgroup, p.n_rows, outs, out_groups, split,
            p.in_dtype | p.out_dtype << 4, storage(p.weight_format), p.flags, has | present(7) * 8u,
            p.activation, p.n_out, p.n_in, chunk, std::bit_cast<uint32_t>(p.norm_epsilon), turns});
    for (const uint32_t operand : {0, 1, 2, 3, 4, 5, 7}) {
      const uint64_t value = address(operand);
      push(&value, sizeof value);
    }
    plan_.groups = {blocks(p.n_out, turns * width), 1, 1};
  }

  void write_kv(const WriteKvParams& p) {
    require_float(p.in_dtype);
    require_float(p.kv_dtype);
    shader(Shader::kWriteKv, {threads(), p.in_dtype, p.kv_dtype});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_kv_heads * p.head_dim, threads()), p.n_rows, 1};
  }

  void rope(const RopeParams& p) {
    require_float(p.dtype);
    require_float(p.kv_dtype);
    require(p.n_heads != 0 && p.n_kv_heads != 0 && p.head_dim != 0, "sizes above 0");
    require(2 * uint64_t{p.n_pairs} <= p.head_dim, "no more pairs than a head has");
    require(4 * uint64_t{p.head_dim} + 512 <= capabilities_.shared_bytes,
            "a head_dim that fits in shared memory");
    shader(Shader::kRope,
           {std::min(threads(), blocks(p.head_dim, 32) * 32), p.head_dim, p.dtype, p.kv_dtype,
            present(2) * 1u + present(3) * 2u + present(4) * 4u + present(7) * 8u});
    push_addresses(8);
    push(&p, sizeof p);
    plan_.groups = {p.n_heads + p.n_kv_heads * (present(7) ? 2 : 1), p.n_rows, 1};
  }

  void gated_activation(const GatedActivationParams& p) {
    require_float(p.in_dtype);
    require_float(p.out_dtype);
    shader(Shader::kGatedActivation, {threads(), p.activation, p.in_dtype, p.out_dtype});
    push_addresses(2);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.d, threads()), p.n_rows, 1};
  }

  void route_experts(const RouteExpertsParams& p) {
    const uint32_t subgroup = capabilities_.subgroup_size;
    require(p.n_used != 0 && p.n_used <= p.n_experts,
            "as many chosen experts as there are at most");
    require(p.n_experts <= 64 * subgroup, "64 experts per lane at most");
    shader(Shader::kRouteExperts, {subgroup});
    push_addresses(3);
    push(&p, sizeof p);
    plan_.groups = {p.n_rows, 1, 1};
  }

  void group_experts(const GroupExpertsParams& p) {
    require(p.n_used != 0 && p.n_experts <= kMostExperts, "512 experts at most");
    require(p.n_tiles >= most_expert_tiles(p.n_slots, p.n_experts), "room for every tile");
    shader(Shader::kGroupExperts, {threads(), present(2)});
    push_addresses(3);
    push_tiles(0, p.n_slots);
    push(&p, sizeof p);
  }

  // The address of the tiles after the slots in operand `groups`.
  void push_tiles(uint32_t groups, uint32_t n_slots) {
    const uint64_t tiles = address(groups) + sizeof(uint32_t) * uint64_t{n_slots};
    push(&tiles, sizeof tiles);
  }

  void expert_matmul(const ExpertMatmulParams& p) {
    require_weight(p.weight_format);
    require_float(p.in_dtype);
    require_float(p.out_dtype);
    require(p.n_used != 0 && p.n_in != 0 && p.n_out != 0 && p.n_slots != 0, "sizes above 0");
    const uint64_t weight_rows = uint64_t{p.n_experts} * p.n_out;
    require(weight_rows * blocks(p.n_in, 32) * 32 <= UINT32_MAX &&
                uint64_t{p.n_slots} * std::max(p.n_in, p.n_out) <= UINT32_MAX,
            "elements that 32 bits can count");
    const bool blocks_of_codes = in_blocks(p.weight_format);
    require(!blocks_of_codes || (present(4) && p.n_in % 32 == 0),
            "scales beside a quantized weight of whole blocks");
    MatmulParams one{};  // the product of one expert
    one.n_rows = one.rows_per_batch = present(7) ? p.n_slots : 1;
    one.n_out = one.out_row_stride = p.n_out;
    one.n_in = one.in_row_stride = p.n_in;
    one.in_dtype = p.in_dtype;
    one.out_dtype = p.out_dtype;
    one.weight_format = p.weight_format;
    const uint32_t has = present(3) * 1u + (!blocks_of_codes && present(4)) * 4u;
    const uint32_t in_slots = p.in_per_slot ? 1 : p.n_used;
    if (!present(7)) return expert_vector(p, one, has, in_slots);
    static_assert(kExpertTileRows == 64);
    constexpr uint32_t kTile = kExpertTileRows;
    shader(Shader::kMatmulTiled,
           {kTile / 8 * (kTile / 8), kTile, kTile, p.in_dtype, p.out_dtype,
            storage(p.weight_format), 0, has, rows_aligned(one, 4), kActivationNone, 1});
    push_expert_operands();
    push(&one, sizeof one);
    const uint64_t slots = address(7);
    push(&slots, sizeof slots);
    push_tiles(7, p.n_slots);
    push(&in_slots, sizeof in_slots);
    plan_.groups = {blocks(p.n_out, kTile), p.n_tiles, 1};
  }

  // out, in, weight, bias, no residual, scale.
  void push_expert_operands() {
    push_addresses(4);
    for (const uint64_t value : {uint64_t{0}, address(4)}) push(&value, sizeof value);
  }

  void expert_vector(const ExpertMatmulParams& p, const MatmulParams& one, uint32_t has,
                     uint32_t in_slots) {
    const VectorShape shape = vector_shape(one);
    shader(Shader::kMatmulVector, {shape.threads, 1, shape.outs, shape.out_groups, shape.split,
                                   p.in_dtype, p.out_dtype, storage(p.weight_format), 0, has,
                                   rows_aligned(one, 4), kActivationNone, present(6) ? 2u : 1u});
    push_expert_operands();
    const uint32_t sizes[] = {p.n_out, p.n_in, p.n_in, p.n_out};
    push(sizes, sizeof sizes);
    for (const uint32_t operand : {5, 6}) {
      const uint64_t value = address(operand);
      push(&value, sizeof value);
    }
    const uint32_t slots[] = {p.n_used, in_slots};
    push(slots, sizeof slots);
    plan_.groups = {blocks(p.n_out, shape.out_groups * shape.outs), p.n_slots, 1};
  }

  void combine_experts(const CombineExpertsParams& p) {
    require(p.n_used != 0, "sizes above 0");
    shader(Shader::kCombineExperts, {threads()});
    push_addresses(3);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.d, threads()), p.n_rows, 1};
  }

  void paged_attention(const PagedAttentionParams& p) {
    require_float(p.q_dtype);
    require_float(p.kv_dtype);
    if (p.out_dtype == kDTypeI8) {
      require(p.head_dim % 32 == 0, "int8 rows of whole blocks");
    } else {
      require_float(p.out_dtype);
    }
    require(p.head_dim % 8 == 0 && p.head_dim <= 256, "a head_dim of a multiple of 8 up to 256");
    require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
            "heads in equal groups on the heads of keys");
    require((address(2) | address(3)) % 16 == 0, "pages at multiples of 16 bytes");
    if (paged_attention_cooperative(p)) return;
    const uint32_t lanes = p.head_dim / 8;
    // The lanes that share a score must be a power of two within a subgroup.
    const bool shared_scores =
        tuning_.shares_scores && std::has_single_bit(lanes) && lanes <= capabilities_.subgroup_size;
    const uint32_t longest = p.kv_length != 0 ? p.kv_length : p.pages_per_sequence * p.page_rows;
    const uint32_t n_splits = splits(p, longest);
    uint32_t n_threads = threads();
    if (p.kv_length > 1024 && p.n_rows <= 8) n_threads = at_most(tuning_.long_attention_threads);
    const uint32_t chunk = std::min(1536u, blocks(longest, 32) * 32);
    while (n_threads > 64 && 4 * (chunk + n_threads * 8 + 128) > capabilities_.shared_bytes) {
      n_threads /= 2;
    }
    shader(Shader::kPagedAttention,
           {n_threads, n_threads, p.head_dim, p.q_dtype, p.kv_dtype, p.out_dtype,
            shared_scores ? lanes : 1, chunk, p.pages_per_sequence == 1, tuning_.keys_at_once,
            n_splits, p.page_rows});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {p.n_heads, p.n_rows, n_splits};
    if (n_splits == 1) return;
    const uint64_t scratch_addresses[2] = {};
    push(scratch_addresses, sizeof scratch_addresses);
    plan_.n_counters = p.n_rows * p.n_heads;
    plan_.scratch_bytes = sizeof(float) * uint64_t{plan_.n_counters} * n_splits * (p.head_dim + 2);
  }

  // Workgroups per row and head of paged_attention: more than one if rows and heads are too few for
  // the device and there may be many positions. An H200, 32 heads of 64 at position 4096: 63 us
  // with one, 16 with 8, 21 with 16.
  uint32_t splits(const PagedAttentionParams& p, uint32_t longest) const {
    if (p.kv_length != 0) return 1;
    if (tuning_.attention_splits != 0) return std::min(tuning_.attention_splits, 32u);
    const uint32_t processors =
        capabilities_.n_processors != 0 ? capabilities_.n_processors : tuning_.n_processors;
    return std::clamp(2 * processors / (p.n_rows * p.n_heads), 1u,
                      std::clamp(longest / 256, 1u, 32u));
  }

  // Plans the kernel for matrix units if it can run the command.
  bool paged_attention_cooperative(const PagedAttentionParams& p) {
    if ((p.flags & kAttentionOneSequence) == 0 || p.n_rows <= kMaxVectorRows || p.kv_length != 0 ||
        p.q_dtype != kDTypeF16 || p.kv_dtype != kDTypeF16 || p.out_dtype == kDTypeI8 ||
        (p.q_row_stride | p.out_row_stride) % 8 != 0 || (address(0) | address(1)) % 16 != 0) {
      return false;
    }
    const std::optional<AttentionTile> tile = attention_tile(p.head_dim);
    if (!tile) return false;
    const uint32_t side = capabilities_.matrix_m, subgroup = capabilities_.subgroup_size;
    shader(Shader::kPagedAttentionCooperative,
           {tile->subgroups * subgroup, p.head_dim, tile->subgroups, tile->down, side,
            capabilities_.matrix_k, p.out_dtype, subgroup / side, tile->keys, p.page_rows,
            p.soft_cap != 0});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_rows, tile->subgroups * tile->down * side), p.n_heads, 1};
    return true;
  }

  void attention_weights(const AttentionWeightsParams& p) {
    require_float(p.q_dtype);
    require_float(p.kv_dtype);
    require(p.head_dim % 8 == 0 && p.head_dim <= 256, "a head_dim of a multiple of 8 up to 256");
    require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
            "heads in equal groups on the heads of keys");
    require(address(2) % 16 == 0, "pages at multiples of 16 bytes");
    shader(Shader::kAttentionWeights, {threads(), p.head_dim, p.q_dtype, p.kv_dtype});
    push_addresses(7);
    push(&p, sizeof p);
    plan_.groups = {p.n_selected, p.n_rows, 1};
  }

  void attention(const AttentionParams& p) {
    require_float(p.in_dtype);
    require_float(p.out_dtype);
    require(p.head_dim % 8 == 0, "a head_dim of a multiple of 8");
    require(p.n_kv_heads != 0 && p.n_heads % p.n_kv_heads == 0,
            "heads in equal groups on the heads of keys");
    if (attention_cooperative(p)) return;
    require(4 * (64 * (p.head_dim + 1) + 32 * 33 + 64) <= capabilities_.shared_bytes,
            "a head_dim whose tiles fit in shared memory");
    shader(Shader::kAttention, {64, p.head_dim, p.in_dtype, p.out_dtype, present(4),
                                p.causal != 0 || p.window != 0, p.alibi});
    push_addresses(5);
    push(&p, sizeof p);
    plan_.groups = attention_groups(p, 32);
  }

  // Workgroups of `rows` rows. shaders/attention_rows.glsl maps them to packed sequences.
  std::array<uint32_t, 3> attention_groups(const AttentionParams& p, uint32_t rows) const {
    if (present(4)) return {p.rows_per_sequence / rows + p.n_sequences, p.n_heads, 1};
    return {blocks(p.rows_per_sequence, rows), p.n_heads, p.n_sequences};
  }

  // The same for attention.
  bool attention_cooperative(const AttentionParams& p) {
    if (p.in_dtype != kDTypeF16 || p.alibi != 0 ||
        (p.q_row_stride | p.k_row_stride | p.v_row_stride | p.out_row_stride) % 8 != 0 ||
        (address(0) | address(1) | address(2) | address(3)) % 16 != 0) {
      return false;
    }
    const std::optional<AttentionTile> tile = attention_tile(p.head_dim);
    if (!tile) return false;
    const uint32_t side = capabilities_.matrix_m, subgroup = capabilities_.subgroup_size;
    shader(Shader::kAttentionCooperative,
           {tile->subgroups * subgroup, p.head_dim, tile->subgroups, tile->down, side,
            capabilities_.matrix_k, p.out_dtype, subgroup / side, tile->keys, present(4),
            p.causal != 0 || p.window != 0});
    push_addresses(5);
    push(&p, sizeof p);
    plan_.groups = attention_groups(p, tile->subgroups * tile->down * side);
    return true;
  }

  // The tile of attention_tile.glsl, if it supports this head size.
  std::optional<AttentionTile> attention_tile(uint32_t head_dim) const {
    const uint32_t side = capabilities_.matrix_m, inner = capabilities_.matrix_k;
    if (!capabilities_.has_cooperative_matrix() || head_dim % std::max(side, inner) != 0 ||
        head_dim % 8 != 0 || capabilities_.subgroup_size % side != 0) {
      return std::nullopt;
    }
    constexpr AttentionTile kOfLittleMemory = {4, 1, 32};
    for (const AttentionTile& tile : {tuning_.attention_tile, kOfLittleMemory}) {
      const auto [subgroups, down, keys] = tile;
      const uint32_t rows = subgroups * down * side,
                     n_threads = subgroups * capabilities_.subgroup_size;
      const uint32_t bytes = 16 * 2 * keys * (head_dim / 8 + 1) +
                             4 * subgroups * side * (keys + 8) +
                             16 * subgroups * side * (keys / 8 + 1);
      if (bytes > capabilities_.shared_bytes || rows > 2 * keys ||
          n_threads > capabilities_.max_workgroup_threads ||
          keys * (head_dim / 8) % n_threads != 0) {
        continue;
      }
      return tile;
    }
    return std::nullopt;
  }

  void pool(const PoolParams& p) {
    shader(Shader::kPool, {threads(), p.kind, p.normalize});
    push_addresses(3);
    push(&p, sizeof p);
    plan_.groups = {p.n_sequences, 1, 1};
  }

  void range_probabilities(const RangeProbabilitiesParams& p) {
    shader(Shader::kRangeProbabilities, {threads(), present(2)});
    push_addresses(3);
    push(&p, sizeof p);
    plan_.groups = {p.n_rows, 1, 1};
  }

  void copy_pages(const CopyPagesParams& p) {
    require_float(p.kv_dtype);
    shader(Shader::kCopyPages, {threads(), p.kv_dtype});
    push_addresses(3);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_kv_heads * p.page_rows * p.head_dim, threads()), p.n_sequences, 1};
  }

  void adjust_logits(const SamplingParams& p) {
    shader(Shader::kAdjustLogits, {threads(), present(2) * 1u + present(3) * 2u + present(4) * 4u});
    push_addresses(5);
    push(&p, sizeof p);
    plan_.groups = {p.n_sequences, 1, 1};
  }

  void sampling_filters(const SamplingParams& p) {
    shader(Shader::kSamplingFilters, {at_most(tuning_.filter_threads), present(2), present(3)});
    push_addresses(4);
    push(&p, sizeof p);
    plan_.groups = {p.n_sequences, 1, 1};
  }

  void sample_partials(const SamplingParams& p) {
    require(p.n_candidates <= kMostCandidates, "32 candidates at most");
    shader(Shader::kSamplePartials,
           {threads(), present(3), present(4) && p.n_candidates > 0, p.has_filters, present(5)});
    push_addresses(6);
    push(&p, sizeof p);
    plan_.groups = {p.n_chunks, p.n_sequences, 1};
  }

  void select_beams(const BeamParams& p) {
    require(p.beam_size >= 1 && p.beam_size <= kMostBeams, "1 to 16 beams");
    require(p.n_candidates >= 1 && p.n_candidates <= kMostCandidates, "1 to 32 candidates");
    require(p.beam_size <= p.group_sequences, "a group of as many sequences as beams");
    shader(Shader::kSelectBeams, {threads()});
    push_addresses(8);
    push(&p, sizeof p);
    plan_.groups = {p.n_groups, 1, 1};
  }

  void sample_token(const SamplingParams& p) {
    shader(Shader::kSampleToken, {threads(), present(3), present(7)});
    push_addresses(8);
    push(&p, sizeof p);
  }

  void activation(const ActivationParams& p) {
    shader(Shader::kActivation, {threads(), p.activation});
    push_addresses(2);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n, threads()), 1, 1};
  }

  void magnitude(const MagnitudeParams& p) {
    require(p.rows_per_batch != 0, "sizes above 0");
    shader(Shader::kMagnitude, {threads()});
    push_addresses(2);
    push(&p, sizeof p);
    plan_.groups = {blocks(p.n_bins, threads()), p.n_rows, 1};
  }

  void lstm(const LstmParams& p) {
    require(p.n_hidden != 0 && p.n_hidden % 16 == 0, "n_hidden of a multiple of 16");
    require(4 * 6 * uint64_t{p.n_hidden} <= capabilities_.shared_bytes,
            "n_hidden whose state fits in shared memory");
    // One workgroup per sequence, one thread per gate if there are as many.
    shader(Shader::kLstm, {at_most(std::min(4 * p.n_hidden, tuning_.lstm_threads)), p.n_hidden});
    push_addresses(4);
    push(&p, sizeof p);
    plan_.groups = {p.n_sequences, 1, 1};
  }

  const Command& command_;
  const std::string& label_;
  const VulkanMemory& memory_;
  const VulkanCapabilities& capabilities_;
  const VulkanTuning& tuning_;
  KernelPlan plan_;
};

}  // namespace

KernelPlan plan_kernel(const Command& command, const std::string& label, const VulkanMemory& memory,
                       const VulkanCapabilities& capabilities) {
  return Planner(command, label, memory, capabilities).plan();
}

}  // namespace vesper
