// Texts to vectors, and pairs of texts to scores, for `embed`.
//
// In: token ids of texts. Out: one vector per text, or one score per pair. Texts are packed in
// order into batches up to a number of tokens, without padding. The vector of a text is independent
// of the rest of the batch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "embedder/dense_layers.h"
#include "embedder/embedding_settings.h"
#include "embedder/score_head.h"
#include "encoder/text_encoder.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct EmbedderOptions {
  std::optional<Pooling> pooling;  // absent: from the model's files
  std::optional<bool> normalize;   // likewise
  uint32_t dimensions = 0;         // of the vectors, the first ones; 0: all
  uint32_t max_tokens = 0;         // per text; 0: from the model's files
  uint32_t batch_tokens = 0;       // per batch; 0: chosen for the device
  // Not null: the texts are the pairs of a reranker. The vector of a pair is its score.
  const ScoreHead* score = nullptr;
};

class Embedder {
 public:
  // Loads the model onto `device`. Throws Error(kModel, kDevice, kUsage).
  Embedder(const std::filesystem::path& path, std::unique_ptr<Device> device, Compute compute,
           const EmbedderOptions& options = {});
  // The same from open files, which are not needed afterwards.
  Embedder(const WeightProvider& weights, std::unique_ptr<Device> device, Compute compute,
           const EmbedderOptions& options = {});

  // Writes the vectors of texts to `out`, [texts.size(), dimensions()]. A text has 1 to
  // max_tokens() ids below n_vocab(); throws Error(kInput) naming the first text that has not. The
  // first batch of a size allocates, later ones do not. `second_begins`, [texts.size()]: where the
  // second texts of pairs begin.
  void embed(std::span<const std::span<const int32_t>> texts, float* out,
             std::span<const uint32_t> second_begins = {});

  const EmbeddingSettings& settings() const { return settings_; }  // with the options applied
  uint32_t dimensions() const { return dimensions_; }
  uint32_t max_tokens() const { return settings_.max_tokens; }
  uint32_t n_vocab() const { return encoder_->n_vocab(); }
  uint32_t batch_tokens() const { return encoder_->max_rows(); }
  uint32_t batch_texts() const { return encoder_->max_sequences(); }
  const Device& device() const { return *device_; }
  Compute compute() const { return compute_; }

 private:
  void run_batch(std::span<const std::span<const int32_t>> texts,
                 std::span<const uint32_t> second_begins, uint32_t n_tokens, float* out);
  ProgramId program(uint32_t n_rows, uint32_t n_texts);

  std::unique_ptr<Device> device_;
  Compute compute_;
  EmbeddingSettings settings_;
  std::unique_ptr<TextEncoder> encoder_;
  bool is_probability_ = false;  // vectors are scores before a sigmoid
  uint32_t dimensions_;
  Operand vectors_;     // f32 [max_sequences, dimensions]
  DenseLayers layers_;  // after the pooling; may be empty
  Operand pooled_;      // input of the layers, f32 [max_sequences, d_model] (?)
  std::map<std::pair<uint32_t, uint32_t>, ProgramId> programs_;  // by numbers of rows and texts
};

}  // namespace vesper
