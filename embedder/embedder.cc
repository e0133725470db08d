#include "embedder/embedder.h"

#include <algorithm>
#include <bit>
#include <cmath>
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
  const ModelFiles files(is_folder ? path : path.parent_path());
  settings_ = read_embedding_settings(files, options.score != nullptr);
  std::vector<DenseLayer> layers;
  if (options.score != nullptr) {
    layers = options.score->layers;
    settings_.pooling = options.score->pooling;
    settings_.normalize = false;
    is_probability_ = options.score->is_probability;
  } else {
    if (const Gguf* gguf = weights.gguf()) {
      const auto pooling = read_gguf_pooling(path.string(), *gguf);
      settings_.pooling = pooling.value_or(settings_.pooling);
    }
    if (options.pooling) settings_.pooling = *options.pooling;
    if (options.normalize) settings_.normalize = *options.normalize;
    layers = read_dense_layers(weights, files, settings_.dense);
  }
  if (settings_.max_tokens == 0) settings_.max_tokens = kUsualMaxTokens;
  settings_.max_tokens = std::min(settings_.max_tokens, model.n_positions);
  if (options.max_tokens > model.n_positions) {
    throw Error(ErrorKind::kUsage, "max tokens",
                "expected at most " + std::to_string(model.n_positions) +
                    ", what this model can take, found " + std::to_string(options.max_tokens));
  }
  if (options.max_tokens != 0) settings_.max_tokens = options.max_tokens;
  const uint32_t width = layers.empty() ? model.d_model : layers.back().n_out;
  if (options.dimensions > width) {
    throw Error(ErrorKind::kUsage, "dimensions",
                "expected at most " + std::to_string(width) +
                    ", what this model's vectors have, found " +
                    std::to_string(options.dimensions));
  }
  dimensions_ = options.dimensions != 0 ? options.dimensions : width;
  const uint32_t wanted_tokens = options.batch_tokens != 0
                                     ? options.batch_tokens
                                     : device_->info().policy.embedding_batch_tokens;
  const uint32_t batch_tokens = std::max(wanted_tokens, settings_.max_tokens);
  const uint32_t batch_texts = (batch_tokens + kTokensPerText - 1) / kTokensPerText;
  encoder_ = std::make_unique<TextEncoder>(
      *device_, weights, compute_,
      TextEncoder::Options{batch_tokens, batch_texts, kernel_kind(settings_.pooling),
                           options.score != nullptr});
  vectors_ = device_->allocate(uint64_t{batch_texts} * dimensions_ * sizeof(float), "vectors");
  if (layers.empty()) return;
  layers_ = DenseLayers(*device_, layers, batch_texts);
  pooled_ = device_->allocate(uint64_t{batch_texts} * model.d_model * sizeof(float), "pooled rows");
}

ProgramId Embedder::program(uint32_t n_rows, uint32_t n_texts) {
  const std::pair size(n_rows, n_texts);
  const auto found = programs_.find(size);
  if (found != programs_.end()) return found->second;
  DispatchTable table;
  encoder_->emit(table, n_rows, n_texts);
  PoolParams pool{n_texts,
                  encoder_->d_model(),
                  dimensions_,
                  kernel_kind(settings_.pooling),
                  settings_.normalize ? 1u : 0u,
                  kDTypeF32};
  if (layers_.empty()) {
    emit::pool(table, "pool", pool, vectors_, encoder_->output(), encoder_->starts());
  } else {
    PoolParams whole = pool;
    whole.n_out = whole.d;
    whole.normalize = 0;
    emit::pool(table, "pool", whole, pooled_, encoder_->output(), encoder_->starts());
    layers_.emit(table, n_texts, pooled_);
    pool.d = layers_.n_out();
    pool.kind = kPoolFirst;
    emit::pool(table, "vectors", pool, vectors_, layers_.output());
  }
  return programs_.emplace(size, device_->record(table)).first->second;
}

void Embedder::run_batch(std::span<const std::span<const int32_t>> texts,
                         std::span<const uint32_t> second_begins, uint32_t n_tokens, float* out) {
  const uint32_t n_rows = rows_for(n_tokens, encoder_->max_rows());
  const auto n_texts = static_cast<uint32_t>(std::bit_ceil(texts.size()));
  const ProgramId id = program(n_rows, std::min(n_texts, batch_texts()));
  encoder_->write(texts, n_rows, second_begins);
  device_->run(id);
  const size_t n = texts.size() * dimensions_;
  device_->read(vectors_.part(0, n * sizeof(float)), out);
  if (!is_probability_) return;
  for (size_t i = 0; i < n; ++i) out[i] = 1 / (1 + std::exp(-out[i]));
}

void Embedder::embed(std::span<const std::span<const int32_t>> texts, float* out,
                     std::span<const uint32_t> second_begins) {
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
    const size_t n = end - begin;
    run_batch(texts.subspan(begin, n),
              second_begins.empty() ? second_begins : second_begins.subspan(begin, n),
              static_cast<uint32_t>(n_tokens), out + begin * dimensions_);
  }
}

}  // namespace vesper
