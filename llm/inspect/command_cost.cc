#include "llm/inspect/command_cost.h"

#include <algorithm>

#include "llm/dtype/dtype.h"

namespace vesper {
namespace {

double element_bytes(uint32_t dtype) {
  const DTypeDescriptor& format = dtype_descriptor(static_cast<DType>(dtype));
  return static_cast<double>(format.block_bytes) / format.block;
}

double kv_element_bytes(uint32_t dtype) { return kv_head_bytes(dtype, 1, 32) / 32.0; }

// Of an element of the keys and one of the values.
double kv_bytes(uint32_t kv_dtypes) {
  return kv_element_bytes(key_dtype(kv_dtypes)) + kv_element_bytes(value_dtype(kv_dtypes));
}

std::string dtype_name(uint32_t dtype) { return dtype_descriptor(static_cast<DType>(dtype)).name; }

std::string kv_text(uint32_t kv_dtypes) {
  const std::string keys = dtype_name(key_dtype(kv_dtypes));
  const std::string values = dtype_name(value_dtype(kv_dtypes));
  return keys == values ? keys : keys + "/" + values;
}

std::string text(uint32_t number) { return std::to_string(number); }

CommandCost cost(const MatmulParams& p, double weight_bytes, bool has_residual) {
  const double rows = p.n_rows, out = p.n_out, in = p.n_in;
  const double sums = p.flags & kMatmulGated ? 2 * out : out;
  return {2 * rows * sums * in, rows * in * element_bytes(p.in_dtype) + weight_bytes +
                                    rows * out * (element_bytes(p.out_dtype) + 4.0 * has_residual)};
}

// `weight_bytes`: of all experts. At most one expert per slot is read.
CommandCost cost(const ExpertMatmulParams& p, double weight_bytes) {
  const double slots = p.n_slots, out = p.n_out, in = p.n_in;
  const double in_rows = p.in_per_slot ? slots : slots / p.n_used;
  return {2 * slots * out * in, in_rows * in * element_bytes(p.in_dtype) +
                                    weight_bytes * std::min(1.0, slots / p.n_experts) +
                                    slots * out * element_bytes(p.out_dtype)};
}

CommandCost cost(const AttentionParams& p, bool packed, double n_positions) {
  // Packed: rows_per_sequence is the total number of rows, and lengths are in device memory.
  const double rows = (packed ? 1.0 : p.n_sequences) * p.rows_per_sequence;
  const double seen = packed ? n_positions : p.rows_per_sequence;
  const double width = static_cast<double>(p.n_heads) * p.head_dim;
  const double kv_width = static_cast<double>(p.n_kv_heads) * p.head_dim;
  return {4 * rows * seen * width, rows * ((width + 2 * kv_width) * element_bytes(p.in_dtype) +
                                           width * element_bytes(p.out_dtype))};
}

CommandCost cost(const PagedAttentionParams& p, uint64_t page_table_bytes, double n_positions) {
  const double positions = p.kv_length != 0 ? p.kv_length : n_positions;
  const double rows = p.n_rows, width = static_cast<double>(p.n_heads) * p.head_dim;
  const double kv_width = static_cast<double>(p.n_kv_heads) * p.head_dim;
  // Rows of one sequence share reads. Their sequences are in device memory: at most as many as the
  // page table has.
  const double sequences = static_cast<double>(page_table_bytes) /
                           (sizeof(int32_t) * std::max<double>(p.pages_per_sequence, 1));
  return {4 * rows * positions * width,
          rows * width * (element_bytes(p.q_dtype) + element_bytes(p.out_dtype)) +
              std::min(rows, sequences) * positions * kv_width * kv_bytes(p.kv_dtypes)};
}

CommandCost cost(const RopeParams& p) {
  const double queries = static_cast<double>(p.n_heads) * p.head_dim;
  const double kv_width = static_cast<double>(p.n_kv_heads) * p.head_dim;
  return {0, p.n_rows * (2 * queries * element_bytes(p.dtype) +
                         kv_width * (2 * element_bytes(p.dtype) + kv_bytes(p.kv_dtypes)))};
}

CommandCost cost(const AttentionWeightsParams& p) {
  const double positions = static_cast<double>(p.n_rows) * p.kv_length;
  const double width = static_cast<double>(p.n_selected) * p.head_dim;
  return {2 * positions * width, positions * (width * kv_element_bytes(p.k_dtype) +
                                              sizeof(float) * static_cast<double>(p.n_selected))};
}

// ", gelu", or empty.
std::string activation_text(uint32_t activation) {
  constexpr const char* kNames[] = {"", ", gelu", ", tanh gelu", ", silu", ", relu", ", sigmoid"};
  return activation < std::size(kNames) ? kNames[activation] : "";
}

}  // namespace

CommandCost command_cost(const Command& command, double weight_bytes, double n_positions) {
  switch (command.kernel) {
    case Kernel::kEmbed: {
      const auto& p = command.params_as<EmbedParams>();
      return {0, static_cast<double>(p.n_rows) * p.d_model * 3 * sizeof(float)};
    }
    case Kernel::kNorm: {
      const auto& p = command.params_as<NormParams>();
      return {0, static_cast<double>(p.n_rows) * p.d *
                     (element_bytes(p.in_dtype) + element_bytes(p.out_dtype))};
    }
    case Kernel::kMatmul:
      return cost(command.params_as<MatmulParams>(), weight_bytes, command.operands[4].present());
    case Kernel::kExpertMatmul:
      return cost(command.params_as<ExpertMatmulParams>(), weight_bytes);
    case Kernel::kRouteExperts: {
      const auto& p = command.params_as<RouteExpertsParams>();
      return {0, sizeof(float) * static_cast<double>(p.n_rows) * (p.n_experts + 2.0 * p.n_used)};
    }
    case Kernel::kCombineExperts: {
      const auto& p = command.params_as<CombineExpertsParams>();
      return {0, sizeof(float) * static_cast<double>(p.n_rows) * p.d * (p.n_used + 2.0)};
    }
    case Kernel::kWriteKv: {
      const auto& p = command.params_as<WriteKvParams>();
      const double width = static_cast<double>(p.n_kv_heads) * p.head_dim;
      return {0, width * p.n_rows * (2 * element_bytes(p.in_dtype) + kv_bytes(p.kv_dtypes))};
    }
    case Kernel::kRope:
      return cost(command.params_as<RopeParams>());
    case Kernel::kGatedActivation: {
      const auto& p = command.params_as<GatedActivationParams>();
      return {0, static_cast<double>(p.n_rows) * p.d *
                     (2 * element_bytes(p.in_dtype) + element_bytes(p.out_dtype))};
    }
    case Kernel::kPagedAttention:
      return cost(command.params_as<PagedAttentionParams>(), command.operands[5].bytes,
                  n_positions);
    case Kernel::kAttentionWeights:
      return cost(command.params_as<AttentionWeightsParams>());
    case Kernel::kAttention:
      return cost(command.params_as<AttentionParams>(), command.operands[4].present(), n_positions);
    case Kernel::kRangeProbabilities: {
      const auto& p = command.params_as<RangeProbabilitiesParams>();
      return {0, static_cast<double>(p.n_rows) * p.softmax_count * sizeof(float)};
    }
    case Kernel::kCopyPages: {
      // Upper limit: the copied rows are in device memory.
      const auto& p = command.params_as<CopyPagesParams>();
      const double page = static_cast<double>(p.n_kv_heads) * p.page_rows * p.head_dim;
      return {0, 2 * page * p.n_sequences * kv_bytes(p.kv_dtypes)};
    }
    case Kernel::kSamplePartials: {
      const auto& p = command.params_as<SamplingParams>();
      return {0, static_cast<double>(p.n_sequences) * p.n_vocab * sizeof(float)};
    }
    case Kernel::kSampleToken: {
      const auto& p = command.params_as<SamplingParams>();
      return {0, static_cast<double>(p.n_sequences) * p.n_chunks * sizeof(TokenPartial)};
    }
    case Kernel::kActivation:
      return {0, 2.0 * sizeof(float) * command.params_as<ActivationParams>().n};
    case Kernel::kMagnitude: {
      const auto& p = command.params_as<MagnitudeParams>();
      return {0, 3.0 * sizeof(float) * p.n_rows * p.n_bins};
    }
    case Kernel::kSelectBeams: {
      const auto& p = command.params_as<BeamParams>();
      return {0, static_cast<double>(p.n_groups) * p.beam_size * p.n_chunks *
                     (sizeof(TokenPartial) + p.n_candidates * sizeof(TokenCandidate))};
    }
    case Kernel::kLstm: {
      const auto& p = command.params_as<LstmParams>();
      const double steps = static_cast<double>(p.n_sequences) * p.n_steps, n = p.n_hidden;
      return {2 * steps * 4 * n * n, sizeof(float) * (4 * n * n + steps * 5 * n)};
    }
    case Kernel::kPool: {
      // Of a mean an upper limit: the number of rows is in device memory.
      const double out = static_cast<double>(command.operands[0].bytes);
      const bool is_mean = command.params_as<PoolParams>().kind == kPoolMean;
      return {0, out + (is_mean ? static_cast<double>(command.operands[1].bytes) : out)};
    }
    default:
      break;
  }
  // Other kernels: every operand once.
  double bytes = 0;
  for (uint32_t i = 0; i < command.n_operands; ++i) {
    bytes += static_cast<double>(command.operands[i].bytes);
  }
  return {0, bytes};
}

std::string command_text(const Command& command) {
  switch (command.kernel) {
    case Kernel::kEmbed: {
      const auto& p = command.params_as<EmbedParams>();
      return text(p.n_rows) + " rows of " + text(p.d_model);
    }
    case Kernel::kNorm: {
      const auto& p = command.params_as<NormParams>();
      return text(p.n_rows) + " rows of " + text(p.d) +
             (p.kind == kNormRms ? ", RMS, " : ", layer, ") + dtype_name(p.out_dtype);
    }
    case Kernel::kMatmul: {
      const auto& p = command.params_as<MatmulParams>();
      return text(p.n_rows) + " rows, " + text(p.n_in) + " -> " + text(p.n_out) + ", " +
             dtype_name(p.in_dtype) + " -> " + dtype_name(p.out_dtype) + ", weights " +
             text(p.weight_format) + (command.operands[7].present() ? ", norm" : "") +
             activation_text(p.activation) + (p.flags & kMatmulGated ? " of gates" : "") +
             (command.operands[4].present() ? ", residual" : "");
    }
    case Kernel::kExpertMatmul: {
      const auto& p = command.params_as<ExpertMatmulParams>();
      return text(p.n_slots) + " slots of " + text(p.n_experts) + " experts, " + text(p.n_in) +
             " -> " + text(p.n_out) + ", " + dtype_name(p.in_dtype) + " -> " +
             dtype_name(p.out_dtype) + ", weights " + text(p.weight_format) +
             (command.operands[7].present() ? ", grouped" : "");
    }
    case Kernel::kRouteExperts: {
      const auto& p = command.params_as<RouteExpertsParams>();
      return text(p.n_rows) + " rows, " + text(p.n_used) + " of " + text(p.n_experts) + " experts";
    }
    case Kernel::kGroupExperts: {
      const auto& p = command.params_as<GroupExpertsParams>();
      return text(p.n_slots) + " slots of " + text(p.n_experts) + " experts";
    }
    case Kernel::kCombineExperts: {
      const auto& p = command.params_as<CombineExpertsParams>();
      return text(p.n_rows) + " rows of " + text(p.d) + ", " + text(p.n_used) + " experts";
    }
    case Kernel::kRope: {
      const auto& p = command.params_as<RopeParams>();
      return text(p.n_rows) + " rows, " + text(p.n_heads) + "/" + text(p.n_kv_heads) +
             " heads of " + text(p.head_dim) + ", " + dtype_name(p.dtype) + " -> " +
             kv_text(p.kv_dtypes);
    }
    case Kernel::kGatedActivation: {
      const auto& p = command.params_as<GatedActivationParams>();
      return text(p.n_rows) + " rows of " + text(p.d) + ", " + dtype_name(p.in_dtype) + " -> " +
             dtype_name(p.out_dtype);
    }
    case Kernel::kWriteKv: {
      const auto& p = command.params_as<WriteKvParams>();
      return text(p.n_rows) + " rows, " + text(p.n_kv_heads) + " heads of " + text(p.head_dim) +
             ", " + dtype_name(p.in_dtype) + " -> " + kv_text(p.kv_dtypes);
    }
    case Kernel::kPagedAttention: {
      const auto& p = command.params_as<PagedAttentionParams>();
      return text(p.n_rows) + " rows, " + text(p.n_heads) + "/" + text(p.n_kv_heads) +
             " heads of " + text(p.head_dim) + ", " +
             (p.kv_length == 0 ? "causal" : text(p.kv_length) + " positions");
    }
    case Kernel::kAttentionWeights: {
      const auto& p = command.params_as<AttentionWeightsParams>();
      return text(p.n_rows) + " rows, " + text(p.n_selected) + " of " + text(p.n_heads) +
             " heads of " + text(p.head_dim) + ", " + text(p.kv_length) + " positions";
    }
    case Kernel::kAttention: {
      const auto& p = command.params_as<AttentionParams>();
      return text(p.n_sequences) + " x " + text(p.rows_per_sequence) + " rows, " + text(p.n_heads) +
             "/" + text(p.n_kv_heads) + " heads of " + text(p.head_dim) +
             (command.operands[5].present() ? ", position bias" : "");
    }
    case Kernel::kRangeProbabilities: {
      const auto& p = command.params_as<RangeProbabilitiesParams>();
      return text(p.n_rows) + " rows, " + text(p.out_count) + " of " + text(p.softmax_count);
    }
    case Kernel::kCopyPages: {
      const auto& p = command.params_as<CopyPagesParams>();
      return text(p.n_sequences) + " sequences, " + text(p.n_kv_heads) + " heads of " +
             text(p.head_dim) + ", pages of " + text(p.page_rows);
    }
    case Kernel::kSamplePartials:
    case Kernel::kSampleToken: {
      const auto& p = command.params_as<SamplingParams>();
      return text(p.n_sequences) + " sequences, " + text(p.n_vocab) + " tokens in " +
             text(p.n_chunks) + " chunks";
    }
    case Kernel::kSelectBeams: {
      const auto& p = command.params_as<BeamParams>();
      return text(p.n_groups) + " groups of " + text(p.beam_size) + " beams, " + text(p.n_chunks) +
             " chunks";
    }
    default:
      return {};
  }
}

}  // namespace vesper
