// Reads model files: in comes a path, out go named tensors over the mapped file, the facts about
// the model that its files state, and its vocabulary. Called by the model builders and `inspect`.
//
// The format is found by content. Every format's own tensor names are mapped to one canonical set:
//
//   encoder.conv{1,2}.{weight,bias}              [d, in, 3], [d]
//   encoder.position.weight                      [n_audio_ctx, d]
//   {encoder,decoder}.layers.N.attn_norm.{weight,bias}
//   {encoder,decoder}.layers.N.attn.{q,k,v,out}.{weight,bias}
//   decoder.layers.N.cross_norm.*, decoder.layers.N.cross.{q,k,v,out}.*
//   {encoder,decoder}.layers.N.ffn_norm.*, ....ffn.{up,down}.*
//   {encoder,decoder}.norm.{weight,bias}
//   decoder.embed.weight [n_vocab, d], decoder.position.weight [n_text_ctx, d]
//   decoder.output.weight                        only where it is not tied to decoder.embed
//
// Matrices are [out, in], row-major, the last dimension contiguous. A name the file does not have
// is simply absent (Whisper's keys have no bias).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/dtype.h"

namespace vesper {

// A tensor inside a mapped file: valid as long as its provider.
struct TensorView {
  std::string name;              // canonical
  std::string file_name;         // as the file spells it
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;   // outermost first; empty for a scalar
  const void* data = nullptr;    // unaligned
  uint64_t bytes = 0;
  // For kI8: value = i8 * scale[row]; the reader has inverted what the file stores if need be.
  std::vector<float> scale;      // [shape[0]], else empty
  uint64_t n_elements() const;
};

// What a Whisper file says of its model. Absent facts are empty or nullopt, never guessed here.
struct WhisperHyperparameters {
  uint32_t n_mels = 0, n_audio_ctx = 0, n_text_ctx = 0, n_vocab = 0;
  uint32_t d_model = 0;                       // the width of encoder and decoder
  uint32_t n_encoder_heads = 0, n_decoder_heads = 0;
  uint32_t n_encoder_layers = 0, n_decoder_layers = 0;
  uint32_t d_ffn = 0;
  std::vector<float> mel_filters;             // [n_mels, 201], only where the file has them
  std::vector<std::array<uint32_t, 2>> alignment_heads;  // [layer, head]
  std::vector<int32_t> suppress_tokens;       // the file's own list; empty if it has none
  std::vector<int32_t> suppress_tokens_at_begin;
};

class WeightProvider {
 public:
  virtual ~WeightProvider() = default;

  // "ggml", "ctranslate2", "safetensors".
  virtual std::string_view format() const = 0;
  // "whisper"; empty if the files do not tell.
  virtual std::string_view family() const = 0;
  // Every tensor, in the order of the file. Fused tensors appear as their canonical parts.
  virtual const std::vector<TensorView>& tensors() const = 0;
  // The tensor of that canonical name, or null. Stable for the provider's life.
  const TensorView* find(std::string_view canonical_name) const;
  // The same, but throws Error(kModel) naming file and tensor if it is absent.
  const TensorView& require(std::string_view canonical_name) const;
  // Throws Error(kModel) if this is not a Whisper model or its numbers contradict its tensors.
  virtual const WhisperHyperparameters& whisper() const = 0;
  // The vocabulary as raw bytes by token id (byte-level spelling already undone). Special tokens
  // that the file does not list are absent: the vector may be shorter than n_vocab.
  virtual const std::vector<std::string>& vocabulary() const = 0;
  const std::filesystem::path& path() const { return path_; }

 protected:
  std::filesystem::path path_;
};

// Opens a file, or a folder with `model.bin` or `*.safetensors`. Throws Error(kModel) naming the
// file, the offset and what was expected; or what is wrong with the path.
std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path);

// All of a tensor's elements as f32, whatever its format. `out` has n_elements().
void read_f32(const TensorView& tensor, float* out);
std::vector<float> read_f32(const TensorView& tensor);

}  // namespace vesper
