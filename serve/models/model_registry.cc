#include "serve/models/model_registry.h"

#include <utility>

#include "embedder/embedding_settings.h"
#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

uint64_t bytes_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const uint64_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
  }
  uint64_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const uint64_t size = entry.is_regular_file(error) ? entry.file_size(error) : 0;
    if (!error) total += size;
  }
  return total;
}

// Whether the files of a language model say how to pool its rows to a vector.
bool has_pooling(const WeightProvider& files) {
  const std::filesystem::path& path = files.path();
  if (const Gguf* gguf = files.gguf()) return read_gguf_pooling(path.string(), *gguf).has_value();
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  return std::filesystem::exists((is_folder ? path : path.parent_path()) / "modules.json", error);
}

ModelKind kind_of(const std::filesystem::path& path) {
  const std::unique_ptr<WeightProvider> files = open_weights(path);
  switch (files->type()) {
    case ModelType::kWhisper:
      return ModelKind::kSpeech;
    case ModelType::kLanguageModel:
      return has_pooling(*files) ? ModelKind::kTextEncoder : ModelKind::kLanguage;
    case ModelType::kTextEncoder:
      return ModelKind::kTextEncoder;
    case ModelType::kNone:
      break;
  }
  throw Error(ErrorKind::kModel, path.string() +
                                     ": expected a speech model, a language model or a text "
                                     "encoder");
}

}  // namespace

ModelRegistry::~ModelRegistry() {
  // All at once, because one may wait for the memory of another.
  for_each([](const std::string&, auto& host) { host.thread().close(); });
}

void ModelRegistry::add(const std::string& name, const std::filesystem::path& path) {
  if (text_.contains(name) || speech_.contains(name) || embedding_.contains(name)) {
    throw Error(ErrorKind::kUsage, "model", "expected different names, found " + name + " twice");
  }
  const ModelKind kind = kind_of(path);
  const HostedModel model{name, path, bytes_of(path)};
  if (kind == ModelKind::kSpeech) {
    speech_[name] = std::make_unique<SpeechHost>(model, options_.speech, options_.host);
  } else if (kind == ModelKind::kLanguage) {
    text_[name] = std::make_unique<TextHost>(model, options_.text, options_.host);
  } else {
    embedding_[name] = std::make_unique<EmbeddingHost>(model, options_.embedding, options_.host);
  }
}

void ModelRegistry::throw_unknown(const std::string& name, ModelKind kind) {
  std::string names;
  for (const Entry& entry : list()) {
    if (entry.kind == kind) names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UnknownModel("model: expected one of the kind \"" + std::string(kind_name(kind)) + "\" (" +
                     (names.empty() ? "this server has none" : names) + "), found \"" +
                     name.substr(0, 80) + "\"");
}

template <class Host>
Host& ModelRegistry::find(std::map<std::string, std::unique_ptr<Host>>& hosts,
                          const std::string& name, ModelKind kind) {
  if (name.empty() && hosts.size() == 1) return *hosts.begin()->second;
  const auto found = hosts.find(name);
  if (found == hosts.end()) throw_unknown(name, kind);
  return *found->second;
}

TextHost& ModelRegistry::text(const std::string& name) {
  return find(text_, name, ModelKind::kLanguage);
}
SpeechHost& ModelRegistry::speech(const std::string& name) {
  return find(speech_, name, ModelKind::kSpeech);
}
EmbeddingHost& ModelRegistry::embedding(const std::string& name) {
  return find(embedding_, name, ModelKind::kTextEncoder);
}

std::vector<ModelRegistry::Entry> ModelRegistry::list() {
  std::vector<Entry> entries;
  const auto add_all = [&](auto& hosts, ModelKind kind) {
    for (auto& [name, host] : hosts) {
      auto& thread = host->thread();
      entries.push_back({name, kind, thread.is_loaded(), thread.n_waiting(), thread.n_done()});
    }
  };
  add_all(speech_, ModelKind::kSpeech);
  add_all(text_, ModelKind::kLanguage);
  add_all(embedding_, ModelKind::kTextEncoder);
  return entries;
}

bool ModelRegistry::is_ready() {
  bool all = true;
  for_each([&](const std::string&, auto& host) { all = all && host.thread().is_ready(); });
  return all;
}

}  // namespace vesper
