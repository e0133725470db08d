#include "llm/table/dispatch_table.h"

#include <algorithm>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

bool overlap(const Operand& a, const Operand& b) {
  return a.buffer == b.buffer && a.offset_bytes < b.offset_bytes + b.bytes &&
         b.offset_bytes < a.offset_bytes + a.bytes;
}

// Whether two commands must not run at once: one writes what the other touches.
bool conflict(const Command& a, const Command& b) {
  for (uint32_t i = 0; i < a.n_operands; ++i) {
    for (uint32_t j = 0; j < b.n_operands; ++j) {
      const bool a_writes = a.writes >> i & 1, b_writes = b.writes >> j & 1;
      const bool a_reads = a.reads >> i & 1, b_reads = b.reads >> j & 1;
      if ((a_writes && (b_writes || b_reads)) || (a_reads && b_writes)) {
        if (overlap(a.operands[i], b.operands[j])) return true;
      }
    }
  }
  return false;
}

constexpr uint32_t bits(std::initializer_list<uint32_t> operands) {
  uint32_t mask = 0;
  for (uint32_t i : operands) mask |= 1u << i;
  return mask;
}

}  // namespace

const char* kernel_name(Kernel kernel) {
  switch (kernel) {
#define VESPER_KERNEL_NAME(id, name, params) \
  case Kernel::id:                           \
    return #name;
    VESPER_KERNELS(VESPER_KERNEL_NAME)
#undef VESPER_KERNEL_NAME
  }
  return "unknown";
}

void DispatchTable::append(Kernel kernel, std::string label,
                           std::initializer_list<Operand> operands, uint32_t reads, uint32_t writes,
                           Command& command) {
  if (operands.size() > kMaxOperands) {
    throw Error(ErrorKind::kInternal,
                label + ": a command has at most " + std::to_string(kMaxOperands) +
                    " operands, this one has " + std::to_string(operands.size()));
  }
  command.kernel = kernel;
  command.n_operands = static_cast<uint32_t>(operands.size());
  std::copy(operands.begin(), operands.end(), command.operands.begin());
  for (uint32_t i = 0; i < command.n_operands; ++i) {
    if (!command.operands[i].present()) continue;
    command.reads |= reads & 1u << i;
    command.writes |= writes & 1u << i;
  }
  commands_.push_back(command);
  labels_.push_back(std::move(label));
}

void DispatchTable::add(const DispatchTable& other) {
  commands_.insert(commands_.end(), other.commands_.begin(), other.commands_.end());
  labels_.insert(labels_.end(), other.labels_.begin(), other.labels_.end());
}

std::vector<uint32_t> DispatchTable::stages() const {
  std::vector<uint32_t> stages(commands_.size());
  uint32_t stage = 0;
  size_t first_of_stage = 0;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const auto in_conflict = [&](const Command& earlier) {
      return conflict(earlier, commands_[i]);
    };
    if (std::any_of(commands_.begin() + static_cast<std::ptrdiff_t>(first_of_stage),
                    commands_.begin() + static_cast<std::ptrdiff_t>(i), in_conflict)) {
      ++stage;
      first_of_stage = i;
    }
    stages[i] = stage;
  }
  return stages;
}

namespace emit {

void embed(DispatchTable& table, std::string label, const EmbedParams& params, Operand out,
           Operand rows, Operand embedding, Operand position, Operand weight_scale) {
  table.add(Kernel::kEmbed, std::move(label), {out, rows, embedding, position, weight_scale},
            bits({1, 2, 3, 4}), bits({0}), params);
}

void norm(DispatchTable& table, std::string label, const NormParams& params, Operand out,
          Operand in, Operand norm_weight, Operand bias, Operand index, Operand residual) {
  table.add(Kernel::kNorm, std::move(label), {out, in, norm_weight, bias, index, residual},
            bits({1, 2, 3, 4, 5}), bits({0}), params);
}

void matmul(DispatchTable& table, std::string label, const MatmulParams& params, Operand out,
            Operand in, Operand weight, Operand bias, Operand residual, Operand weight_scale,
            Operand rows, Operand norm_weight) {
  table.add(Kernel::kMatmul, std::move(label),
            {out, in, weight, bias, residual, weight_scale, rows, norm_weight},
            bits({1, 2, 3, 4, 5, 6, 7}), bits({0}), params);
}

void write_kv(DispatchTable& table, std::string label, const WriteKvParams& params, Operand k_pages,
              Operand v_pages, Operand k, Operand v, Operand rows, Operand page_table) {
  table.add(Kernel::kWriteKv, std::move(label), {k_pages, v_pages, k, v, rows, page_table},
            bits({2, 3, 4, 5}), bits({0, 1}), params);
}

void rope(DispatchTable& table, std::string label, const RopeParams& params, Operand qkv,
          Operand rows, Operand angles, Operand q_norm_weight, Operand k_norm_weight,
          Operand k_pages, Operand v_pages, Operand page_table) {
  table.add(Kernel::kRope, std::move(label),
            {qkv, rows, angles, q_norm_weight, k_norm_weight, k_pages, v_pages, page_table},
            bits({0, 1, 2, 3, 4, 7}), bits({0, 5, 6}), params);
}

void gated_activation(DispatchTable& table, std::string label, const GatedActivationParams& params,
                      Operand out, Operand in) {
  table.add(Kernel::kGatedActivation, std::move(label), {out, in}, bits({1}), bits({0}), params);
}

void route_experts(DispatchTable& table, std::string label, const RouteExpertsParams& params,
                   Operand ids, Operand weights, Operand logits) {
  table.add(Kernel::kRouteExperts, std::move(label), {ids, weights, logits}, bits({2}),
            bits({0, 1}), params);
}

void group_experts(DispatchTable& table, std::string label, const GroupExpertsParams& params,
                   Operand groups, Operand ids, Operand rows) {
  table.add(Kernel::kGroupExperts, std::move(label), {groups, ids, rows}, bits({1, 2}), bits({0}),
            params);
}

void expert_matmul(DispatchTable& table, std::string label, const ExpertMatmulParams& params,
                   Operand out, Operand in, Operand weight, Operand bias, Operand weight_scale,
                   Operand ids, Operand rows, Operand groups) {
  table.add(Kernel::kExpertMatmul, std::move(label),
            {out, in, weight, bias, weight_scale, ids, rows, groups}, bits({1, 2, 3, 4, 5, 6, 7}),
            bits({0}), params);
}

void combine_experts(DispatchTable& table, std::string label, const CombineExpertsParams& params,
                     Operand x, Operand in, Operand weights, Operand shared) {
  table.add(Kernel::kCombineExperts, std::move(label), {x, in, weights, shared}, bits({0, 1, 2, 3}),
            bits({0}), params);
}

void paged_attention(DispatchTable& table, std::string label, const PagedAttentionParams& params,
                     Operand out, Operand q, Operand k_pages, Operand v_pages, Operand rows,
                     Operand page_table, Operand sinks, Operand angles, Operand q_norm_weight,
                     Operand k_norm_weight) {
  table.add(
      Kernel::kPagedAttention, std::move(label),
      {out, q, k_pages, v_pages, rows, page_table, sinks, angles, q_norm_weight, k_norm_weight},
      bits({1, 2, 3, 4, 5, 6, 7, 8, 9}),
      (params.flags & kAttentionWritesKv) != 0 ? bits({0, 2, 3}) : bits({0}), params);
}

void attention_weights(DispatchTable& table, std::string label,
                       const AttentionWeightsParams& params, Operand out, Operand q,
                       Operand k_pages, Operand rows, Operand page_table, Operand heads,
                       Operand lengths) {
  table.add(Kernel::kAttentionWeights, std::move(label),
            {out, q, k_pages, rows, page_table, heads, lengths}, bits({1, 2, 3, 4, 5, 6}),
            bits({0}), params);
}

void attention(DispatchTable& table, std::string label, const AttentionParams& params, Operand out,
               Operand q, Operand k, Operand v, Operand starts, Operand bias, Operand sinks) {
  table.add(Kernel::kAttention, std::move(label), {out, q, k, v, starts, bias, sinks},
            bits({1, 2, 3, 4, 5, 6}), bits({0}), params);
}

void pool(DispatchTable& table, std::string label, const PoolParams& params, Operand out,
          Operand in, Operand starts) {
  table.add(Kernel::kPool, std::move(label), {out, in, starts}, bits({1, 2}), bits({0}), params);
}

void range_probabilities(DispatchTable& table, std::string label,
                         const RangeProbabilitiesParams& params, Operand out, Operand logits,
                         Operand ids) {
  table.add(Kernel::kRangeProbabilities, std::move(label), {out, logits, ids}, bits({1, 2}),
            bits({0}), params);
}

void copy_pages(DispatchTable& table, std::string label, const CopyPagesParams& params,
                Operand k_pages, Operand v_pages, Operand states) {
  table.add(Kernel::kCopyPages, std::move(label), {k_pages, v_pages, states}, bits({0, 1, 2}),
            bits({0, 1}), params);
}

void adjust_logits(DispatchTable& table, std::string label, const SamplingParams& params,
                   Operand logits, Operand states, Operand tokens, Operand bias, Operand drafts) {
  table.add(Kernel::kAdjustLogits, std::move(label), {logits, states, tokens, bias, drafts},
            bits({0, 1, 2, 3, 4}), bits({0}), params);
}

void sampling_filters(DispatchTable& table, std::string label, const SamplingParams& params,
                      Operand states, Operand logits, Operand suppressed, Operand allowed) {
  table.add(Kernel::kSamplingFilters, std::move(label), {states, logits, suppressed, allowed},
            bits({0, 1, 2, 3}), bits({0}), params);
}

void sample_partials(DispatchTable& table, std::string label, const SamplingParams& params,
                     Operand partials, Operand logits, Operand states, Operand suppressed,
                     Operand candidates, Operand allowed) {
  table.add(Kernel::kSamplePartials, std::move(label),
            {partials, logits, states, suppressed, candidates, allowed}, bits({1, 2, 3, 5}),
            bits({0, 4}), params);
}

void select_beams(DispatchTable& table, std::string label, const BeamParams& params, Operand states,
                  Operand rows, Operand tokens, Operand finished, Operand partials,
                  Operand candidates, Operand page_table, Operand stop_ids) {
  table.add(Kernel::kSelectBeams, std::move(label),
            {states, rows, tokens, finished, partials, candidates, page_table, stop_ids},
            bits({0, 2, 4, 5, 6, 7}), bits({0, 1, 2, 3, 6}), params);
}

void sample_token(DispatchTable& table, std::string label, const SamplingParams& params,
                  Operand states, Operand rows, Operand tokens, Operand logprobs, Operand stop,
                  Operand partials, Operand stop_ids, Operand drafts) {
  table.add(Kernel::kSampleToken, std::move(label),
            {states, rows, tokens, logprobs, stop, partials, stop_ids, drafts}, bits({0, 5, 6, 7}),
            bits({0, 1, 2, 3, 4}), params);
}

void activation(DispatchTable& table, std::string label, const ActivationParams& params,
                Operand out, Operand in) {
  table.add(Kernel::kActivation, std::move(label), {out, in}, bits({1}), bits({0}), params);
}

void magnitude(DispatchTable& table, std::string label, const MagnitudeParams& params, Operand out,
               Operand in) {
  table.add(Kernel::kMagnitude, std::move(label), {out, in}, bits({1}), bits({0}), params);
}

void lstm(DispatchTable& table, std::string label, const LstmParams& params, Operand out,
          Operand state, Operand in, Operand weight) {
  table.add(Kernel::kLstm, std::move(label), {out, state, in, weight}, bits({1, 2, 3}),
            bits({0, 1}), params);
}

}  // namespace emit
}  // namespace vesper
