#include "llm/weights/hugging_face/hugging_face_reader.h"

#include <algorithm>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/files/json_file.h"
#include "llm/weights/hugging_face/alternating_experts.h"
#include "llm/weights/hugging_face/config_json.h"
#include "llm/weights/hugging_face/mlx_quantization.h"
#include "llm/weights/model_check.h"
#include "llm/weights/name_tensors.h"
#include "llm/weights/whisper/vocabulary_file.h"
#include "llm/weights/whisper/whisper_sizes.h"

namespace vesper {
namespace {

using nlohmann::json;

void read_config(const std::string& name, const json& config, ModelConfig& model) {
  model.n_mels = count_member(name, config, "num_mel_bins");
  model.encoder().n_positions = count_member(name, config, "max_source_positions");
  model.decoder().n_positions = count_member(name, config, "max_target_positions");
  model.n_vocab = count_member(name, config, "vocab_size");
  for (StackConfig& stack : model.stacks) {
    const std::string prefix = std::string(stack.name) + "_";
    stack.d_model = count_member(name, config, "d_model");
    stack.n_heads = count_member(name, config, (prefix + "attention_heads").c_str());
    stack.n_layers = count_member(name, config, (prefix + "layers").c_str());
    stack.d_ffn = count_member(name, config, (prefix + "ffn_dim").c_str());
  }
  model.suppress_tokens = id_list(name, config, "suppress_tokens");
  model.suppress_tokens_at_begin = id_list(name, config, "begin_suppress_tokens");
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

// generation_config.json has precedence over config.json, where older models had it.
void read_generation_config(const std::string& name, const json& config, ModelConfig& model) {
  model.alignment_heads = pair_list(name, config, "alignment_heads");
  if (find_member(config, "suppress_tokens") != nullptr) {
    model.suppress_tokens = id_list(name, config, "suppress_tokens");
  }
  if (find_member(config, "begin_suppress_tokens") != nullptr) {
    model.suppress_tokens_at_begin = id_list(name, config, "begin_suppress_tokens");
  }
}

// [n_mels][201], or [201][n_mels] in newer versions of transformers.
std::vector<float> mel_filters(const std::string& name, const json& rows) {
  const bool has_rows = rows.is_array() && !rows.empty() && rows[0].is_array();
  const size_t n_rows = has_rows ? rows.size() : 0;
  const size_t n_columns = has_rows ? rows[0].size() : 0;
  if (n_rows != kMelFilterBins && n_columns != kMelFilterBins) {
    fail_in_file(name, "expected mel_filters with 201 numbers a filter");
  }
  const bool is_transposed = n_columns != kMelFilterBins;
  const size_t n_mels = is_transposed ? n_columns : n_rows;
  std::vector<float> filters(n_mels * kMelFilterBins);
  for (size_t row = 0; row < n_rows; ++row) {
    const json& numbers = rows[row];
    if (!numbers.is_array() || numbers.size() != n_columns ||
        !std::all_of(numbers.begin(), numbers.end(),
                     [](const json& number) { return number.is_number(); })) {
      fail_in_file(name,
                   "expected mel_filters with rows of " + std::to_string(n_columns) + " numbers");
    }
    for (size_t column = 0; column < n_columns; ++column) {
      const size_t place =
          is_transposed ? column * kMelFilterBins + row : row * kMelFilterBins + column;
      filters[place] = numbers[column].get<float>();
    }
  }
  return filters;
}

void read_preprocessor_config(const std::string& name, const json& config, ModelConfig& model) {
  const uint32_t n_mels = count_member(name, config, "feature_size");
  if (n_mels != 0 && model.n_mels != 0 && n_mels != model.n_mels) {
    fail_in_file(name, "expected feature_size " + std::to_string(model.n_mels) +
                           ", the num_mel_bins of config.json, found " + std::to_string(n_mels));
  }
  if (const json* filters = find_member(config, "mel_filters"); filters != nullptr) {
    model.mel_filters = mel_filters(name, *filters);
  }
}

std::string canonical_name(const std::string& file_name) {
  auto names = canonical_names(*whisper_family().hugging_face_names, file_name);
  return names.empty() ? file_name : std::move(names.front());
}

// The configuration and tensors of a text encoder or a language model.
void read_text_model(const ConfigJson& config, const ModelFamily& family, ModelContents& contents) {
  contents.config = read_config_json(config, family);
  for (TensorView& tensor : contents.tensors) {
    constexpr std::string_view kInner = "language_model.";
    if (tensor.name.starts_with(kInner)) tensor.name.erase(0, kInner.size());
  }
  if (family.hugging_face_alternates_gates) split_alternating_experts(contents);
  name_tensors(*family.hugging_face_names, family, contents);
  // Some files have a tied output matrix.
  if (config.truth("tie_word_embeddings", false)) {
    std::erase_if(contents.tensors,
                  [](const TensorView& tensor) { return tensor.name == "decoder.output.weight"; });
  }
}

void read_whisper(const ModelFiles& files, const std::string& config_name, const json& config,
                  ModelContents& contents) {
  for (TensorView& tensor : contents.tensors) tensor.name = canonical_name(tensor.file_name);
  for (UnreadableTensor& tensor : contents.unreadable) tensor.name = canonical_name(tensor.name);
  // Some files have a tied output matrix: tied unless stated otherwise.
  const json* tied = find_member(config, "tie_word_embeddings");
  if (tied == nullptr || *tied != false) {
    std::erase_if(contents.tensors,
                  [](const TensorView& tensor) { return tensor.name == "decoder.output.weight"; });
  }
  ModelConfig& model = contents.config.emplace(start_config(whisper_family()));
  read_config(config_name, config, model);
  if (files.has("generation_config.json")) {
    const auto file = files.open("generation_config.json");
    read_generation_config(file->name(), parse_json(*file), model);
  }
  if (files.has("preprocessor_config.json")) {
    const auto file = files.open("preprocessor_config.json");
    read_preprocessor_config(file->name(), parse_json(*file), model);
  }
  complete_whisper_sizes(files.folder().string(), contents);
  contents.vocabulary = read_hugging_face_vocabulary(files, model.n_vocab);
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
  const json* positions = find_member(config, "position_embedding_type");
  const ModelFamily* family =
      find_hugging_face_family(contents.family, positions != nullptr && positions->is_string()
                                                    ? positions->get_ref<const std::string&>()
                                                    : std::string_view());
  if (family == nullptr) return contents;
  if (family->type == ModelType::kWhisper) {
    read_whisper(files, file->name(), config, contents);
  } else {
    // A model with images has its language model's configuration in an object.
    const json* inner = find_member(config, "text_config");
    read_text_model(ConfigJson(file->name(), inner == nullptr ? config : *inner), *family,
                    contents);
  }
  check_model(files.folder().string(), contents);
  return contents;
}

}  // namespace vesper
