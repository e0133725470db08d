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
// and for an encoder of text, besides its layers:
//
//   encoder.embed.weight [n_vocab, d], encoder.position.weight [n_positions, d],
//   encoder.token_type.weight [n_types, d], encoder.embed_norm.{weight,bias}
//
// and for a language model, besides its layers:
//
//   decoder.layers.N.attn.{q,k}_norm.weight [head_dim], ....ffn.gate.weight,
//   decoder.layers.N.{attn,ffn}_post_norm.weight
//
// Matrices are [out, in], row-major, the last dimension contiguous. A name the file does not have
// is simply absent (Whisper's keys have no bias). A tensor outside the set keeps the file's name.
//
// A Whisper model is checked when it is opened: of the names above each is there, in the shape that
// the hyper-parameters demand, in a format that can be read as numbers, so that no later code needs
// to look. Only the bias of attention keys and decoder.output may be absent. A text encoder is
// checked when it is built (check_text_encoder), and so is a language model (check_language_model).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/config/language_model_facts.h"
#include "llm/config/rope.h"
#include "llm/dtype/tensor_view.h"
#include "llm/files/mapped_file.h"

namespace vesper {

class Gguf;

// What a Whisper file says of its model. Absent facts are empty, never guessed here.
struct WhisperHyperparameters {
  uint32_t n_mels = 0, n_audio_ctx = 0, n_text_ctx = 0, n_vocab = 0;
  uint32_t d_model = 0;                               // the width of encoder and decoder
  uint32_t n_encoder_heads = 0, n_decoder_heads = 0;  // each divides d_model
  uint32_t n_encoder_layers = 0, n_decoder_layers = 0;
  uint32_t d_ffn = 0;
  std::vector<float> mel_filters;  // [n_mels, 201], only where the file has them
  std::vector<std::array<uint32_t, 2>> alignment_heads;  // decoder's [layer, head], in range
  std::vector<int32_t> suppress_tokens;  // the file's own list, ids in range; may be empty
  std::vector<int32_t> suppress_tokens_at_begin;
};

// What the files say of a model that encodes text (BERT and its kin).
struct TextEncoderHyperparameters {
  std::string arch;  // the row of llm/config/arch_descriptor that describes it
  uint32_t n_vocab = 0, d_model = 0, n_layers = 0, d_ffn = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
  uint32_t n_positions = 0;     // the most tokens that a sequence can have
  uint32_t first_position = 0;  // the row of encoder.position that the first token takes
  float norm_epsilon = 0;       // 0 if it is not stated
  bool alibi = false;  // the distance of rows lowers their scores, instead of vectors of positions
  // Where positions turn queries and keys instead of having vectors: n_pairs is not 0.
  RopeSettings rope{};
  float window_rope_theta = 0;  // of layers with a window, where it differs
  // So many positions to both sides, its own among them, does a row of a layer with a window see.
  uint32_t window = 0;
  std::vector<bool> layer_has_window = {};  // [n_layers]; empty: none has
  std::string problem = {};                 // what of it the engine does not know; empty if nothing
};

// A tensor in a number format that has no row in the table: an error once something needs it.
struct UnreadableTensor {
  std::string name;    // canonical
  std::string format;  // as the file spells it
  std::vector<uint64_t> shape = {};
  const void* data = nullptr;  // null if the file's reader cannot tell where it is
  uint64_t bytes = 0;
};

// What one of the readers found in a model's files.
struct ModelContents {
  std::string format;
  std::string family;
  std::vector<std::shared_ptr<const MappedFile>> files;  // that tensors point into
  std::vector<TensorView> tensors;                       // in the order of the file
  std::vector<UnreadableTensor> unreadable;
  std::optional<WhisperHyperparameters> whisper;
  std::optional<TextEncoderHyperparameters> text_encoder;
  std::optional<LanguageModelFacts> language_model;
  std::vector<std::string> vocabulary;
  std::shared_ptr<const Gguf> gguf;  // where the format is GGUF: its metadata
};

class WeightProvider {
 public:
  // Takes what a reader found (or a test made). Throws Error(kModel) if two tensors have one name.
  WeightProvider(std::filesystem::path path, ModelContents contents);
  WeightProvider(const WeightProvider&) = delete;
  WeightProvider& operator=(const WeightProvider&) = delete;

  // "ggml", "ctranslate2", "safetensors", "gguf".
  std::string_view format() const { return contents_.format; }
  // "whisper", or what else the files call it; empty if they do not tell.
  std::string_view family() const { return contents_.family; }
  // Every tensor, in the order of the file. Fused tensors appear as their canonical parts.
  const std::vector<TensorView>& tensors() const { return contents_.tensors; }
  // Those in formats without a row in the table, in the order of the file.
  const std::vector<UnreadableTensor>& unreadable() const { return contents_.unreadable; }
  // The files that the tensors lie in.
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return contents_.files; }
  // Whether whisper() has an answer.
  bool is_whisper() const { return contents_.whisper.has_value(); }
  // The tensor of that canonical name, or null. Stable for the provider's life.
  const TensorView* find(std::string_view canonical_name) const;
  // The same, but throws Error(kModel) naming file and tensor if it is absent.
  const TensorView& require(std::string_view canonical_name) const;
  // Throws Error(kModel) if this is not a Whisper model.
  const WhisperHyperparameters& whisper() const;
  bool is_text_encoder() const { return contents_.text_encoder.has_value(); }
  // Throws Error(kModel) if this is no model that encodes text.
  const TextEncoderHyperparameters& text_encoder() const;
  bool is_language_model() const { return contents_.language_model.has_value(); }
  // Throws Error(kModel) if this is no language model of a known family.
  const LanguageModelFacts& language_model() const;
  // Whisper's vocabulary as raw bytes by token id (byte-level spelling already undone). Special
  // tokens that the file does not list are absent: the vector may be shorter than n_vocab, never
  // longer. Other models' are read by llm/tokenizer/text_tokenizer.
  const std::vector<std::string>& vocabulary() const { return contents_.vocabulary; }
  // The container with its metadata (llm/files/gguf_file.h), or null for any other format.
  const Gguf* gguf() const { return contents_.gguf.get(); }
  const std::filesystem::path& path() const { return path_; }

  // Lets the system take back the memory under a tensor that has been copied elsewhere. It stays
  // readable (the file is read again).
  void release(const TensorView& tensor) const;

 private:
  std::filesystem::path path_;
  ModelContents contents_;
  std::unordered_map<std::string_view, size_t> index_;  // canonical name -> place in tensors
};

// Opens a file, or a folder with `model.bin`, `*.safetensors` or one GGUF or ggml model. Throws
// Error(kModel) naming the file, the offset and what was expected; or what is wrong with the path.
std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path);
// The same for a folder whose files may be in memory.
std::unique_ptr<WeightProvider> open_weights(const ModelFiles& files);
// The same for one file (of a format that is one file).
std::unique_ptr<WeightProvider> open_weights(std::shared_ptr<const MappedFile> file);

// The same for a GGUF container that has been read: `path` is what it was read of.
std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path,
                                             std::shared_ptr<const Gguf> gguf);

}  // namespace vesper
