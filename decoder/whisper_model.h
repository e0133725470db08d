// A loaded Whisper model on a device: encoder, decoder, vocabulary.
//
// In: a file or folder. Out, for decoder/windows/window_decoder: encoded windows, decoded prompts,
// the text of tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decoder/whisper_decoder.h"
#include "decoder/words/whisper_aligner.h"
#include "encoder/whisper_encoder.h"
#include "llm/generation/grammar_constraint.h"
#include "llm/grammar/grammar_options.h"
#include "llm/table/device.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class WhisperModel {
 public:
  // Loads the model onto `device` for `n_slots` windows that are decoded together, with
  // `n_candidates` sequences each. Up to `n_encoded` windows are encoded at once. `kv_types`: of
  // the decoder's keys and values. Throws Error(kModel, kDevice, kUsage).
  WhisperModel(const std::filesystem::path& path, std::unique_ptr<Device> device, Compute compute,
               uint32_t n_slots = 1, uint32_t n_candidates = 1, uint32_t n_encoded = 1,
               const KvTypes& kv_types = {});
  // The same from open files.
  WhisperModel(std::shared_ptr<const WeightProvider> weights, std::unique_ptr<Device> device,
               Compute compute, uint32_t n_slots = 1, uint32_t n_candidates = 1,
               uint32_t n_encoded = 1, const KvTypes& kv_types = {});

  // Encodes up to n_encoded() windows, each [n_frames, n_mels] of scaled log-mel, as the decoder's
  // windows of these indices. Throws Error(kInternal) for too many windows, or an index that is not
  // below n_windows() of the decoder.
  void encode(std::span<const float* const> windows, std::span<const uint32_t> to);
  // The same as window `to`.
  void encode(const float* window, uint32_t to = 0) { encode({&window, 1}, {&to, 1}); }

  WhisperDecoder& decoder() { return *decoder_; }
  // Created on first use. Throws Error(kDevice) if it does not fit.
  WhisperAligner& aligner();
  uint32_t n_encoded() const { return static_cast<uint32_t>(encode_.size()); }
  const WhisperEncoder& encoder() const { return *encoder_; }
  const TextTokenizer& tokenizer() const { return *tokenizer_; }
  const WhisperTokens& tokens() const { return tokens_; }
  const Device& device() const { return *device_; }
  Device& device() { return *device_; }
  Compute compute() const { return compute_; }
  // Log-mel frames of a window.
  uint32_t n_frames() const { return encoder_->n_frames(); }
  uint32_t n_mels() const { return encoder_->n_mels(); }
  // [n_mels, 201], empty if the file has none.
  const std::vector<float>& mel_filters() const { return provider_->config().mel_filters; }
  // The constraint of a text of this grammar, after a space or not, without timestamps. Masks are
  // shared with later texts. Throws Error(kUsage) like compile_grammar().
  GrammarConstraint grammar(const GrammarOptions& options);
  // Suppressed tokens: the file's list, otherwise the reference's.
  const std::vector<int32_t>& suppressed() const { return suppressed_; }

 private:
  std::unique_ptr<Device> device_;
  Compute compute_;
  std::shared_ptr<const WeightProvider> provider_;
  WhisperTokens tokens_;
  std::unique_ptr<const TextTokenizer> tokenizer_;
  std::unique_ptr<WhisperEncoder> encoder_;
  std::unique_ptr<WhisperDecoder> decoder_;
  std::unique_ptr<WhisperAligner> aligner_;
  GrammarCache grammars_;
  std::vector<int32_t> suppressed_;
  std::vector<ProgramId> encode_;  // [n_encoded]: for 1, 2, ... windows
};

}  // namespace vesper
