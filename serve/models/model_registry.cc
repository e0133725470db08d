#include "serve/models/model_registry.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "embedder/embedding_settings.h"
#include "error/error.h"
#include "llm/weights/weight_provider.h"
#include "session/inspection/memory_plan.h"

namespace vesper {
namespace {

// When the newest file of a model was written, in seconds since 1970; 0: unknown.
int64_t written(const std::filesystem::path& path) {
  const auto time_of = [](const std::filesystem::path& file) -> int64_t {
    struct stat info;
    return ::stat(file.c_str(), &info) == 0 ? info.st_mtime : 0;
  };
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return time_of(path);
  int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) newest = std::max(newest, time_of(entry.path()));
  }
  return newest;
}

// Whether the files of a language model say how to pool its rows to a vector.
bool has_pooling(const WeightProvider& files) {
  const std::filesystem::path& path = files.path();
  if (const Gguf* gguf = files.gguf()) return read_gguf_pooling(path.string(), *gguf).has_value();
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  return std::filesystem::exists((is_folder ? path : path.parent_path()) / "modules.json", error);
}

ModelKind served_kind(const WeightProvider& files) {
  switch (files.type()) {
    case ModelType::kWhisper:
      return ModelKind::kSpeech;
    case ModelType::kLanguageModel:
      return has_pooling(files) ? ModelKind::kTextEncoder : ModelKind::kLanguage;
    case ModelType::kTextEncoder:
      return ModelKind::kTextEncoder;
    case ModelType::kNone:
      break;
  }
  throw Error(ErrorKind::kModel, files.path().string() +
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
  ModelKind kind = ModelKind::kSpeech;
  const HostedModel model = inspect(name, path, kind);
  if (kind == ModelKind::kSpeech) {
    speech_[name] = std::make_unique<SpeechHost>(model, options_.speech, options_.host);
  } else if (kind == ModelKind::kLanguage) {
    text_[name] = std::make_unique<TextHost>(model, options_.text, options_.host);
  } else {
    embedding_[name] = std::make_unique<EmbeddingHost>(model, options_.embedding, options_.host);
  }
}

HostedModel ModelRegistry::inspect(const std::string& name, const std::filesystem::path& path,
                                   ModelKind& kind) const {
  const std::shared_ptr<const WeightProvider> files = open_weights(path);
  kind = served_kind(*files);
  ModelUse use;
  if (kind == ModelKind::kSpeech) use.n_slots = options_.speech.batch_size;
  if (kind == ModelKind::kLanguage) {
    use = {.kv_types = options_.text.kv_type,
           .n_ctx = context_of(options_.text, files->config().decoder().n_positions),
           .n_slots = options_.text.n_slots};
  }
  const TextSessionOptions& engine = options_.text;  // as the others
  return {name, path, model_bytes({files, nullptr}, engine.device, engine.compute, use),
          written(path)};
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
      const HostedModel& model = thread.model();
      entries.push_back(
          {name, kind, thread.is_loaded(), thread.n_waiting(), model.n_bytes, model.written});
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
