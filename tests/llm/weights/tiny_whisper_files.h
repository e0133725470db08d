// A tiny Whisper model with random weights as files of each format, for tests of the readers and of
// everything that runs a model. All formats have the same weights (to the format's precision), so
// results can be compared.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "llm/dtype/dtype.h"
#include "llm/files/mapped_file.h"
#include "tests/temporary_folder.h"

namespace vesper::test {

struct TinyWhisperOptions {
  uint64_t seed = 1;
  uint32_t n_mels = 80;
  uint32_t n_audio_ctx = 1500;
  uint32_t n_text_ctx = 448;
  uint32_t n_vocab = 51865;  // 51864 (English), 51865, 51866; smaller if nothing is decoded
  uint32_t d_model = 64;     // a multiple of 32 for the quantized formats
  uint32_t n_heads = 2;
  uint32_t n_encoder_layers = 2;
  uint32_t n_decoder_layers = 2;
  uint32_t d_ffn = 256;
};

struct TinyTensor {
  std::string name;  // canonical, see llm/weights/weight_provider.h
  std::vector<uint64_t> shape;
  std::vector<float> values;  // exact in f32, f16 and bf16
};

using FileSet = std::vector<std::shared_ptr<const MappedFile>>;  // named relative to their folder

class TinyWhisper {
 public:
  explicit TinyWhisper(const TinyWhisperOptions& options = {});

  const TinyWhisperOptions& options() const { return options_; }
  const std::vector<TinyTensor>& tensors() const { return tensors_; }
  const TinyTensor& tensor(const std::string& canonical_name) const;

  // The vocabulary, raw bytes by token id: GPT-2's 256 bytes (a space is token 220), words of up to
  // four letters with and without a leading space, special tokens.
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }
  uint32_t n_text_tokens() const { return n_text_tokens_; }
  const std::vector<float>& mel_filters() const { return mel_filters_; }  // [n_mels, 201], Slaney's
  std::vector<std::array<uint32_t, 2>> alignment_heads() const;
  std::vector<int32_t> suppress_tokens() const;
  std::vector<int32_t> suppress_tokens_at_begin() const;

  // One file "ggml.bin". f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0.
  FileSet ggml(DType dtype) const;
  // "model.bin", "config.json", "vocabulary.txt". f32, f16, bf16, i8.
  FileSet ctranslate2(DType dtype) const;
  // "model.safetensors" (or shards with an index), "config.json", "generation_config.json",
  // "vocab.json". f32, f16, bf16.
  FileSet safetensors(DType dtype, uint32_t n_shards = 1) const;
  // "tiny.pt", "multilingual.tiktoken" or "gpt2.tiktoken". f32, f16, bf16.
  FileSet openai(DType dtype) const;

 private:
  void add(const std::string& name, std::vector<uint64_t> shape, float scale, float offset);
  void add_layer(const std::string& layer, bool has_cross);
  void build_vocabulary();
  void build_mel_filters();

  TinyWhisperOptions options_;
  std::vector<TinyTensor> tensors_;
  std::vector<std::string> vocabulary_;
  std::vector<float> mel_filters_;
  uint32_t n_text_tokens_ = 0;
  uint64_t random_state_;
};

// A model that is as small as possible, so that most bytes of its files are structure.
const TinyWhisper& smallest_whisper();

// Writes the files to a folder, which is created if missing.
void write_files(const FileSet& files, const std::filesystem::path& folder);

// The files in a folder that exists as long as this object.
class ModelFolder {
 public:
  explicit ModelFolder(const FileSet& files)
      : path_(files.size() == 1 ? folder_ / files[0]->name() : folder_.path()) {
    write_files(files, folder_.path());
  }
  // The model's only file, otherwise the folder.
  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

// `values` in a file format, rounded and packed like the reference implementations. For i8,
// `scales` gets one number per row: value = i8 / scale (as in CTranslate2).
std::vector<uint8_t> packed(DType dtype, const std::vector<float>& values, uint64_t row_size,
                            std::vector<float>* scales = nullptr);
uint16_t f16_of(float value);  // rounded to nearest even

}  // namespace vesper::test
