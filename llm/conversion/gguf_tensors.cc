#include "llm/conversion/gguf_tensors.h"

#include <algorithm>
#include <array>

namespace vesper {

const ModelFamily* hugging_face_family(const WeightProvider& weights) {
  if (weights.type() == ModelType::kWhisper) return &whisper_family();
  if (weights.gguf() != nullptr) return find_gguf_family(weights.family());
  const ModelConfig* model = weights.stated_config();
  const bool is_alibi = model != nullptr && !model->stacks.empty() &&
                        model->stacks.back().positions == PositionKind::kAlibi;
  return find_hugging_face_family(weights.family(), is_alibi ? "alibi" : "");
}

const ModelFamily* gguf_family(const WeightProvider& weights) {
  const ModelFamily* family = hugging_face_family(weights);
  return family == nullptr || family->gguf.empty() ? nullptr : find_gguf_family(family->gguf);
}

bool is_integer(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI16; }

uint64_t RotaryOrder::source_of(uint64_t row) const {
  if (head_dim == 0) return row;
  const uint64_t within = row % head_dim, head = row - within;
  if (within >= 2 * uint64_t{n_pairs}) return row;
  if (interleaves) return head + within % 2 * n_pairs + within / 2;
  return head + within % n_pairs * 2 + within / n_pairs;
}

RotaryOrder rotary_order(const StackConfig& stack, std::string_view name, bool from_interleaved,
                         bool to_interleaved) {
  constexpr std::array<std::string_view, 4> kRotated = {".attn.q.", ".attn.k.", ".attn.q_norm.",
                                                        ".attn.k_norm."};
  const bool is_rotated = std::any_of(kRotated.begin(), kRotated.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
  if (!is_rotated || stack.ropes.empty() || from_interleaved == to_interleaved) return {};
  return {stack.head_dim, stack.ropes[0].n_pairs, to_interleaved};
}

}  // namespace vesper
