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
// A model is checked when it is opened (llm/weights/model_check.h): each name that its config needs
// is there, in the right shape, in a format that can be read as numbers, so that no later code
// needs to look.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/dtype/tensor_view.h"
#include "llm/files/mapped_file.h"

namespace vesper {

class Gguf;

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
  std::optional<ModelConfig> config;  // if the engine knows the family
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
  // kNone: the engine does not know the family.
  ModelType type() const { return contents_.config ? contents_.config->type : ModelType::kNone; }
  // The tensor of that canonical name, or null. Stable for the provider's life.
  const TensorView* find(std::string_view canonical_name) const;
  // The same, but throws Error(kModel) naming file and tensor if it is absent.
  const TensorView& require(std::string_view canonical_name) const;
  // The model, which has been checked. Throws Error(kModel) if it is not of that type, or if the
  // engine cannot run it.
  const ModelConfig& config(ModelType type) const;
  // The same of any type.
  const ModelConfig& config() const { return config(type()); }
  // The model as its files state it, sound or not; null if the engine does not know the family.
  const ModelConfig* stated_config() const {
    return contents_.config ? &*contents_.config : nullptr;
  }
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
