// Whisper's audio encoder. In: log-mel windows. Out: one row of d_model per 20 ms.
//
// Two convolutions, position embeddings, and a bidirectional stack of layers. A convolution is a
// matrix product over overlapping rows of a zero-padded buffer. Used by decoder/whisper_model;
// cross-attention reads `output`.
#pragma once

#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class WhisperEncoder {
 public:
  // Uploads the weights and allocates buffers for `max_windows` windows. Throws Error(kModel,
  // kDevice).
  WhisperEncoder(Device& device, const WeightProvider& provider, Compute compute,
                 uint32_t max_windows);

  // Copies one window's scaled log-mel, [n_frames(), n_mels()], to index `window` of the next pass.
  void write_window(uint32_t window, const float* log_mel);

  // Emits the pass over the first `n_windows` windows.
  void emit(DispatchTable& table, uint32_t n_windows) const;

  // [max_windows * n_audio_ctx(), d_model] of output_dtype().
  const Operand& output() const { return output_; }
  DType output_dtype() const { return stack_.activation_dtype(); }

  uint32_t n_mels() const { return n_mels_; }
  uint32_t n_audio_ctx() const { return n_audio_ctx_; }
  uint32_t n_frames() const { return 2 * n_audio_ctx_; }
  uint32_t d_model() const { return stack_.config().d_model; }

 private:
  uint64_t padded_frames() const { return n_frames() + 2; }

  Device& device_;
  uint32_t n_mels_, n_audio_ctx_;
  LinearWeights conv1_, conv2_;
  Operand position_;  // f32 [n_audio_ctx, d_model]
  TransformerStack stack_;
  Operand log_mel_;    // f32 [max_windows, padded_frames, n_mels], one zero row before and after
  Operand conv1_out_;  // [max_windows, padded_frames, d_model], padded likewise
  Operand x_;          // f32 [max_windows * n_audio_ctx, d_model]
  Operand output_;
};

}  // namespace vesper
