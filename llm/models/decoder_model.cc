#include "llm/models/decoder_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "error/error.h"
#include "llm/dtype/quantized_row.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

KvCache::Shape cache_shape(const Device& device, const StackConfig& stack,
                           const DecoderModel::Options& options) {
  KvCache::Shape shape;
  shape.page_rows = options.page_rows;
  shape.keeps_layers_together = device.info().policy.keeps_layers_together;
  shape.n_layers = stack.n_layers;
  shape.n_kv_heads = stack.n_kv_heads;
  shape.head_dim = stack.head_dim;
  shape.n_sequences = options.n_sequences;
  shape.n_positions = options.n_ctx;
  shape.types = options.kv_types;
  shape.n_extra_pages = options.n_extra_pages;
  if (!options.recycles_pages) return shape;
  // The rows of a pass are written before any of them is read.
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

// Fails before uploading if the context does not fit.
DecoderModel::Options completed(const Device& device, const WeightProvider& provider,
                                DecoderModel::Options options) {
  const StackConfig& stack = provider.config().decoder();
  if (stack.attention != AttentionKind::kCausal) {
    throw Error(ErrorKind::kModel, provider.path().string() +
                                       ": expected a model that generates text, found one that "
                                       "embeds texts, with attention to both sides");
  }
  if (options.n_ctx == 0) options.n_ctx = stack.n_positions;
  check_kv_types(options.kv_types, stack.head_dim);
  const uint64_t bytes = KvCache::bytes(cache_shape(device, stack, options));
  const uint64_t available = device.info().memory_bytes;
  if (available != 0 && bytes > available) {
    constexpr uint64_t kMiB = 1 << 20;
    throw Error(
        ErrorKind::kDevice,
        "the keys and values of a context of " + std::to_string(options.n_ctx) + " tokens take " +
            std::to_string(bytes / kMiB) + " MiB" +
            (options.n_sequences > 1 ? " for " + std::to_string(options.n_sequences) + " sequences"
                                     : std::string()) +
            ", " + device.info().name + " has " + std::to_string(available / kMiB));
  }
  return options;
}

StackConfig with_context(StackConfig stack, uint32_t n_ctx) {
  stack.n_positions = n_ctx;
  return stack;
}

}  // namespace

bool has_quantized_matrices(const WeightProvider& provider) {
  const auto& tensors = provider.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorView& tensor) {
    return tensor.name.ends_with("ffn.down.weight") && block_format(tensor).has_value();
  });
}

DecoderModel::DecoderModel(Device& device, const WeightProvider& provider, Compute compute,
                           const Options& options)
    : DecoderModel(device, provider, provider.config(), compute,
                   completed(device, provider, options)) {}

DecoderModel::DecoderModel(Device& device, const WeightProvider& provider,
                           const ModelConfig& config, Compute compute, const Options& options)
    : device_(device),
      options_(options),
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
  const StackConfig& stack = stack_.config();
  const uint64_t d = stack.d_model;
  if (stack.positions == PositionKind::kVectors) {
    position_ = WeightUploader(device, provider, compute)
                    .vector("decoder.position.weight", config.decoder().n_positions * d);
  }
  if (stack.cross_attention) {
    n_source_positions_ = config.encoder().n_positions;
    // With rows in fours, the heads of a quantized page start at multiples of 8 bytes.
    cross_.emplace(device, KvCache::Shape{.n_layers = stack.n_layers,
                                          .n_kv_heads = stack.n_kv_heads,
                                          .head_dim = stack.head_dim,
                                          .n_sequences = options.n_sources,
                                          .n_positions = n_source_positions_,
                                          .page_rows = (n_source_positions_ + 3) / 4 * 4,
                                          .types = options.kv_types});
    const uint64_t n_rows = uint64_t{options.n_encoded} * n_source_positions_;
    encoded_.resize(std::min(options.n_encoded, options.n_sources));
    std::iota(encoded_.begin(), encoded_.end(), 0u);
    for (Operand& scratch : cross_scratch_) {
      scratch = device.allocate(dtype_bytes(DType::kF32, n_rows * 2 * stack.kv_width()),
                                "cross keys and values");
    }
    sources_ = device.allocate(options.n_sequences * sizeof(int32_t), "sources of the sequences");
  }
  x_ = device.allocate(dtype_bytes(DType::kF32, options.max_rows * d), "residual stream");
  normed_ = device.allocate(dtype_bytes(stack_.activation_dtype(), options.max_logit_rows * d),
                            "final norm");
}

uint32_t DecoderModel::longest_window() const {
  uint32_t longest = 0;
  for (const LayerConfig& layer : stack_.config().layers)
    longest = std::max(longest, layer.sliding_window);
  return longest;
}

TransformerStack::CausalContext DecoderModel::context(const Operand& rows,
                                                      PassRowOrder order) const {
  TransformerStack::CausalContext context;
  context.rows = rows;
  context.self = &cache_;
  context.order = order;
  context.rounds_attention = rounds_attention_;
  if (cross_) {
    context.cross = &*cross_;
    context.cross_pages = sources_;
  }
  return context;
}

void DecoderModel::emit_rows(DispatchTable& table, uint32_t n_rows,
                             const TransformerStack::CausalContext& context, PassPart part) const {
  if (part != PassPart::kRest) {
    const EmbedParams embed{n_rows, stack_.config().d_model, embedding_.format,
                            stack_.config().embedding_scale};
    emit::embed(table, "decoder.embed", embed, x_, context.rows, embedding_.data, position_,
                embedding_.scale);
  }
  stack_.emit_causal(table, n_rows, x_, context, part);
}

void DecoderModel::emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index,
                               const Operand& out, const Operand& rows, uint32_t first_row) const {
  const DType dtype = input_dtype(output_, n_rows, stack_.activation_dtype());
  stack_.emit_final_norm(table, n_rows, normed_, dtype,
                         x_.from(dtype_bytes(DType::kF32, uint64_t{first_row} * config().d_model)),
                         index);
  emit_linear(table, "decoder.output", {output_, {}}, n_rows, out, DType::kF32, normed_, dtype,
              {.rows = rows});
  if (config().logit_soft_cap > 0) {
    emit::activation(table, "decoder.output.cap",
                     {n_rows * n_vocab_, kActivationSoftCap, config().logit_soft_cap}, out, out);
  }
}

void DecoderModel::emit_cross_kv(DispatchTable& table, uint32_t n, const Operand& output,
                                 DType dtype) const {
  stack_.emit_cross_kv(table, n, n_source_positions_, output, dtype, *cross_, cross_scratch_);
}

void DecoderModel::set_encoded(std::span<const uint32_t> sources) {
  if (sources.size() > encoded_.size() ||
      std::ranges::any_of(sources, [&](uint32_t each) { return each >= options_.n_sources; })) {
    throw Error(ErrorKind::kInternal,
                "decoder: expected at most " + std::to_string(encoded_.size()) + " sources below " +
                    std::to_string(options_.n_sources) + ", found " +
                    std::to_string(sources.size()) + " up to " +
                    std::to_string(sources.empty() ? 0 : std::ranges::max(sources)));
  }
  if (std::ranges::equal(sources, std::span(encoded_).first(sources.size()))) return;
  std::ranges::copy(sources, encoded_.begin());
  // The keys and values of a source are one page; only their writer uses this table.
  const std::vector<int32_t> pages(sources.begin(), sources.end());
  device_.write(cross_->page_table().part(0, pages.size() * sizeof(int32_t)), pages.data());
}

}  // namespace vesper
