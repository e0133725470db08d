// A forward pass as a table of commands.
//
// Built once at load by the model builders, recorded once by a Device, replayed for every step. A
// command has a kernel, operands (read or written) and parameters. Everything that changes between
// steps is in device memory. Stages, and so barriers, are derived from the operands.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "shaders/kernel_params.h"

namespace vesper {

// Every kernel. Its CPU function, shader and parameter struct have the same name.
#define VESPER_KERNELS(X)                                               \
  X(kEmbed, embed, EmbedParams)                                         \
  X(kNorm, norm, NormParams)                                            \
  X(kMatmul, matmul, MatmulParams)                                      \
  X(kWriteKv, write_kv, WriteKvParams)                                  \
  X(kRope, rope, RopeParams)                                            \
  X(kGatedActivation, gated_activation, GatedActivationParams)          \
  X(kRouteExperts, route_experts, RouteExpertsParams)                   \
  X(kGroupExperts, group_experts, GroupExpertsParams)                   \
  X(kExpertMatmul, expert_matmul, ExpertMatmulParams)                   \
  X(kCombineExperts, combine_experts, CombineExpertsParams)             \
  X(kPagedAttention, paged_attention, PagedAttentionParams)             \
  X(kAttentionWeights, attention_weights, AttentionWeightsParams)       \
  X(kAttention, attention, AttentionParams)                             \
  X(kRangeProbabilities, range_probabilities, RangeProbabilitiesParams) \
  X(kCopyPages, copy_pages, CopyPagesParams)                            \
  X(kAdjustLogits, adjust_logits, SamplingParams)                       \
  X(kSamplingFilters, sampling_filters, SamplingParams)                 \
  X(kSamplePartials, sample_partials, SamplingParams)                   \
  X(kSelectBeams, select_beams, BeamParams)                             \
  X(kSampleToken, sample_token, SamplingParams)                         \
  X(kActivation, activation, ActivationParams)                          \
  X(kMagnitude, magnitude, MagnitudeParams)                             \
  X(kLstm, lstm, LstmParams)                                            \
  X(kPool, pool, PoolParams)

enum class Kernel : uint32_t {
#define VESPER_KERNEL_ENUM(id, name, params) id,
  VESPER_KERNELS(VESPER_KERNEL_ENUM)
#undef VESPER_KERNEL_ENUM
};
#define VESPER_KERNEL_COUNT(id, name, params) +1
inline constexpr uint32_t kKernelCount = 0 VESPER_KERNELS(VESPER_KERNEL_COUNT);
#undef VESPER_KERNEL_COUNT
const char* kernel_name(Kernel kernel);

// A buffer of a device; 0: none.
using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = 0;

// A range of a buffer.
struct Operand {
  BufferId buffer = kNoBuffer;
  uint32_t reserved = 0;
  uint64_t offset_bytes = 0;
  uint64_t bytes = 0;
  bool present() const { return buffer != kNoBuffer; }
  // The part of this range from `from_bytes` with `length_bytes`.
  Operand part(uint64_t from_bytes, uint64_t length_bytes) const {
    return {buffer, 0, offset_bytes + from_bytes, length_bytes};
  }
  Operand from(uint64_t from_bytes) const { return part(from_bytes, bytes - from_bytes); }
};

inline constexpr uint32_t kMaxOperands = 10;
inline constexpr uint32_t kMaxParamBytes = 80;

struct Command {
  Kernel kernel = Kernel::kEmbed;
  uint32_t n_operands = 0;
  uint32_t reads = 0;   // bit i: operand i is read
  uint32_t writes = 0;  // bit i: operand i is written
  std::array<Operand, kMaxOperands> operands{};
  alignas(8) std::array<unsigned char, kMaxParamBytes> params{};

  template <class Params>
  const Params& params_as() const {
    return *reinterpret_cast<const Params*>(params.data());
  }
};
static_assert(std::is_trivially_copyable_v<Command>);

class DispatchTable {
 public:
  // Appends a command. Absent operands are neither read nor written.
  template <class Params>
  void add(Kernel kernel, std::string label, std::initializer_list<Operand> operands,
           uint32_t reads, uint32_t writes, const Params& params) {
    static_assert(sizeof(Params) <= kMaxParamBytes && std::is_trivially_copyable_v<Params>);
    Command command;
    std::memcpy(command.params.data(), &params, sizeof(Params));
    append(kernel, std::move(label), operands, reads, writes, command);
  }
  // Appends all commands of another table.
  void add(const DispatchTable& other);

  const std::vector<Command>& commands() const { return commands_; }
  // One per command, for people: "decoder.3.attn.q".
  const std::vector<std::string>& labels() const { return labels_; }

  // The stage of each command, from 0, never decreasing. A command starts a new stage if it touches
  // what a command of the current stage writes, or writes what one reads. Commands of a stage may
  // run in any order or at once; there is a barrier between stages.
  std::vector<uint32_t> stages() const;

 private:
  void append(Kernel kernel, std::string label, std::initializer_list<Operand> operands,
              uint32_t reads, uint32_t writes, Command& command);

  std::vector<Command> commands_;
  std::vector<std::string> labels_;
};

// One function per kernel that appends its command. They know which operands are read and written.
// Operands are in the order of the lists above the parameter structs.
namespace emit {
void embed(DispatchTable&, std::string label, const EmbedParams&, Operand out, Operand rows,
           Operand embedding, Operand position, Operand weight_scale);
void norm(DispatchTable&, std::string label, const NormParams&, Operand out, Operand in,
          Operand norm_weight, Operand bias, Operand index, Operand residual = {});
void matmul(DispatchTable&, std::string label, const MatmulParams&, Operand out, Operand in,
            Operand weight, Operand bias, Operand residual, Operand weight_scale, Operand rows = {},
            Operand norm_weight = {});
void write_kv(DispatchTable&, std::string label, const WriteKvParams&, Operand k_pages,
              Operand v_pages, Operand k, Operand v, Operand rows, Operand page_table);
void rope(DispatchTable&, std::string label, const RopeParams&, Operand qkv, Operand rows,
          Operand angles, Operand q_norm_weight, Operand k_norm_weight, Operand k_pages = {},
          Operand v_pages = {}, Operand page_table = {});
void gated_activation(DispatchTable&, std::string label, const GatedActivationParams&, Operand out,
                      Operand in);
void route_experts(DispatchTable&, std::string label, const RouteExpertsParams&, Operand ids,
                   Operand weights, Operand logits);
void group_experts(DispatchTable&, std::string label, const GroupExpertsParams&, Operand groups,
                   Operand ids, Operand rows);
void expert_matmul(DispatchTable&, std::string label, const ExpertMatmulParams&, Operand out,
                   Operand in, Operand weight, Operand bias, Operand weight_scale, Operand ids,
                   Operand rows, Operand groups);
void combine_experts(DispatchTable&, std::string label, const CombineExpertsParams&, Operand x,
                     Operand in, Operand weights, Operand shared);
void paged_attention(DispatchTable&, std::string label, const PagedAttentionParams&, Operand out,
                     Operand q, Operand k_pages, Operand v_pages, Operand rows, Operand page_table,
                     Operand sinks = {}, Operand angles = {}, Operand q_norm_weight = {},
                     Operand k_norm_weight = {});
void attention_weights(DispatchTable&, std::string label, const AttentionWeightsParams&,
                       Operand out, Operand q, Operand k_pages, Operand rows, Operand page_table,
                       Operand heads, Operand lengths);
void attention(DispatchTable&, std::string label, const AttentionParams&, Operand out, Operand q,
               Operand k, Operand v, Operand starts = {}, Operand bias = {}, Operand sinks = {});
void pool(DispatchTable&, std::string label, const PoolParams&, Operand out, Operand in,
          Operand starts = {});
void range_probabilities(DispatchTable&, std::string label, const RangeProbabilitiesParams&,
                         Operand out, Operand logits, Operand ids = {});
void copy_pages(DispatchTable&, std::string label, const CopyPagesParams&, Operand k_pages,
                Operand v_pages, Operand states);
void adjust_logits(DispatchTable&, std::string label, const SamplingParams&, Operand logits,
                   Operand states, Operand tokens, Operand bias, Operand drafts = {});
void sampling_filters(DispatchTable&, std::string label, const SamplingParams&, Operand states,
                      Operand logits, Operand suppressed, Operand allowed = {});
void sample_partials(DispatchTable&, std::string label, const SamplingParams&, Operand partials,
                     Operand logits, Operand states, Operand suppressed, Operand candidates,
                     Operand allowed = {});
void select_beams(DispatchTable&, std::string label, const BeamParams&, Operand states,
                  Operand rows, Operand tokens, Operand finished, Operand partials,
                  Operand candidates, Operand page_table, Operand stop_ids);
void sample_token(DispatchTable&, std::string label, const SamplingParams&, Operand states,
                  Operand rows, Operand tokens, Operand logprobs, Operand stop, Operand partials,
                  Operand stop_ids, Operand drafts = {});
void activation(DispatchTable&, std::string label, const ActivationParams&, Operand out,
                Operand in);
void magnitude(DispatchTable&, std::string label, const MagnitudeParams&, Operand out, Operand in);
void lstm(DispatchTable&, std::string label, const LstmParams&, Operand out, Operand state,
          Operand in, Operand weight);
}  // namespace emit

}  // namespace vesper
