// Plans of the kernels that choose tokens.
#include <algorithm>
#include <cstdint>

#include "llm/vulkan/kernels/kernel_planner.h"

namespace vesper {

void KernelPlanner::range_probabilities(const RangeProbabilitiesParams& p) {
  shader(Shader::kRangeProbabilities, {threads(), present(2)});
  push_addresses(3);
  push(&p, sizeof p);
  plan_.groups = {p.n_rows, 1, 1};
}

void KernelPlanner::adjust_logits(const SamplingParams& p) {
  shader(Shader::kAdjustLogits, {threads(), present(2) * 1u + present(3) * 2u + present(4) * 4u});
  push_addresses(5);
  push(&p, sizeof p);
  plan_.groups = {p.n_sequences, 1, 1};
}

void KernelPlanner::sampling_filters(const SamplingParams& p) {
  shader(Shader::kSamplingFilters, {at_most(tuning_.sampling_threads), present(2), present(3)});
  push_addresses(4);
  push(&p, sizeof p);
  plan_.groups = {p.n_sequences, 1, 1};
}

void KernelPlanner::sample_partials(const SamplingParams& p) {
  require(p.n_candidates <= kMostCandidates, "32 candidates at most");
  shader(Shader::kSamplePartials, {threads(), present(3), present(4) && p.n_candidates > 0,
                                   p.has_filters, present(5), blocks(p.chunk, threads())});
  push_addresses(6);
  push(&p, sizeof p);
  plan_.groups = {p.n_chunks, p.n_sequences, 1};
}

void KernelPlanner::select_beams(const BeamParams& p) {
  require(p.beam_size >= 1 && p.beam_size <= kMostBeams, "1 to 16 beams");
  require(p.n_candidates >= 1 && p.n_candidates <= kMostCandidates, "1 to 32 candidates");
  require(p.beam_size <= p.group_sequences, "a group of as many sequences as beams");
  shader(Shader::kSelectBeams, {threads()});
  push_addresses(8);
  push(&p, sizeof p);
  plan_.groups = {p.n_groups, 1, 1};
}

void KernelPlanner::sample_token(const SamplingParams& p) {
  // A subgroup for each sequence.
  const uint32_t subgroup = capabilities_.subgroup_size;
  const uint32_t most = std::max(at_most(tuning_.sampling_threads) / subgroup, 1u);
  const uint32_t n_subgroups = std::clamp(p.n_sequences, 1u, most);
  shader(Shader::kSampleToken, {n_subgroups * subgroup, present(3), present(7)});
  push_addresses(8);
  push(&p, sizeof p);
  plan_.groups = {blocks(std::max(p.n_sequences, 1u), n_subgroups), 1, 1};
  if (plan_.groups[0] == 1) return;
  const uint64_t counter_address = 0;
  push(&counter_address, sizeof counter_address);
  plan_.n_counters = 1;
}

}  // namespace vesper
