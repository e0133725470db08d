#include "session/models/model_store.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "llm/files/folder_names.h"
#include "session/models/download.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

std::optional<fs::path> cache_folder() {
  // The XDG specification ignores relative paths.
  if (const auto cache = environment("XDG_CACHE_HOME"); cache && fs::path(*cache).is_absolute()) {
    return fs::path(*cache);
  }
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache";
  // Not getpwuid(), whose result other threads overwrite.
  std::array<char, 16384> strings{};
  passwd entry{};
  passwd* user = nullptr;
  const int error = getpwuid_r(getuid(), &entry, strings.data(), strings.size(), &user);
  if (error != 0 || !user || !*user->pw_dir) return std::nullopt;
  return fs::path(user->pw_dir) / ".cache";
}

bool is_model_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  if (fs::exists(path / "model.bin", error)) return true;
  const std::vector<std::string> names = names_in_folder(path, error);
  return !error && std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const fs::path extension = fs::path(name).extension();
    return extension == ".safetensors" || extension == ".gguf";
  });
}

std::optional<fs::path> find_in(const fs::path& folder, const std::string& name) {
  if (is_model_folder(folder / name)) return folder / name;
  for (const std::string& file : {name, name + ".bin", "ggml-" + name + ".bin", name + ".gguf"}) {
    std::error_code error;
    if (fs::is_regular_file(folder / file, error)) return folder / file;
  }
  return std::nullopt;
}

std::string list_of(const std::vector<fs::path>& folders) {
  std::string text;
  for (const fs::path& folder : folders) text += (text.empty() ? "" : ", ") + folder.string();
  return text;
}

std::string names_of_known_models(ModelKind kind) {
  std::string text;
  for (const KnownModel& model : known_models()) {
    if (model.kind != kind) continue;
    // Quantized variants follow the pattern NAME-q5_1; the plain names are enough.
    if (model.name.find("-q") != std::string_view::npos) continue;
    text += (text.empty() ? "" : ", ") + std::string(model.name);
  }
  return text;
}

bool is_model_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) &&
         (path.extension() == ".bin" || path.extension() == ".gguf");
}

// The name that find() accepts: "ggml-tiny.bin" is "tiny".
std::string name_of_file(const fs::path& path) {
  std::string name = path.stem().string();
  if (path.extension() == ".bin" && name.starts_with("ggml-")) name.erase(0, 5);
  return name;
}

// By its name, or by the name of its file: language models keep their publishers' file names.
const KnownModel* known_model_of(const fs::path& path, const std::string& name) {
  if (const KnownModel* known = find_known_model(name)) return known;
  return find_known_model_of_file(path);
}

void refuse_offline(const ModelStoreOptions& options, const std::string& name,
                    const std::vector<fs::path>& folders) {
  if (!options.offline) return;
  throw Error(ErrorKind::kModel, "offline",
              "model \"" + name + "\" is not in " + list_of(folders) + ", and may not be fetched");
}

}  // namespace

std::string StoredModel::kind_text() const {
  return std::string(kind ? kind_name(*kind) : "unknown");
}

std::vector<fs::path> ModelStore::folders_or_none() const {
  if (!options_.folders.empty()) return options_.folders;
  std::vector<fs::path> folders;
  if (const auto chosen = environment("VESPER_MODELS")) folders.emplace_back(*chosen);
  if (const auto cache = cache_folder()) folders.push_back(*cache / "vesper" / "models");
  return folders;
}

std::vector<fs::path> ModelStore::folders() const {
  std::vector<fs::path> folders = folders_or_none();
  if (folders.empty()) {
    throw Error(
        ErrorKind::kModel,
        "no folder to look for models in: none of VESPER_MODELS, XDG_CACHE_HOME and HOME is "
        "set");
  }
  return folders;
}

std::optional<fs::path> ModelStore::find_installed(const std::string& name) const {
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  std::error_code error;
  const KnownModel* known = find_known_model(name);
  for (const fs::path& folder : folders_or_none()) {
    if (const auto found = find_in(folder, name)) return found;
    if (!known) continue;
    if (const auto found = find_in(folder, std::string(known->name))) return found;
    if (!known->is_folder() && fs::is_regular_file(folder / known->weights.name, error)) {
      return folder / known->weights.name;
    }
  }
  return std::nullopt;
}

fs::path ModelStore::find(const std::string& name_or_path, ModelKind kind) const {
  if (kind == ModelKind::kLanguage && name_or_path == kDefaultModel) return find_default();
  std::error_code error;
  if (fs::exists(name_or_path, error)) return name_or_path;
  std::string name;
  if (const auto model = model_of_repository(name_or_path, kind, name)) {
    return find_in_repository(*model);
  }
  if (name_or_path.empty() || name_or_path.find('/') != std::string::npos) {
    throw Error(ErrorKind::kModel, "model \"" + name_or_path + "\": no such file or folder");
  }
  const std::vector<fs::path> folders = this->folders();
  if (const auto found = find_installed(name_or_path)) return *found;
  const KnownModel* known = find_known_model(name_or_path);
  if (!known) {
    throw Error(ErrorKind::kModel, "model \"" + name_or_path + "\": expected a path, a model in " +
                                       list_of(folders) + ", or one of " +
                                       names_of_known_models(kind));
  }
  if (known->repository.empty()) {
    throw Error(ErrorKind::kModel, "model \"" + name_or_path + "\" is not in " + list_of(folders) +
                                       ": scripts/fetch-models.sh " + name_or_path + " fetches it");
  }
  refuse_offline(options_, name_or_path, folders);
  return fetch(*known, known->is_folder() ? folders.front() / known->name : folders.front());
}

fs::path ModelStore::find_default() const {
  const uint64_t memory = options_.memory_bytes != 0 ? options_.memory_bytes : total_memory_bytes();
  std::vector<DefaultModel> models;
  for (const DefaultModel& model : kDefaultModels) {
    if (model.min_memory_gib <= memory >> 30) models.push_back(model);
  }
  for (const DefaultModel& model : models) {
    if (!model.is_fetched) continue;
    if (const auto found = find_installed(std::string(model.name))) return *found;
  }
  try {
    return find(std::string(models.front().name), ModelKind::kLanguage);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    for (const DefaultModel& model : models) {
      const std::string name(model.name);
      const auto found = find_installed(name);
      if (!found) continue;
      if (options_.on_substitute) options_.on_substitute(name, error.what());
      return *found;
    }
    throw;
  }
}

fs::path ModelStore::find_in_repository(const KnownModel& model) const {
  const std::vector<fs::path> folders = this->folders();
  for (const fs::path& folder : folders) {
    const fs::path weights = folder / model.name / model.weights.name;
    std::error_code error;
    if (!fs::is_regular_file(weights, error)) continue;
    return model.is_folder() ? folder / model.name : weights;
  }
  refuse_offline(options_, "hf://" + std::string(model.repository), folders);
  return fetch(model, folders.front() / model.name);
}

fs::path ModelStore::fetch(const KnownModel& model, const fs::path& folder) const {
  const auto create = [&](const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
      throw Error(ErrorKind::kModel, "cannot create the folder of model \"" +
                                         std::string(model.name) + "\": " + path.string() + ": " +
                                         error.message());
    }
  };
  const fs::path target = folder / model.weights.name;
  const std::string url = download_url(model, model.weights.name);
  create(target.parent_path());
  if (options_.on_fetch) options_.on_fetch(std::string(model.name), url, target);
  if (!model.has_digests() && options_.on_unverified) {
    options_.on_unverified(std::string(model.name), std::string(model.repository));
  }
  // The weights are last: a folder without them is not a model.
  for (const ModelFile& file : model.beside) {
    const fs::path small = folder / file.name;
    std::error_code error;
    if (fs::exists(small, error)) continue;
    create(small.parent_path());
    const auto digest = published_digest(file);
    download({download_url(model, file.name), small, digest, digest.has_value()},
             {.on_wait = options_.on_wait, .is_cancelled = options_.is_cancelled});
  }
  download({url, target, published_digest(model.weights)},
           {options_.on_progress, options_.on_wait, options_.is_cancelled});
  return model.is_folder() ? folder : target;
}

std::vector<StoredModel> ModelStore::list() const {
  std::map<std::string, StoredModel> models;
  for (const fs::path& folder : folders()) {
    std::error_code error;
    for (const std::string& file : names_in_folder(folder, error)) {
      const fs::path path = folder / file;
      const bool is_folder = is_model_folder(path);
      if (!is_folder && !is_model_file(path)) continue;
      const std::string name = is_folder ? file : name_of_file(path);
      StoredModel model{name, path};
      if (const KnownModel* known = known_model_of(path, name)) {
        model.name = known->name;
        model.kind = known->kind;
      }
      const auto [at, is_new] = models.emplace(model.name, model);
      // In one folder, find() prefers a folder to a file.
      if (!is_new && is_folder && at->second.path.parent_path() == folder) at->second = model;
    }
  }
  std::vector<StoredModel> list;
  for (auto& [name, model] : models) list.push_back(std::move(model));
  return list;
}

}  // namespace vesper
