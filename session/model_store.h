// ModelStore: models by name, kept in folders of this machine and fetched when they are absent.
//
// In: a name ("tiny.en") or a path. Out: the file or folder that llm/weights opens. Called by the
// programs and by users of the sessions. Calls known_models (what can be fetched), download and
// digest.
//
//   const ModelStore store({.offline = true});
//   SpeechSession session(store.find("tiny.en"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session/known_models.h"

namespace vesper {

struct ModelStoreOptions {
  // Where models are looked for, in this order; what is fetched goes to the first. Empty:
  // $VESPER_MODELS if set, then vesper/models in the user's cache folder ($XDG_CACHE_HOME, or
  // ~/.cache).
  std::vector<std::filesystem::path> folders = {};
  bool offline = false;  // never fetch
  // Called before a model is fetched: its name, the address, and the file it will be.
  std::function<void(const std::string& name, const std::string& url,
                     const std::filesystem::path& target)>
      on_fetch = {};
  // Bytes there, in total (0 if unknown), and there before this call. Many times a second.
  std::function<void(uint64_t done, uint64_t total, uint64_t before)> on_progress = {};
  // Another process is fetching the same file; this one waits for it.
  std::function<void()> on_wait = {};
};

// A model on this machine.
struct StoredModel {
  std::string name;  // as find() takes it
  std::filesystem::path path;
  std::optional<ModelKind> kind = {};  // absent: it is none of known_models()
};

// Safe to use from several threads and processes at once: a model is fetched once.
class ModelStore {
 public:
  explicit ModelStore(ModelStoreOptions options = {}) : options_(std::move(options)) {}

  // Throws Error(kModel) if options name none and the environment has none of the variables.
  std::vector<std::filesystem::path> folders() const;

  // An existing path as it is; else a name, which in each of the folders stands for a folder NAME
  // with model.bin, *.safetensors or *.gguf in it, or a file NAME, NAME.bin, ggml-NAME.bin or
  // NAME.gguf; else a known model, which is fetched and checked by its digest. Throws
  // Error(kModel) saying where it looked; the message lists the known models of `kind`.
  std::filesystem::path find(const std::string& name_or_path,
                             ModelKind kind = ModelKind::kSpeech) const;

  // The models in the folders, by rising name; of two with one name the one that find() gives.
  std::vector<StoredModel> list() const;

 private:
  std::filesystem::path fetch(const KnownModel& model) const;

  ModelStoreOptions options_;
};

}  // namespace vesper
