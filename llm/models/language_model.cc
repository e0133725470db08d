#include "llm/models/language_model.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

KvCache::Shape cache_shape(const Device& device, const StackShape& stack,
                           const LanguageModel::Options& options) {
  KvCache::Shape shape;
  shape.keeps_layers_together = device.keeps_layers_together();
  shape.n_layers = stack.n_layers;
  shape.n_kv_heads = stack.n_kv_heads;
  shape.head_dim = stack.head_dim;
  shape.n_sequences = options.n_sequences;
  shape.n_positions = options.n_ctx;
  shape.dtype = options.kv_dtype;
  shape.n_extra_pages = options.n_extra_pages;
  if (!options.recycles_pages) return shape;
  // Rows of a pass are written before any of them looks back.
  for (const LayerShape& layer : stack.layers) {
    shape.sliding_layers.push_back(layer.window > 0);
    if (layer.window == 0) continue;
    const uint64_t kept = uint64_t{layer.window} + options.max_rows;
    shape.n_sliding_positions = static_cast<uint32_t>(
        std::min<uint64_t>(options.n_ctx, std::max<uint64_t>(shape.n_sliding_positions, kept)));
  }
  if (shape.n_sliding_positions == 0) shape.sliding_layers.clear();
  return shape;
}

bool last_of_period(uint32_t layer, uint32_t period) {
  return period != 0 && layer % period == period - 1;
}

}  // namespace

bool has_quantized_matrices(const WeightProvider& provider) {
  const auto& tensors = provider.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorView& tensor) {
    return tensor.name.ends_with("ffn.down.weight") && block_format(tensor).has_value();
  });
}

StackShape language_model_shape(const LanguageModelFacts& facts, const ArchDescriptor& arch,
                                uint32_t n_ctx) {
  StackShape shape;
  shape.n_layers = facts.n_layers;
  shape.d_model = facts.d_model;
  shape.n_heads = facts.n_heads;
  shape.n_kv_heads = facts.n_kv_heads;
  shape.head_dim = facts.head_dim;
  shape.d_ffn = facts.d_ffn;
  shape.norm_epsilon = facts.norm_epsilon;
  shape.interleaved_rope = facts.interleaved_rope;
  shape.n_positions = n_ctx;
  shape.attention_scale = facts.attention_scale;
  shape.attention_soft_cap = facts.attention_soft_cap;
  shape.norm_weight_offset = facts.norm_weight_offset;

  RopeSettings rope = facts.rope;
  const bool is_long = n_ctx > rope.original_positions;
  const std::vector<float>& freq_factors =
      is_long ? facts.long_freq_factors : facts.short_freq_factors;
  if (!freq_factors.empty()) rope.freq_factors = freq_factors;
  shape.ropes.push_back(rope);
  const float window_theta =
      facts.window_rope_theta > 0 ? facts.window_rope_theta : arch.window_rope_theta;
  if (window_theta > 0) {
    RopeSettings plain;
    plain.theta = window_theta;
    plain.n_pairs = rope.n_pairs;
    shape.ropes.push_back(plain);
  }

  for (uint32_t i = 0; i < facts.n_layers; ++i) {
    LayerShape layer;
    // With a period of 1 every layer has the window.
    const bool has_window =
        !facts.layer_has_window.empty()
            ? facts.layer_has_window[i]
            : arch.window_period == 1 ||
                  (arch.window_period > 1 && !last_of_period(i, arch.window_period));
    if (has_window) layer.window = facts.window;
    const bool has_rope = !facts.layer_has_rope.empty() ? facts.layer_has_rope[i]
                                                        : !last_of_period(i, arch.rope_free_period);
    if (has_rope) layer.rope = has_window && window_theta > 0 ? 1 : 0;
    shape.layers.push_back(layer);
  }
  return shape;
}

namespace {

// Checked before anything is stored: what a context of so many positions takes.
LanguageModel::Options completed(const Device& device, const WeightProvider& provider,
                                 LanguageModel::Options options) {
  check_language_model(provider);
  const LanguageModelFacts& facts = provider.language_model();
  if (options.n_ctx == 0) options.n_ctx = facts.n_positions;
  const StackShape stack = language_model_shape(facts, arch_descriptor(facts.arch), options.n_ctx);
  const uint64_t bytes = KvCache::bytes(cache_shape(device, stack, options));
  const uint64_t available = device.info().memory_bytes;
  if (available != 0 && bytes > available) {
    constexpr uint64_t kMiB = 1 << 20;
    throw Error(ErrorKind::kDevice,
                "the keys and values of a context of " + std::to_string(options.n_ctx) +
                    " tokens take " + std::to_string(bytes / kMiB) + " MiB" +
                    (options.n_sequences > 1
                         ? " for " + std::to_string(options.n_sequences) + " texts at once"
                         : std::string()) +
                    ", " + device.info().name + " has " + std::to_string(available / kMiB));
  }
  return options;
}

}  // namespace

LanguageModel::LanguageModel(Device& device, const WeightProvider& provider, Compute compute,
                             const Options& options)
    : LanguageModel(device, provider, arch_descriptor(provider.language_model().arch), compute,
                    completed(device, provider, options)) {}

LanguageModel::LanguageModel(Device& device, const WeightProvider& provider,
                             const ArchDescriptor& arch, Compute compute, const Options& options)
    : options_(options),
      n_vocab_(provider.language_model().n_vocab),
      embedding_scale_(arch.scales_embedding
                           ? std::sqrt(static_cast<float>(provider.language_model().d_model))
                           : 1.0f),
      logit_soft_cap_(provider.language_model().logit_soft_cap),
      rounds_attention_(device.rounds_attention(compute, has_quantized_matrices(provider))),
      embedding_(WeightUploader(device, provider, compute)
                     .matrix({{&provider.require("decoder.embed.weight")}}, WeightUse::kEmbedding)),
      output_(WeightUploader(device, provider, compute).output(embedding_)),
      stack_(device, provider, arch,
             language_model_shape(provider.language_model(), arch, options.n_ctx), compute,
             WeightUse::kAnyRows, options.max_rows),
      cache_(device, cache_shape(device, stack_.shape(), options)) {
  const uint32_t d = stack_.shape().d_model;
  x_ = device.allocate(dtype_bytes(DType::kF32, uint64_t{options.max_rows} * d), "residual stream");
  normed_ = device.allocate(
      dtype_bytes(stack_.activation_dtype(), uint64_t{options.max_logit_rows} * d), "final norm");
}

uint32_t LanguageModel::longest_window() const {
  uint32_t longest = 0;
  for (const LayerShape& layer : stack_.shape().layers) longest = std::max(longest, layer.window);
  return longest;
}

void LanguageModel::emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows,
                              bool is_prompt) const {
  const EmbedParams embed{n_rows, stack_.shape().d_model, embedding_.format, embedding_scale_};
  emit::embed(table, "decoder.embed", embed, x_, rows, embedding_.data, {}, embedding_.scale);
  TransformerStack::CausalContext context;
  context.rows = rows;
  context.self = &cache_;
  context.is_prompt = is_prompt;
  context.rounds_attention = rounds_attention_;
  stack_.emit_causal(table, n_rows, x_, context);
}

void LanguageModel::emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index,
                                const Operand& out) const {
  stack_.emit_final_norm(table, n_rows, normed_, stack_.activation_dtype(), x_, index);
  emit_linear(table, "decoder.output", {output_, {}}, n_rows, out, DType::kF32, normed_,
              stack_.activation_dtype());
  if (logit_soft_cap_ > 0) {
    emit::activation(table, "decoder.output.cap",
                     {n_rows * n_vocab_, kActivationSoftCap, logit_soft_cap_}, out, out);
  }
}

}  // namespace vesper
