#include "embedder/embedder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Tokens per text if only the positions limit them. The whole context of a language model would
// take much memory.
constexpr uint32_t kUsualMaxTokens = 8192;
// A batch has at most one text per kTokensPerText tokens.
constexpr uint32_t kTokensPerText = 8;

uint32_t kernel_kind(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return kPoolMean;
    case Pooling::kFirst:
      return kPoolFirst;
    case Pooling::kLast:
      return kPoolLast;
  }
  return kPoolMean;
}

// The rows of the program for a number of tokens: multiples of 1/64 of the maximum, so that few
// rows are unused and there are few programs.
uint32_t rows_for(uint32_t n_tokens, uint32_t max_rows) {
  uint32_t step = 8;
  while (step * 64 < n_tokens) step *= 2;
  return std::min(max_rows, (n_tokens + step - 1) / step * step);
}

}  // namespace

Embedder::Embedder(const std::filesystem::path& path, std::unique_ptr<Device> device,
                   Compute compute, const EmbedderOptions& options)
    : Embedder(*open_weights(path), std::move(device), compute, options) {}

Embedder::Embedder(const WeightProvider& weights, std::unique_ptr<Device> device, Compute compute,
                   const EmbedderOptions& options)
    : device_(std::move(device)), compute_(device_->resolve(compute, WeightUse::kManyRows)) {
  const std::filesystem::path& path = weights.path();
  const TextEncoderLimits model = text_encoder_limits(weights);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  settings_ = read_embedding_settings(ModelFiles(is_folder ? path : path.parent_path()));
  if (const Gguf* gguf = weights.gguf()) {
    const auto pooling = read_gguf_pooling(path.string(), *gguf);
    settings_.pooling = pooling.value_or(settings_.pooling);
  }
  if (options.pooling) settings_.pooling = *options.pooling;
  if (options.normalize) settings_.normalize = *options.normalize;
  if (settings_.max_tokens == 0) settings_.max_tokens = kUsualMaxTokens;
  settings_.max_tokens = std::min(settings_.max_tokens, model.n_positions);
  if (options.max_tokens > model.n_positions) {
    throw Error(ErrorKind::kUsage, "max tokens",
                "expected at most " + std::to_string(model.n_positions) +
                    ", what this model can take, found " + std::to_string(options.max_tokens));
  }
  if (options.max_tokens != 0) settings_.max_tokens = options.max_tokens;
  if (options.dimensions > model.d_model) {
    throw Error(ErrorKind::kUsage, "dimensions",
                "expected at most " + std::to_string(model.d_model) +
                    ", what this model's vectors have, found " +
                    std::to_string(options.dimensions));
  }
  dimensions_ = options.dimensions != 0 ? options.dimensions : model.d_model;
  const uint32_t wanted_tokens = options.batch_tokens != 0
                                     ? options.batch_tokens
                                     : device_->info().policy.embedding_batch_tokens;
  const uint32_t batch_tokens = std::max(wanted_tokens, settings_.max_tokens);
  const uint32_t batch_texts = (batch_tokens + kTokensPerText - 1) / kTokensPerText;
  encoder_ = std::make_unique<TextEncoder>(*device_, weights, compute_, batch_tokens, batch_texts);
  vectors_ = device_->allocate(uint64_t{batch_texts} * dimensions_ * sizeof(float), "vectors");
}

ProgramId Embedder::program(uint32_t n_rows) {
  const auto found = programs_.find(n_rows);
  if (found != programs_.end()) return found->second;
  DispatchTable table;
  encoder_->emit(table, n_rows);
  const PoolParams pool{encoder_->max_sequences(), encoder_->d_model(), dimensions_,
                        kernel_kind(settings_.pooling), settings_.normalize ? 1u : 0u};
  emit::pool(table, "pool", pool, vectors_, encoder_->output(), encoder_->starts());
  return programs_.emplace(n_rows, device_->record(table)).first->second;
}

void Embedder::run_batch(std::span<const std::span<const int32_t>> texts, uint32_t n_tokens,
                         float* out) {
  const uint32_t n_rows = rows_for(n_tokens, encoder_->max_rows());
  const ProgramId id = program(n_rows);
  encoder_->write(texts, n_rows);
  device_->run(id);
  device_->read(vectors_.part(0, texts.size() * dimensions_ * sizeof(float)), out);
}

void Embedder::embed(std::span<const std::span<const int32_t>> texts, float* out) {
  for (size_t t = 0; t < texts.size(); ++t) {
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorKind::kInput, "text " + std::to_string(t + 1) + ": " + what);
    };
    if (texts[t].empty() || texts[t].size() > max_tokens()) {
      fail("expected 1 to " + std::to_string(max_tokens()) + " tokens, found " +
           std::to_string(texts[t].size()));
    }
    for (const int32_t id : texts[t]) {
      if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) {
        fail("expected token ids below " + std::to_string(n_vocab()) + ", found " +
             std::to_string(id));
      }
    }
  }
  for (size_t begin = 0, end = 0; begin < texts.size(); begin = end) {
    size_t n_tokens = 0;
    while (end < texts.size() && end - begin < batch_texts() &&
           n_tokens + texts[end].size() <= batch_tokens()) {
      n_tokens += texts[end++].size();
    }
    run_batch(texts.subspan(begin, end - begin), static_cast<uint32_t>(n_tokens),
              out + begin * dimensions_);
  }
}

}  // namespace vesper
