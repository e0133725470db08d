// ModelStore: models by name, in folders of this machine, downloaded if they are absent.
//
// In: a name ("tiny.en") or a path. Out: the file or folder that llm/weights opens. Called by the
// programs and by users of the sessions. Calls known_models, download and digest.
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

#include "session/models/known_models.h"

namespace vesper {

struct ModelStoreOptions {
  // Folders with models, in order of precedence; downloads go to the first. Empty: $VESPER_MODELS
  // if set, then vesper/models in the user's cache folder ($XDG_CACHE_HOME, or ~/.cache).
  std::vector<std::filesystem::path> folders = {};
  bool offline = false;       // never download
  uint64_t memory_bytes = 0;  // for which kDefaultModel is chosen; 0: of this machine
  // Called before a download with the name, the URL and the target file.
  std::function<void(const std::string& name, const std::string& url,
                     const std::filesystem::path& target)>
      on_fetch = {};
  // Called if kDefaultModel is a lesser model because the best one cannot be had: its name, and
  // why.
  std::function<void(const std::string& name, const std::string& why)> on_substitute = {};
  // Called before a download of files without digests, with the name and the repository: nothing
  // but the server vouches for them.
  std::function<void(const std::string& name, const std::string& repository)> on_unverified = {};
  // Done bytes, total bytes (0 if unknown), and bytes present before this call. Called many times a
  // second.
  std::function<void(uint64_t done, uint64_t total, uint64_t before)> on_progress = {};
  // Another process downloads the same file; this one waits for it.
  std::function<void()> on_wait = {};
  // Called about every second during a download or more often. If it returns true, the download
  // ends with Error(kStopped), and the next one continues it.
  std::function<bool()> is_cancelled = {};
};

// A model on this machine.
struct StoredModel {
  std::string name;  // as accepted by find()
  std::filesystem::path path;
  std::optional<ModelKind> kind = {};  // absent if not in known_models()
  // "speech", "voice activity", "text encoder", "language" or "unknown".
  std::string kind_text() const;
};

// Thread-safe and safe for several processes: a model is downloaded once.
class ModelStore {
 public:
  explicit ModelStore(ModelStoreOptions options = {}) : options_(std::move(options)) {}

  // Throws Error(kModel) if neither options nor environment name a folder.
  std::vector<std::filesystem::path> folders() const;

  // An existing path is returned unchanged. Otherwise finds, in each of the folders, a folder NAME
  // with model.bin, *.safetensors or *.gguf, or a file NAME, NAME.bin, ggml-NAME.bin or NAME.gguf.
  // Otherwise downloads a known model, or "hf://OWNER/NAME/FILE" (or a text encoder
  // hf://OWNER/NAME) from any repository of the hub, and checks the digests that are known. Throws
  // Error(kModel) that lists the folders and the known models of `kind`.
  //
  // kDefaultModel is a language model by the memory of this machine (kDefaultModels): the first
  // installed one of those that may be fetched, else the best of them, downloaded, else the first
  // installed one of the others.
  std::filesystem::path find(const std::string& name_or_path,
                             ModelKind kind = ModelKind::kSpeech) const;

  // The same for a name, without a download; absent: not installed.
  std::optional<std::filesystem::path> find_installed(const std::string& name) const;

  // The models in the folders, by name; of several with one name the one that find() returns.
  std::vector<StoredModel> list() const;

 private:
  std::vector<std::filesystem::path> folders_or_none() const;
  std::filesystem::path find_default() const;
  std::filesystem::path find_in_repository(const KnownModel& model) const;
  // Into `folder`, which is created.
  std::filesystem::path fetch(const KnownModel& model, const std::filesystem::path& folder) const;

  ModelStoreOptions options_;
};

}  // namespace vesper
