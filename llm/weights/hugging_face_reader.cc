#include "llm/weights/hugging_face_reader.h"

#include <algorithm>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/files/json_file.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/mlx_quantization.h"
#include "llm/weights/text_encoder_model.h"
#include "llm/weights/vocabulary_file.h"
#include "llm/weights/whisper_model.h"
#include "llm/weights/whisper_names.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr size_t kFftBins = 201;

void read_config(const std::string& name, const json& config, WhisperHyperparameters& facts) {
  facts.n_mels = count_member(name, config, "num_mel_bins");
  facts.n_audio_ctx = count_member(name, config, "max_source_positions");
  facts.n_text_ctx = count_member(name, config, "max_target_positions");
  facts.n_vocab = count_member(name, config, "vocab_size");
  facts.d_model = count_member(name, config, "d_model");
  facts.n_encoder_heads = count_member(name, config, "encoder_attention_heads");
  facts.n_decoder_heads = count_member(name, config, "decoder_attention_heads");
  facts.n_encoder_layers = count_member(name, config, "encoder_layers");
  facts.n_decoder_layers = count_member(name, config, "decoder_layers");
  facts.d_ffn = count_member(name, config, "encoder_ffn_dim");
  facts.suppress_tokens = id_list(name, config, "suppress_tokens");
  facts.suppress_tokens_at_begin = id_list(name, config, "begin_suppress_tokens");
  if (const json* activation = find_member(config, "activation_function");
      activation != nullptr && *activation != "gelu") {
    fail_in_file(name, "expected activation_function gelu, found " +
                           activation->dump(-1, ' ', true).substr(0, 60));
  }
  if (const json* scale = find_member(config, "scale_embedding");
      scale != nullptr && *scale != false) {
    fail_in_file(
        name, "expected scale_embedding false, found " + scale->dump(-1, ' ', true).substr(0, 60));
  }
}

// What generation_config.json says goes before config.json, where older models had it.
void read_generation_config(const std::string& name, const json& config,
                            WhisperHyperparameters& facts) {
  facts.alignment_heads = pair_list(name, config, "alignment_heads");
  if (find_member(config, "suppress_tokens") != nullptr) {
    facts.suppress_tokens = id_list(name, config, "suppress_tokens");
  }
  if (find_member(config, "begin_suppress_tokens") != nullptr) {
    facts.suppress_tokens_at_begin = id_list(name, config, "begin_suppress_tokens");
  }
}

// [n_mels][201], or [201][n_mels] as newer versions of transformers hold it.
std::vector<float> mel_filters(const std::string& name, const json& rows) {
  const bool has_rows = rows.is_array() && !rows.empty() && rows[0].is_array();
  const size_t n_rows = has_rows ? rows.size() : 0;
  const size_t n_columns = has_rows ? rows[0].size() : 0;
  if (n_rows != kFftBins && n_columns != kFftBins) {
    fail_in_file(name, "expected mel_filters with 201 numbers a filter");
  }
  const bool is_transposed = n_columns != kFftBins;
  const size_t n_mels = is_transposed ? n_columns : n_rows;
  std::vector<float> filters(n_mels * kFftBins);
  for (size_t row = 0; row < n_rows; ++row) {
    const json& numbers = rows[row];
    if (!numbers.is_array() || numbers.size() != n_columns ||
        !std::all_of(numbers.begin(), numbers.end(),
                     [](const json& number) { return number.is_number(); })) {
      fail_in_file(name,
                   "expected mel_filters with rows of " + std::to_string(n_columns) + " numbers");
    }
    for (size_t column = 0; column < n_columns; ++column) {
      const size_t place = is_transposed ? column * kFftBins + row : row * kFftBins + column;
      filters[place] = numbers[column].get<float>();
    }
  }
  return filters;
}

void read_preprocessor_config(const std::string& name, const json& config,
                              WhisperHyperparameters& facts) {
  const uint32_t n_mels = count_member(name, config, "feature_size");
  if (n_mels != 0 && facts.n_mels != 0 && n_mels != facts.n_mels) {
    fail_in_file(name, "expected feature_size " + std::to_string(facts.n_mels) +
                           ", the num_mel_bins of config.json, found " + std::to_string(n_mels));
  }
  if (const json* filters = find_member(config, "mel_filters"); filters != nullptr) {
    facts.mel_filters = mel_filters(name, *filters);
  }
}

std::string canonical_name(const std::string& file_name) {
  auto names = canonical_names(kHuggingFaceWhisperNaming, file_name);
  return names.empty() ? file_name : std::move(names.front());
}

void read_whisper(const ModelFiles& files, const std::string& config_name, const json& config,
                  ModelContents& contents) {
  for (TensorView& tensor : contents.tensors) tensor.name = canonical_name(tensor.file_name);
  for (UnreadableTensor& tensor : contents.unreadable) tensor.name = canonical_name(tensor.name);
  // Some files hold the output matrix although it is the embedding: tied unless said otherwise.
  const json* tied = find_member(config, "tie_word_embeddings");
  if (tied == nullptr || *tied != false) {
    std::erase_if(contents.tensors,
                  [](const TensorView& tensor) { return tensor.name == "decoder.output.weight"; });
  }
  WhisperHyperparameters& facts = contents.whisper.emplace();
  read_config(config_name, config, facts);
  if (files.has("generation_config.json")) {
    const auto file = files.open("generation_config.json");
    read_generation_config(file->name(), parse_json(*file), facts);
  }
  if (files.has("preprocessor_config.json")) {
    const auto file = files.open("preprocessor_config.json");
    read_preprocessor_config(file->name(), parse_json(*file), facts);
  }
  complete_whisper(files.folder().string(), contents);
  // After the check, which bounds n_vocab.
  contents.vocabulary = read_hugging_face_vocabulary(files, facts.n_vocab);
}

}  // namespace

ModelContents read_hugging_face(const ModelFiles& files, Safetensors safetensors) {
  ModelContents contents;
  contents.format = "safetensors";
  contents.files = std::move(safetensors.files);
  contents.tensors = std::move(safetensors.tensors);
  contents.unreadable = std::move(safetensors.unreadable);
  if (!files.has("config.json")) return contents;
  const auto file = files.open("config.json");
  const json config = parse_json(*file);
  if (const json* type = find_member(config, "model_type"); type != nullptr && type->is_string()) {
    contents.family = type->get<std::string>();
    if (!is_printable(contents.family))
      fail_in_file(file->name(), "expected a printable model_type");
  }
  join_mlx_tensors(file->name(), config, contents);
  if (contents.family == "whisper") read_whisper(files, file->name(), config, contents);
  read_hugging_face_text_encoder(file->name(), config, contents);
  read_hugging_face_language_model(file->name(), config, contents);
  return contents;
}

}  // namespace vesper
