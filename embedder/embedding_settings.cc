#include "embedder/embedding_settings.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "error/error.h"
#include "llm/files/json_file.h"

namespace vesper {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& name, const std::string& message) {
  throw Error(ErrorKind::kModel, name + ": " + message);
}

std::string text_of(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// sentence-transformers' names of poolings.
struct PoolingName {
  const char* flag;  // older files: true or false
  const char* mode;  // newer files: the value of pooling_mode
  Pooling pooling;
};
constexpr std::array<PoolingName, 3> kPoolings = {{
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_cls_token", "cls", Pooling::kFirst},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
}};

Pooling read_pooling(const MappedFile& file) {
  const json config = parse_json(file);
  const std::string mode = text_of(find_member(config, "pooling_mode"));
  std::string found = mode;
  int n_modes = mode.empty() ? 0 : 1;
  Pooling pooling = Pooling::kMean;
  bool known = false;
  for (const PoolingName& name : kPoolings) {
    if (mode == name.mode) {
      pooling = name.pooling;
      known = true;
    }
  }
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("pooling_mode_") || value != true) continue;
    ++n_modes;
    found += (found.empty() ? "" : ", ") + key;
    for (const PoolingName& name : kPoolings) {
      if (key != name.flag) continue;
      pooling = name.pooling;
      known = true;
    }
  }
  if (!known || n_modes != 1) {
    fail(file.name(), "expected one pooling of mean, cls and lasttoken, found " +
                          (found.empty() ? std::string("none") : found));
  }
  return pooling;
}

// The folder of a module, in the model's folder.
std::string module_folder(const std::string& name, const json& module) {
  const std::string path = text_of(find_member(module, "path"));
  if (!path.empty() && path.find_first_of("/\\") == std::string::npos && path != "..") return path;
  fail(name, "expected a folder as the path of a module " +
                 text_of(find_member(module, "type")).substr(0, 60) + ", found \"" +
                 path.substr(0, 60) + "\"");
}

void read_modules(const ModelFiles& files, EmbeddingSettings& settings) {
  const auto file = files.open("modules.json");
  const json modules = parse_json(*file);
  settings.normalize = false;
  for (const json& module : modules) {
    const std::string type = text_of(find_member(module, "type"));
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer") continue;
    if (kind == "Normalize") {
      settings.normalize = true;
    } else if (kind == "Pooling") {
      settings.pooling =
          read_pooling(*files.open(module_folder(file->name(), module) + "/config.json"));
    } else if (kind == "Dense") {
      settings.dense.push_back(module_folder(file->name(), module));
    } else {
      fail(file->name(), "expected modules Transformer, Pooling, Dense and Normalize, found " +
                             (type.empty() ? std::string("one without a type") : type));
    }
  }
}

void read_prompts(const ModelFiles& files, EmbeddingSettings& settings) {
  const auto file = files.open("config_sentence_transformers.json");
  const json config = parse_json(*file);
  settings.default_prompt = text_of(find_member(config, "default_prompt_name"));
  const json* prompts = find_member(config, "prompts");
  if (prompts == nullptr) return;
  if (!prompts->is_object()) fail(file->name(), "expected prompts by name");
  for (const auto& [name, text] : prompts->items()) {
    if (!text.is_string()) fail(file->name(), "expected prompts that are strings");
    settings.prompts[name] = text.get<std::string>();
  }
}

}  // namespace

Pooling parse_pooling(std::string_view name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kFirst;
  if (name == "last") return Pooling::kLast;
  throw Error(ErrorKind::kUsage, "pooling",
              "expected mean, cls or last, found \"" + std::string(name) + "\"");
}

EmbeddingSettings read_embedding_settings(const ModelFiles& files, bool is_reranker) {
  EmbeddingSettings settings;
  if (!is_reranker && files.has("modules.json")) read_modules(files, settings);
  if (files.has("config_sentence_transformers.json")) read_prompts(files, settings);
  if (files.has("sentence_bert_config.json")) {
    const auto file = files.open("sentence_bert_config.json");
    settings.max_tokens = count_member(file->name(), parse_json(*file), "max_seq_length");
  }
  if (settings.max_tokens == 0 && files.has("tokenizer_config.json")) {
    const json config = parse_json(*files.open("tokenizer_config.json"));
    // 1e30 means no limit.
    const json* most = find_member(config, "model_max_length");
    if (most != nullptr && most->is_number() && most->get<double>() >= 1 &&
        most->get<double>() <= 1e6) {
      settings.max_tokens = static_cast<uint32_t>(most->get<double>());
    }
  }
  return settings;
}

uint32_t gguf_pooling_type(Pooling pooling) { return static_cast<uint32_t>(pooling) + 1; }

std::optional<Pooling> read_gguf_pooling(const std::string& name, const Gguf& gguf) {
  const std::string architecture(gguf.find_string("general.architecture").value_or(""));
  const GgufValue* kind = gguf.find(architecture + ".pooling_type");
  if (kind == nullptr) return std::nullopt;
  // llama.cpp's numbers.
  switch (kind->as_unsigned().value_or(0)) {
    case 1:
      return Pooling::kMean;
    case 2:
      return Pooling::kFirst;
    case 3:
      return Pooling::kLast;
    default:
      fail(name, "expected " + architecture + ".pooling_type 1 (mean), 2 (cls) or 3 (last)");
  }
}

}  // namespace vesper
