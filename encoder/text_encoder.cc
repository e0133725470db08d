#include "encoder/text_encoder.h"

#include <cmath>
#include <string>

#include "error/error.h"
#include "llm/models/language_model.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/text_encoder_model.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// The layers of a model made to encode text.
StackShape encoder_shape(const TextEncoderHyperparameters& model) {
  StackShape shape;
  shape.n_layers = model.n_layers;
  shape.d_model = model.d_model;
  shape.n_heads = model.n_heads;
  shape.n_kv_heads = model.n_kv_heads;
  shape.head_dim = model.head_dim;
  shape.d_ffn = model.d_ffn;
  shape.norm_epsilon = model.norm_epsilon;
  shape.alibi = model.alibi;
  if (model.rope.n_pairs == 0) return shape;
  shape.n_positions = model.n_positions;
  shape.ropes.push_back(model.rope);
  if (model.window_rope_theta > 0) {
    shape.ropes.push_back(model.rope);
    shape.ropes.back().theta = model.window_rope_theta;
  }
  for (const bool has_window : model.layer_has_window) {
    const uint32_t rope = has_window && model.window_rope_theta > 0 ? 1 : 0;
    shape.layers.push_back({.window = has_window ? model.window : 0, .rope = rope});
  }
  return shape;
}

void check(const WeightProvider& provider) {
  if (!provider.is_language_model()) return check_text_encoder(provider);
  check_language_model(provider);
  const LanguageModelFacts& facts = provider.language_model();
  if (facts.attention_soft_cap > 0) {
    throw Error(ErrorKind::kModel, provider.path().string() +
                                       ": expected a model whose attention is not capped, as whole "
                                       "texts at once are, found a cap of " +
                                       std::to_string(facts.attention_soft_cap));
  }
}

StackShape shape_of(const WeightProvider& provider) {
  if (!provider.is_language_model()) return encoder_shape(provider.text_encoder());
  const LanguageModelFacts& facts = provider.language_model();
  return language_model_shape(facts, arch_descriptor(facts.arch), facts.n_positions);
}

const ArchDescriptor& arch_of(const WeightProvider& provider) {
  return arch_descriptor(provider.is_language_model() ? provider.language_model().arch
                                                      : provider.text_encoder().arch);
}

// Checks the model before anything of it is uploaded.
Weight checked_embedding(Device& device, const WeightProvider& provider, Compute compute) {
  check(provider);
  const TensorView& table =
      provider.require(std::string(arch_of(provider).prefix) + ".embed.weight");
  return WeightUploader(device, provider, compute).matrix({{&table}}, WeightUse::kLookup);
}

// What each position adds to its token's vector: its own where positions have vectors, and that of
// token type 0, which every token has. [first_position + n_positions, d]; absent if there is
// neither.
Operand vectors_of_positions(const WeightUploader& upload, const WeightProvider& provider,
                             uint32_t d) {
  const TensorView* positions = provider.find("encoder.position.weight");
  const TensorView* types = provider.find("encoder.token_type.weight");
  if (positions == nullptr && types == nullptr) return {};
  const uint64_t n =
      positions ? positions->n_elements() : uint64_t{text_encoder_limits(provider).n_positions} * d;
  return upload.store(n, "encoder.position.weight", [&] {
    std::vector<float> vectors = positions ? upload.read(*positions) : std::vector<float>(n);
    if (types == nullptr) return vectors;
    const std::vector<float> type = upload.read(*types);
    for (size_t i = 0; i < vectors.size(); ++i) vectors[i] += type[i % d];
    return vectors;
  });
}

}  // namespace

TextEncoderLimits text_encoder_limits(const WeightProvider& provider) {
  if (provider.is_language_model()) {
    const LanguageModelFacts& facts = provider.language_model();
    return {facts.n_vocab, facts.d_model, facts.n_positions};
  }
  const TextEncoderHyperparameters& facts = provider.text_encoder();
  return {facts.n_vocab, facts.d_model, facts.n_positions};
}

TextEncoder::TextEncoder(Device& device, const WeightProvider& provider, Compute compute,
                         uint32_t max_rows, uint32_t max_sequences)
    : device_(device),
      limits_(text_encoder_limits(provider)),
      first_position_(provider.is_text_encoder() ? provider.text_encoder().first_position : 0),
      max_rows_(max_rows),
      max_sequences_(max_sequences),
      arch_(arch_of(provider)),
      embedding_(checked_embedding(device, provider, compute)),
      stack_(device, provider, arch_, shape_of(provider), compute, WeightUse::kManyRows, max_rows),
      host_rows_(max_rows),
      host_starts_(size_t{max_sequences} + 1) {
  const WeightUploader upload(device, provider, compute);
  const uint32_t d = d_model();
  const std::string stack(arch_.prefix);
  embedding_scale_ = arch_.scales_embedding ? std::sqrt(static_cast<float>(d)) : 1.0f;
  position_ = vectors_of_positions(upload, provider, d);
  if (provider.find(stack + ".embed_norm.weight")) {
    embed_norm_ = upload.norm(stack + ".embed_norm", d);
  }
  rows_ = device.allocate(uint64_t{max_rows} * sizeof(Row), "tokens of the rows");
  starts_ = device.allocate((uint64_t{max_sequences} + 1) * sizeof(uint32_t), "sequence starts");
  x_ = device.allocate(dtype_bytes(DType::kF32, uint64_t{max_rows} * d), "encoder residual stream");
}

void TextEncoder::write(std::span<const std::span<const int32_t>> sequences, uint32_t n_rows) {
  uint32_t n = 0;
  for (size_t s = 0; s <= max_sequences_; ++s) {
    host_starts_[s] = n;
    if (s >= sequences.size()) continue;
    int32_t position = static_cast<int32_t>(first_position_);
    for (const int32_t token : sequences[s]) {
      host_rows_[n++] = {token, static_cast<int32_t>(s), position++, 0};
    }
  }
  for (uint32_t r = n; r < n_rows; ++r) host_rows_[r] = {0, -1, 0, 0};
  device_.write(rows_.part(0, uint64_t{n_rows} * sizeof(Row)), host_rows_.data());
  device_.write(starts_, host_starts_.data());
}

void TextEncoder::emit(DispatchTable& table, uint32_t n_rows) const {
  const std::string stack(arch_.prefix);
  const EmbedParams embed{n_rows, d_model(), embedding_.format, embedding_scale_};
  emit::embed(table, stack + ".embed", embed, x_, rows_, embedding_.data, position_,
              embedding_.scale);
  if (embed_norm_.weight.present()) {
    stack_.emit_norm(table, stack + ".embed_norm", embed_norm_, n_rows, x_, DType::kF32, x_);
  }
  stack_.emit_packed(table, n_rows, max_sequences_, starts_, x_, rows_);
  if (arch_.norm_placement == NormPlacement::kBefore) {
    stack_.emit_final_norm(table, n_rows, x_, DType::kF32, x_, {});
  }
}

}  // namespace vesper
