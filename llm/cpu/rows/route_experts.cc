// route_experts: a task is one row. group_experts: one task; counting sort.
#include <algorithm>
#include <cmath>
#include <limits>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_route_experts(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<RouteExpertsParams>();
  const float* const logits =
      command.operand<const float>(2) + size_t{task} * (params.n_experts + params.has_shared);
  uint32_t* const ids = command.operand<uint32_t>(0) + size_t{task} * params.n_used;
  float* const weights =
      command.operand<float>(1) + size_t{task} * (params.n_used + params.has_shared);
  uint32_t taken[kMostExperts / 32] = {};
  float sum = 0;
  for (uint32_t c = 0; c < params.n_used; ++c) {
    // A logit that is not a number is below all others.
    float best = -std::numeric_limits<float>::infinity();
    uint32_t id = params.n_experts;
    for (uint32_t e = 0; e < params.n_experts; ++e) {
      if ((taken[e / 32] >> e % 32 & 1) != 0) continue;
      if (id != params.n_experts && !(logits[e] > best)) continue;
      if (logits[e] > best) best = logits[e];
      id = e;
    }
    taken[id / 32] |= 1u << id % 32;
    ids[c] = id;
    weights[c] = c == 0 ? 1.0f : std::exp(best - logits[ids[0]]);
    sum += weights[c];
  }
  if (params.normalizes == 0) {
    sum = 0;
    for (uint32_t e = 0; e < params.n_experts; ++e) sum += std::exp(logits[e] - logits[ids[0]]);
  }
  for (uint32_t c = 0; c < params.n_used; ++c) weights[c] /= sum;
  if (params.has_shared != 0) {
    weights[params.n_used] = 1 / (1 + std::exp(-logits[params.n_experts]));
  }
}

void run_group_experts(const PreparedCommand& command, uint32_t, ThreadScratch&) {
  const auto& params = command.params_as<GroupExpertsParams>();
  uint32_t* const slots = command.operand<uint32_t>(0);
  auto* const tiles = reinterpret_cast<ExpertTile*>(slots + params.n_slots);
  const uint32_t* const ids = command.operand<const uint32_t>(1);
  const Row* const rows = command.operand<const Row>(2);
  const auto is_used = [&](uint32_t slot) {
    return rows == nullptr || rows[slot / params.n_used].sequence >= 0;
  };
  uint32_t ends[kMostExperts] = {};  // first counts, then the end of the slots written so far
  for (uint32_t s = 0; s < params.n_slots; ++s) ends[ids[s]] += is_used(s);
  uint32_t first = 0, tile = 0;
  for (uint32_t e = 0; e < params.n_experts; ++e) {
    const uint32_t n = ends[e];
    ends[e] = first;
    for (uint32_t done = 0; done < n; done += kExpertTileRows) {
      tiles[tile++] = {e, first + done, std::min(n - done, kExpertTileRows)};
    }
    first += n;
  }
  std::fill(tiles + tile, tiles + params.n_tiles, ExpertTile{});
  for (uint32_t s = 0; s < params.n_slots; ++s) {
    if (is_used(s)) slots[ends[ids[s]]++] = s;
  }
}

}  // namespace

void prepare_route_experts(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<RouteExpertsParams>();
  command.require(params.n_rows > 0 && params.n_used > 0, "a size is zero");
  command.require(params.n_used <= params.n_experts && params.n_experts <= kMostExperts,
                  "expected at most 512 experts, and no more chosen than there are");
  command.require(params.has_shared <= 1, "expected one shared expert or none");
  const uint64_t n_rows = params.n_rows;
  command.require_bytes(0, n_rows * params.n_used * 4);
  command.require_bytes(1, n_rows * (params.n_used + params.has_shared) * 4);
  command.require_bytes(2, n_rows * (params.n_experts + params.has_shared) * 4);
  prepared.run = run_route_experts;
  prepared.n_tasks = params.n_rows;
}

void prepare_group_experts(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<GroupExpertsParams>();
  command.require(params.n_slots > 0 && params.n_used > 0, "a size is zero");
  command.require(params.n_experts > 0 && params.n_experts <= kMostExperts,
                  "expected 1 to 512 experts");
  command.require(params.n_tiles >= most_expert_tiles(params.n_slots, params.n_experts),
                  "too few tiles");
  command.require_bytes(0, uint64_t{params.n_slots} * 4 + params.n_tiles * sizeof(ExpertTile));
  command.require_bytes(1, uint64_t{params.n_slots} * 4);
  command.require_bytes(2, uint64_t{params.n_slots} / params.n_used * sizeof(Row), true);
  prepared.run = run_group_experts;
  prepared.n_tasks = 1;
}

}  // namespace vesper
