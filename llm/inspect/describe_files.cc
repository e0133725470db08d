#include <algorithm>
#include <array>
#include <cstring>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/files/json_file.h"
#include "llm/inspect/describe.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/weights/weight_provider.h"
#include "llm/weights/whisper/ctranslate2_reader.h"
#include "llm/weights/whisper/ggml_reader.h"

namespace vesper {
namespace {

using nlohmann::json;

// Sizes of a model in config.json. The first of several names that is present counts.
struct ConfigFact {
  const char* config_key;
  const char* key;
  const char* label;
};
constexpr std::array<ConfigFact, 18> kConfigFacts = {{
    {"num_hidden_layers", "n_layers", "layers"},
    {"n_layer", "n_layers", "layers"},
    {"hidden_size", "d_model", "width"},
    {"n_embd", "d_model", "width"},
    {"num_attention_heads", "n_heads", "heads"},
    {"n_head", "n_heads", "heads"},
    {"num_key_value_heads", "n_kv_heads", "key/value heads"},
    {"head_dim", "head_dim", "head size"},
    {"intermediate_size", "d_ffn", "feed-forward width"},
    {"num_experts", "n_experts", "experts"},
    {"num_local_experts", "n_experts", "experts"},
    {"num_experts_per_tok", "n_experts_used", "experts used"},
    {"max_position_embeddings", "n_ctx", "context"},
    {"n_positions", "n_ctx", "context"},
    {"sliding_window", "sliding_window", "sliding window"},
    {"rope_theta", "rope_theta", "RoPE base"},
    {"vocab_size", "n_vocab", "vocabulary"},
    {"hidden_act", "activation", "activation"},
}};

bool has_fact(const ModelDescription& description, std::string_view key) {
  return std::any_of(description.facts.begin(), description.facts.end(),
                     [&](const Fact& fact) { return fact.key == key; });
}

void add_config(const json& config, ModelDescription& description) {
  for (const ConfigFact& fact : kConfigFacts) {
    const json* value = find_member(config, fact.config_key);
    if (value == nullptr || has_fact(description, fact.key)) continue;
    if (value->is_number() || value->is_string()) description.add(fact.key, fact.label, *value);
  }
  const uint64_t n_heads = description.count("n_heads");
  if (description.count("head_dim") == 0 && n_heads != 0 &&
      description.count("d_model") % n_heads == 0) {
    description.add("head_dim", "head size", description.count("d_model") / n_heads);
  }
  const json* quantization = find_member(config, "quantization");
  if (quantization == nullptr) quantization = find_member(config, "quantization_config");
  if (quantization != nullptr && quantization->is_object()) {
    description.add("quantization", "quantization", *quantization);
  }
}

void add_metadata(const std::string& name, const json& object, ModelDescription& description) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const bool is_array = value.is_array();
    description.metadata.push_back({name + ": " + key, value.type_name(),
                                    is_array ? value.size() : 1,
                                    [value = value, is_array](uint64_t limit) {
                                      if (!is_array || value.size() <= limit) return value;
                                      json first = json::array();
                                      for (size_t i = 0; i < limit; ++i) first.push_back(value[i]);
                                      return first;
                                    }});
  }
}

// A short JSON file beside the weights; null if absent. A damaged one is a problem of the model.
json read_beside(const ModelFiles& files, const std::string& name, ModelDescription& description) {
  if (!files.has(name)) return nullptr;
  try {
    return parse_json(*files.open(name));
  } catch (const Error& error) {
    description.problems.emplace_back(error.what());
    return nullptr;
  }
}

void add_tokenizer(const ModelFiles& files, ModelDescription& description) {
  const json settings = read_beside(files, "tokenizer_config.json", description);
  if (settings.is_object()) {
    add_metadata("tokenizer_config.json", settings, description);
    if (const json* text = find_member(settings, "chat_template");
        text != nullptr && text->is_string()) {
      description.chat_template = text->get<std::string>();
    }
  }
  if (has_fact(description, "tokenizer")) return;
  const json tokenizer = read_beside(files, "tokenizer.json", description);
  if (const json* model = tokenizer.is_object() ? find_member(tokenizer, "model") : nullptr) {
    const json* type = find_member(*model, "type");
    if (type != nullptr && type->is_string()) {
      description.add("tokenizer", "tokenizer", type->get<std::string>() + " (tokenizer.json)");
    }
  } else if (files.has("vocab.txt")) {
    description.add("tokenizer", "tokenizer", "WordPiece (vocab.txt)");
  } else if (files.has("tokenizer.model")) {
    description.add("tokenizer", "tokenizer", "SentencePiece (tokenizer.model)");
  }
}

void add_pooling(const ModelFiles& files, ModelDescription& description) {
  const json pooling = read_beside(files, "1_Pooling/config.json", description);
  if (!pooling.is_object()) return;
  add_metadata("1_Pooling/config.json", pooling, description);
  for (const auto& [key, value] : pooling.items()) {
    if (key.starts_with("pooling_mode_") && value == true) {
      description.add("pooling", "pooling", key.substr(std::strlen("pooling_mode_")));
    }
  }
}

void add_whisper(const WeightProvider& provider, ModelDescription& description) {
  const ModelConfig& model = provider.config();
  const StackConfig &encoder = model.encoder(), &decoder = model.decoder();
  description.add("n_encoder_layers", "encoder layers", encoder.n_layers);
  description.add("n_decoder_layers", "decoder layers", decoder.n_layers);
  description.add("d_model", "width", decoder.d_model);
  description.add("n_heads", "heads", decoder.n_heads);
  description.add("head_dim", "head size", decoder.head_dim);
  description.add("d_ffn", "feed-forward width", decoder.d_ffn);
  description.add("n_audio_ctx", "audio context", encoder.n_positions);
  description.add("n_ctx", "context", decoder.n_positions);
  description.add("n_vocab", "vocabulary", model.n_vocab);
  description.add("n_mels", "mels", model.n_mels);
  description.add("tokenizer", "tokenizer",
                  provider.vocabulary().empty() ? "none in the files" : "byte-level BPE");
  try {
    const WhisperTokens tokens = WhisperTokens::of_vocabulary_size(model.n_vocab);
    description.add("n_languages", "languages", tokens.is_multilingual ? tokens.n_languages : 1u);
  } catch (const Error& error) {
    description.unknown.emplace_back(error.what());
  }
  description.add("alignment_heads", "alignment heads", model.alignment_heads);
  description.add("has_mel_filters", "mel filters in the file", !model.mel_filters.empty());
}

// Finds the file that a tensor's data is in.
void locate(const WeightProvider& provider, const void* data, DescribedTensor& tensor) {
  const auto* at = static_cast<const uint8_t*>(data);
  for (size_t i = 0; at != nullptr && i < provider.files().size(); ++i) {
    const auto bytes = provider.files()[i]->bytes();
    if (at < bytes.data() || at > bytes.data() + bytes.size()) continue;
    tensor.file = i;
    tensor.offset = static_cast<uint64_t>(at - bytes.data());
    return;
  }
}

void add_tensors(const WeightProvider& provider, ModelDescription& description) {
  for (const TensorView& view : provider.tensors()) {
    DescribedTensor tensor;
    tensor.view = view;
    tensor.format = dtype_descriptor(view.dtype).name;
    tensor.has_reader = true;
    locate(provider, view.data, tensor);
    description.tensors.push_back(std::move(tensor));
  }
  for (const UnreadableTensor& unreadable : provider.unreadable()) {
    DescribedTensor tensor;
    tensor.view.name = unreadable.name;
    tensor.view.file_name = unreadable.name;
    tensor.view.shape = unreadable.shape;
    tensor.view.bytes = unreadable.bytes;
    tensor.format = unreadable.format;
    for (char& c : tensor.format) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    locate(provider, unreadable.data, tensor);
    description.tensors.push_back(std::move(tensor));
  }
}

std::string format_name(const WeightProvider& provider) {
  if (provider.format() == "ggml") return "ggml (whisper.cpp)";
  if (provider.format() == "safetensors") return "safetensors";
  if (provider.format() == "openai") return "OpenAI's checkpoint (PyTorch)";
  uint32_t version = 0;
  std::memcpy(&version, provider.files().front()->bytes().data(), sizeof version);
  return "CTranslate2 binary version " + std::to_string(version);
}

// A known container with a model that the readers reject: described by its first bytes.
bool describe_refused(const MappedFile& file, const std::string& why,
                      ModelDescription& description) {
  if (is_ctranslate2(file)) {
    ByteReader reader(file);
    description.format =
        "CTranslate2 binary version " + std::to_string(reader.read<uint32_t>("the version"));
    std::string name = reader.read_string(reader.read<uint16_t>("a length"), "the specification");
    name.pop_back();  // terminating zero
    if (name != "WhisperSpec") {
      description.family = name;
      description.unknown.push_back("models of " + name);
      return true;
    }
    description.family = "whisper";
  } else if (is_ggml(file)) {
    description.format = "ggml (whisper.cpp)";
    description.family = "whisper";
  } else {
    return false;
  }
  description.problems.push_back(why);
  return true;
}

}  // namespace

void describe_files(const std::filesystem::path& path, ModelDescription& description) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const ModelFiles files(is_folder ? path : path.parent_path());
  try {
    description.provider = open_weights(path);
  } catch (const Error& refused) {
    const std::filesystem::path file = is_folder ? path / "model.bin" : path;
    if (!std::filesystem::is_regular_file(file, error)) throw;
    const MappedFile mapped(file);
    if (!describe_refused(mapped, refused.what(), description)) throw;
    description.files.push_back({mapped.name(), mapped.bytes().size()});
    return;
  }
  const WeightProvider& provider = *description.provider;
  description.format = format_name(provider);
  description.family = provider.family();
  for (const auto& file : provider.files()) {
    description.files.push_back({file->name(), file->bytes().size()});
  }
  add_tensors(provider, description);
  const bool is_whisper = provider.type() == ModelType::kWhisper;
  if (is_whisper) add_whisper(provider, description);
  if (const ModelConfig* model = provider.stated_config(); model && !model->unsupported.empty()) {
    description.unknown.push_back(model->unsupported);
  }
  // A ggml file is complete; files beside it belong to other models.
  if (provider.format() == "ggml") return;
  const json config = read_beside(files, "config.json", description);
  if (config.is_object()) {
    add_metadata("config.json", config, description);
    if (!is_whisper) add_config(config, description);
  }
  if (provider.format() == "safetensors") {
    add_tokenizer(files, description);
    add_pooling(files, description);
  }
}

}  // namespace vesper
