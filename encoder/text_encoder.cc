#include "encoder/text_encoder.h"

#include "llm/weights/text_encoder_model.h"

namespace vesper {
namespace {

// Checked before anything is uploaded.
const TextEncoderHyperparameters& checked(const WeightProvider& provider) {
  check_text_encoder(provider);
  return provider.text_encoder();
}

StackShape stack_shape(const TextEncoderHyperparameters& model) {
  return {.n_layers = model.n_layers,
          .d_model = model.d_model,
          .n_heads = model.n_heads,
          .n_kv_heads = model.n_kv_heads,
          .head_dim = model.head_dim,
          .d_ffn = model.d_ffn,
          .norm_epsilon = model.norm_epsilon};
}

// Positions with the vector of token type 0, which every token has, added to each.
std::vector<float> positions_with_type(const WeightProvider& provider, uint32_t d) {
  std::vector<float> positions = read_f32(provider.require("encoder.position.weight"));
  const TensorView* types = provider.find("encoder.token_type.weight");
  if (types == nullptr) return positions;
  const std::vector<float> type = read_f32(*types);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] += type[i % d];
  return positions;
}

}  // namespace

TextEncoder::TextEncoder(Device& device, const WeightProvider& provider, Compute compute,
                         uint32_t max_rows, uint32_t max_sequences)
    : device_(device),
      n_vocab_(checked(provider).n_vocab),
      n_positions_(provider.text_encoder().n_positions),
      first_position_(provider.text_encoder().first_position),
      max_rows_(max_rows),
      max_sequences_(max_sequences),
      stack_(device, provider, arch_descriptor(provider.text_encoder().arch),
             stack_shape(provider.text_encoder()), compute, WeightUse::kManyRows, max_rows),
      host_rows_(max_rows),
      host_starts_(size_t{max_sequences} + 1) {
  const WeightUploader upload(device, provider, compute);
  const uint32_t d = d_model();
  embedding_ = upload.matrix({{&provider.require("encoder.embed.weight")}}, WeightUse::kEmbedding);
  position_ = upload.store(positions_with_type(provider, d), "encoder.position.weight");
  embed_norm_ = upload.norm("encoder.embed_norm", d);
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
  const uint32_t d = d_model();
  const EmbedParams embed{n_rows, d, embedding_.format, 1.0f};
  emit::embed(table, "encoder.embed", embed, x_, rows_, embedding_.data, position_,
              embedding_.scale);
  stack_.emit_norm(table, "encoder.embed_norm", embed_norm_, n_rows, x_, DType::kF32, x_);
  stack_.emit_packed(table, n_rows, max_sequences_, starts_, x_);
}

}  // namespace vesper
