// range_probabilities: one softmax per row.
#include <algorithm>
#include <cmath>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_range_probabilities(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<RangeProbabilitiesParams>();
  const float* logits = command.operand<const float>(1) + size_t{task} * params.row_stride;
  const float* first = logits + params.softmax_first;
  const float* end = first + params.softmax_count;
  const float largest = *std::max_element(first, end);
  double sum = 0.0;
  for (const float* logit = first; logit != end; ++logit) sum += std::exp(*logit - largest);
  float* out = command.operand<float>(0) + size_t{task} * params.out_count;
  const uint32_t* ids = command.operand<const uint32_t>(2);
  const float* wanted = logits + (ids ? ids[task] : params.out_first);
  for (uint32_t i = 0; i < params.out_count; ++i) {
    out[i] = static_cast<float>(std::exp(wanted[i] - largest) / sum);
  }
}

}  // namespace

void prepare_range_probabilities(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<RangeProbabilitiesParams>();
  command.require(params.n_rows > 0 && params.softmax_count > 0, "a size is zero");
  command.require_bytes(0, uint64_t{params.n_rows} * params.out_count * 4);
  const uint64_t width = std::max(uint64_t{params.softmax_first} + params.softmax_count,
                                  uint64_t{params.out_first} + params.out_count);
  command.require_bytes(1, (uint64_t{params.n_rows - 1} * params.row_stride + width) * 4);
  command.require_bytes(2, uint64_t{params.n_rows} * 4, true);
  prepared.run = run_range_probabilities;
  prepared.n_tasks = params.n_rows;
}

}  // namespace vesper
