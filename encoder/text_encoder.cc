#include "encoder/text_encoder.h"

#include <string>

#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// The checked configuration of a text encoder, or of a language model used as one.
const ModelConfig& config_of(const WeightProvider& provider) {
  const ModelConfig& config =
      provider.config(provider.type() == ModelType::kLanguageModel ? ModelType::kLanguageModel
                                                                   : ModelType::kTextEncoder);
  const float cap = config.decoder().attention_soft_cap;
  if (cap > 0) {
    throw Error(ErrorKind::kModel, provider.path().string() +
                                       ": expected a model without an attention soft cap to embed "
                                       "texts, found a cap of " +
                                       std::to_string(cap));
  }
  return config;
}

// The vector added to the token embedding at each position: the position embedding, if any, plus
// that of token type 0, then the same for the other `n_types`. [n_types, first_position +
// n_positions, d]; absent if there is neither.
Operand vectors_of_positions(const WeightUploader& upload, const WeightProvider& provider,
                             uint32_t d, uint32_t n_types) {
  const TensorView* positions = provider.find("encoder.position.weight");
  const TensorView* types = provider.find("encoder.token_type.weight");
  if (positions == nullptr && types == nullptr) return {};
  const uint64_t n =
      positions ? positions->n_elements() : uint64_t{provider.config().encoder().n_positions} * d;
  return upload.store(n * n_types, "encoder.position.weight", [&] {
    const std::vector<float> one = positions ? upload.read(*positions) : std::vector<float>(n);
    const std::vector<float> type =
        types ? upload.read(*types) : std::vector<float>(uint64_t{n_types} * d);
    std::vector<float> vectors;
    vectors.reserve(n * n_types);
    for (uint32_t t = 0; t < n_types; ++t) {
      for (size_t i = 0; i < n; ++i) vectors.push_back(one[i] + type[t * d + i % d]);
    }
    return vectors;
  });
}

// The stack of a language model without the scale of its logits.
StackConfig without_logits(StackConfig stack) {
  stack.logit_scale = 1;
  return stack;
}

// Whether tokens of type 1 differ from those of type 0.
bool has_second_type(const WeightProvider& provider) {
  const TensorView* types = provider.find("encoder.token_type.weight");
  return types != nullptr && types->shape[0] > 1;
}

}  // namespace

TextEncoderLimits text_encoder_limits(const WeightProvider& provider) {
  const ModelConfig& config = config_of(provider);
  return {config.n_vocab, config.decoder().d_model, config.decoder().n_positions};
}

TextEncoder::TextEncoder(Device& device, const WeightProvider& provider, Compute compute,
                         const Options& options)
    : device_(device),
      limits_(text_encoder_limits(provider)),
      options_(options),
      embedding_(WeightUploader(device, provider, compute)
                     .matrix({{&provider.require(std::string(provider.config().encoder().name) +
                                                 ".embed.weight")}},
                             WeightUse::kLookup)),
      stack_(device, provider, without_logits(provider.config().encoder()), compute,
             WeightUse::kManyRows, options.max_rows),
      host_rows_(options.max_rows),
      host_starts_(size_t{options.max_sequences} + 1) {
  const WeightUploader upload(device, provider, compute);
  const uint32_t d = d_model();
  const std::string stack(stack_.config().name);
  const bool has_types = options.reads_pairs && has_second_type(provider);
  if (has_types && stack_.config().positions != PositionKind::kVectors) {
    throw Error(ErrorKind::kModel, provider.path().string() +
                                       ": expected pairs of one token type with rotary positions, "
                                       "found two types");
  }
  position_ = vectors_of_positions(upload, provider, d, has_types ? 2 : 1);
  if (has_types) {
    second_type_ = static_cast<int32_t>(stack_.config().first_position + n_positions());
  }
  if (provider.find(stack + ".embed_norm.weight")) {
    embed_norm_ = upload.norm(stack + ".embed_norm", d);
  }
  rows_ = device.allocate(uint64_t{options.max_rows} * sizeof(Row), "token rows");
  starts_ = device.allocate(host_starts_.size() * sizeof(uint32_t), "sequence starts");
  x_ = device.allocate(dtype_bytes(DType::kF32, uint64_t{options.max_rows} * d),
                       "encoder residual stream");
  if (options.pooling == kPoolMean) return;
  const uint64_t n_pooled = uint64_t{options.max_sequences} * d;
  pooled_ = {options.pooling, device.allocate(dtype_bytes(DType::kF32, n_pooled), "pooled rows")};
}

void TextEncoder::write(std::span<const std::span<const int32_t>> sequences, uint32_t n_rows,
                        std::span<const uint32_t> second_begins) {
  uint32_t n = 0;
  for (size_t s = 0; s <= options_.max_sequences; ++s) {
    host_starts_[s] = n;
    if (s >= sequences.size()) continue;
    const size_t second = second_begins.empty() ? SIZE_MAX : second_begins[s];
    auto position = static_cast<int32_t>(stack_.config().first_position);
    for (size_t t = 0; t < sequences[s].size(); ++t, ++position) {
      host_rows_[n++] = {sequences[s][t], static_cast<int32_t>(s),
                         position + (t < second ? 0 : second_type_), 0};
    }
  }
  for (uint32_t r = n; r < n_rows; ++r) host_rows_[r] = {0, -1, 0, 0};
  device_.write(rows_.part(0, uint64_t{n_rows} * sizeof(Row)), host_rows_.data());
  device_.write(starts_, host_starts_.data());
}

void TextEncoder::emit(DispatchTable& table, uint32_t n_rows, uint32_t n_sequences) const {
  const std::string stack(stack_.config().name);
  const EmbedParams embed{n_rows, d_model(), embedding_.format, stack_.config().embedding_scale};
  emit::embed(table, stack + ".embed", embed, x_, rows_, embedding_.data, position_,
              embedding_.scale);
  if (embed_norm_.weight.present()) {
    stack_.emit_norm(table, stack + ".embed_norm", embed_norm_, n_rows, x_, DType::kF32, x_);
  }
  stack_.emit_bidirectional(table, n_rows, n_sequences, x_, starts_, rows_,
                            pooled_ ? &*pooled_ : nullptr);
  if (stack_.config().norm_placement != NormPlacement::kAfter) {
    stack_.emit_final_norm(table, pooled_ ? n_sequences : n_rows, output(), DType::kF32, output(),
                           {});
  }
}

}  // namespace vesper
