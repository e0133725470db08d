// The models of a server, by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "serve/models/embedding_host.h"
#include "serve/models/speech_host.h"
#include "serve/models/text_host.h"
#include "session/models/known_models.h"

namespace vesper {

struct RegistryOptions {
  TextSessionOptions text = {};
  SpeechSessionOptions speech = {};
  EmbeddingSessionOptions embedding = {};
  HostOptions host = {};
};

// A request names a model that the server does not have.
class UnknownModel : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ModelRegistry {
 public:
  explicit ModelRegistry(RegistryOptions options) : options_(std::move(options)) {}
  ~ModelRegistry();

  // Starts the host of a model; its kind comes from its files. Throws Error(kUsage) for a name that
  // is taken, Error(kModel) for files that are no model of a known kind. Call it before requests.
  void add(const std::string& name, const std::filesystem::path& path);

  // Throw UnknownModel that lists the models if there is none of this name and kind. An empty name
  // is the only model of the kind.
  TextHost& text(const std::string& name);
  SpeechHost& speech(const std::string& name);
  EmbeddingHost& embedding(const std::string& name);

  struct Entry {
    std::string name;
    ModelKind kind = ModelKind::kSpeech;
    bool is_loaded = false;
    size_t n_waiting = 0;
    uint64_t n_bytes = 0;  // as HostedModel
    int64_t written = 0;
  };
  std::vector<Entry> list();
  // Whether every model that is loaded at the start is there.
  bool is_ready();
  const RegistryOptions& options() const { return options_; }

  // For each host: visit(name, host).
  template <class Visit>
  void for_each(const Visit& visit) {
    for (auto& [name, host] : text_) visit(name, *host);
    for (auto& [name, host] : speech_) visit(name, *host);
    for (auto& [name, host] : embedding_) visit(name, *host);
  }

 private:
  [[noreturn]] void throw_unknown(const std::string& name, ModelKind kind);
  // Describes a model without loading it. Sets its kind. Throws Error(kModel).
  HostedModel inspect(const std::string& name, const std::filesystem::path& path,
                      ModelKind& kind) const;
  template <class Host>
  Host& find(std::map<std::string, std::unique_ptr<Host>>& hosts, const std::string& name,
             ModelKind kind);

  RegistryOptions options_;
  std::map<std::string, std::unique_ptr<TextHost>> text_;
  std::map<std::string, std::unique_ptr<SpeechHost>> speech_;
  std::map<std::string, std::unique_ptr<EmbeddingHost>> embedding_;
};

}  // namespace vesper
