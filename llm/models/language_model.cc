#include "llm/models/language_model.h"

#include <algorithm>
#include <cmath>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

KvCache::Shape cache_shape(const Device& device, const StackConfig& stack,
                           const LanguageModel::Options& options) {
  KvCache::Shape shape;
  shape.keeps_layers_together = device.info().policy.keeps_layers_together;
  shape.n_layers = stack.n_layers;
  shape.n_kv_heads = stack.n_kv_heads;
  shape.head_dim = stack.head_dim;
  shape.n_sequences = options.n_sequences;
  shape.n_positions = options.n_ctx;
  shape.dtype = options.kv_dtype;
  shape.n_extra_pages = options.n_extra_pages;
  if (!options.recycles_pages) return shape;
  // Rows of a pass are written before any of them looks back.
  for (const LayerConfig& layer : stack.layers) {
    shape.sliding_layers.push_back(layer.sliding_window > 0);
    if (layer.sliding_window == 0) continue;
    const uint64_t kept = uint64_t{layer.sliding_window} + options.max_rows;
    shape.n_sliding_positions = static_cast<uint32_t>(
        std::min<uint64_t>(options.n_ctx, std::max<uint64_t>(shape.n_sliding_positions, kept)));
  }
  if (shape.n_sliding_positions == 0) shape.sliding_layers.clear();
  return shape;
}

}  // namespace

bool has_quantized_matrices(const WeightProvider& provider) {
  const auto& tensors = provider.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorView& tensor) {
    return tensor.name.ends_with("ffn.down.weight") && block_format(tensor).has_value();
  });
}

StackConfig with_context(const StackConfig& stack, uint32_t n_ctx) {
  StackConfig result = stack;
  result.n_positions = n_ctx;
  return result;
}

namespace {

// Checked before anything is stored: what a context of so many positions takes.
LanguageModel::Options completed(const Device& device, const WeightProvider& provider,
                                 LanguageModel::Options options) {
  const StackConfig& stack = provider.config(ModelType::kLanguageModel).decoder();
  if (options.n_ctx == 0) options.n_ctx = stack.n_positions;
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
    : LanguageModel(device, provider, provider.config(ModelType::kLanguageModel), compute,
                    completed(device, provider, options)) {}

LanguageModel::LanguageModel(Device& device, const WeightProvider& provider,
                             const ModelConfig& config, Compute compute, const Options& options)
    : options_(options),
      n_vocab_(config.n_vocab),
      rounds_attention_(device.info()
                            .policy.products(compute, has_quantized_matrices(provider))
                            .rounds_attention),
      embedding_(WeightUploader(device, provider, compute)
                     .matrix({{&provider.require("decoder.embed.weight")}}, WeightUse::kEmbedding)),
      output_(WeightUploader(device, provider, compute).output(embedding_)),
      stack_(device, provider, with_context(config.decoder(), options.n_ctx), compute,
             WeightUse::kAnyRows, options.max_rows),
      cache_(device, cache_shape(device, stack_.config(), options)) {
  const uint32_t d = stack_.config().d_model;
  x_ = device.allocate(dtype_bytes(DType::kF32, uint64_t{options.max_rows} * d), "residual stream");
  normed_ = device.allocate(
      dtype_bytes(stack_.activation_dtype(), uint64_t{options.max_logit_rows} * d), "final norm");
}

uint32_t LanguageModel::longest_window() const {
  uint32_t longest = 0;
  for (const LayerConfig& layer : stack_.config().layers)
    longest = std::max(longest, layer.sliding_window);
  return longest;
}

void LanguageModel::emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows,
                              bool is_prompt) const {
  const EmbedParams embed{n_rows, stack_.config().d_model, embedding_.format,
                          stack_.config().embedding_scale};
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
  if (stack_.config().logit_soft_cap > 0) {
    emit::activation(table, "decoder.output.cap",
                     {n_rows * n_vocab_, kActivationSoftCap, stack_.config().logit_soft_cap}, out,
                     out);
  }
}

}  // namespace vesper
