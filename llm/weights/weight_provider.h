// Reads model files. In: a path. Out: named tensors of the mapped file, the model's configuration,
// and its vocabulary. Called by the model builders and `inspect`.
//
// The format is found by content. Tensor names of every format are mapped to one canonical set:
//
//   encoder.conv{1,2}.{weight,bias}              [d, in, 3], [d]
//   encoder.position.weight                      [n_audio_ctx, d]
//   {encoder,decoder}.layers.N.attn_norm.{weight,bias}
//   {encoder,decoder}.layers.N.attn.{q,k,v,out}.{weight,bias}
//   decoder.layers.N.cross_norm.*, decoder.layers.N.cross.{q,k,v,out}.*
//   {encoder,decoder}.layers.N.ffn_norm.*, ....ffn.{up,down}.*
//   {encoder,decoder}.norm.{weight,bias}
//   decoder.embed.weight [n_vocab, d], decoder.position.weight [n_text_ctx, d]
//   decoder.output.weight                        absent if tied to decoder.embed
//
// For a text encoder also:
//
//   encoder.embed.weight [n_vocab, d], encoder.position.weight [n_positions, d],
//   encoder.token_type.weight [n_types, d], encoder.embed_norm.{weight,bias}
//
// For a language model also:
//
//   decoder.layers.N.attn.{q,k}_norm.weight [head_dim], ....ffn.gate.weight,
//   decoder.layers.N.{attn,ffn}_post_norm.weight
//   with experts, in the place of ffn.{gate,up,down}: decoder.layers.N.ffn.router.{weight,bias}
//   [n_experts, d], decoder.layers.N.experts.E.{gate,up,down}.{weight,bias}
//
// Matrices are [out, in], row-major. Names that a file lacks are absent (Whisper's keys have no
// bias). Tensors outside the set keep the file's name.
//
// A model is checked when it is opened (llm/weights/model_check.h): every needed tensor is present,
// with the right shape and a readable format. Later code need not check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
class TextTokenizer;

// A tensor in a format without a row in the table: an error only if it is needed.
struct UnreadableTensor {
  std::string name;    // canonical
  std::string format;  // the file's name of it
  std::vector<uint64_t> shape = {};
  const void* data = nullptr;  // null if the reader does not know its offset
  uint64_t bytes = 0;
};

// The result of a reader.
struct ModelContents {
  std::string format;
  std::string family;
  std::vector<std::shared_ptr<const MappedFile>> files;  // files of the tensors
  std::vector<TensorView> tensors;                       // in file order
  std::vector<UnreadableTensor> unreadable;
  std::optional<ModelConfig> config;  // if the family is known
  std::vector<std::string> vocabulary;
  std::shared_ptr<const Gguf> gguf;  // of a GGUF file
  // Computes the bytes of a tensor whose data is null: of a reader whose files have it in another
  // layout, or of llm/conversion/changed_weights.h.
  std::function<std::vector<uint8_t>(const TensorView& tensor)> compute;
  std::string changes;  // what is computed: "weights in q8_0"; empty: nothing
};

// A tensor whose bytes are in memory. Valid as long as it and its provider.
struct LoadedTensor {
  TensorView view;
  std::vector<uint8_t> computed = {};  // the bytes, if they are not in a file
};

class WeightProvider {
 public:
  // `contents` is the result of a reader. Throws Error(kModel) if two tensors have one name.
  WeightProvider(std::filesystem::path path, ModelContents contents);
  WeightProvider(const WeightProvider&) = delete;
  WeightProvider& operator=(const WeightProvider&) = delete;

  // "ggml", "ctranslate2", "safetensors", "gguf", "openai".
  std::string_view format() const { return contents_.format; }
  // "whisper", or the files' name; empty if they state none.
  std::string_view family() const { return contents_.family; }
  // Every tensor, in file order. Fused tensors appear as their canonical parts.
  const std::vector<TensorView>& tensors() const { return contents_.tensors; }
  // Tensors in formats without a row in the table, in file order.
  const std::vector<UnreadableTensor>& unreadable() const { return contents_.unreadable; }
  // The files of the tensors.
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return contents_.files; }
  // kNone: unknown family.
  ModelType type() const { return contents_.config ? contents_.config->type : ModelType::kNone; }
  // The tensor with this canonical name, or null. Valid as long as the provider.
  const TensorView* find(std::string_view canonical_name) const;
  // The same, but throws Error(kModel) naming file and tensor if it is absent.
  const TensorView& require(std::string_view canonical_name) const;
  // The checked configuration. Throws Error(kModel) if the model is not of this type, or the engine
  // cannot run it.
  const ModelConfig& config(ModelType type) const;
  // The same for any type.
  const ModelConfig& config() const { return config(type()); }
  // The configuration as in the files, checked or not; null for an unknown family.
  const ModelConfig* stated_config() const {
    return contents_.config ? &*contents_.config : nullptr;
  }
  // Whisper's vocabulary as raw bytes by token id (byte-level spelling decoded). Special tokens
  // missing in the file are absent, so the vector may be shorter than n_vocab, never longer.
  // llm/tokenizer/text_tokenizer reads other models' vocabularies.
  const std::vector<std::string>& vocabulary() const { return contents_.vocabulary; }
  // The container with its metadata (llm/files/gguf_file.h), or null for other formats.
  const Gguf* gguf() const { return contents_.gguf.get(); }
  const std::filesystem::path& path() const { return path_; }

  const ModelContents& contents() const { return contents_; }

  // The tensor with its bytes, which are computed if they are not in a file: its view in tensors()
  // has no data then. Any thread may call it.
  LoadedTensor load(const TensorView& tensor) const;
  // Its elements as f32.
  std::vector<float> read(const TensorView& tensor) const;

  // Lets the system reclaim the memory of a tensor that was copied elsewhere. It stays readable
  // (from the file again).
  void release(const TensorView& tensor) const;

 private:
  std::filesystem::path path_;
  ModelContents contents_;
  std::unordered_map<std::string_view, size_t> index_;  // canonical name -> index in tensors
};

// Opens a file, or a folder with `model.bin`, `*.safetensors` or one GGUF or ggml model. Throws
// Error(kModel) naming the file, the offset and what was expected, or the error of the path.
std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path);
// The same for a folder that may be in memory.
std::unique_ptr<WeightProvider> open_weights(const ModelFiles& files);
// The same for one file (of a one-file format).
std::unique_ptr<WeightProvider> open_weights(std::shared_ptr<const MappedFile> file);

// The same for an open GGUF container, read from `path`.
std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path,
                                             std::shared_ptr<const Gguf> gguf);

// The tokenizer of an open language model or text encoder, from the GGUF metadata or from the files
// beside the weights. Throws Error(kModel) if there is none, or one that the engine does not know.
std::unique_ptr<TextTokenizer> open_text_tokenizer(const WeightProvider& weights);

}  // namespace vesper
