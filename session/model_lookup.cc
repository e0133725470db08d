#include "session/model_lookup.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "error/error.h"
#include "session/known_models.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

std::optional<fs::path> cache_folder() {
  // The XDG specification has relative paths ignored.
  if (const auto cache = environment("XDG_CACHE_HOME"); cache && fs::path(*cache).is_absolute()) {
    return fs::path(*cache);
  }
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache";
  const passwd* user = getpwuid(getuid());
  if (user && user->pw_dir && *user->pw_dir) return fs::path(user->pw_dir) / ".cache";
  return std::nullopt;
}

bool is_model_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  if (fs::exists(path / "model.bin", error)) return true;
  fs::directory_iterator entries(path, error);
  return !error && std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    const fs::path extension = entry.path().extension();
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
    // Quantized variants follow the pattern NAME-q5_1; the plain names say enough.
    if (model.name.find("-q") != std::string_view::npos) continue;
    text += (text.empty() ? "" : ", ") + std::string(model.name);
  }
  return text;
}

// The weights come last: a folder without them is no model yet.
void fetch_small_files(const KnownModel& model, const fs::path& folder, const ModelLookup& lookup) {
  for (const std::string_view file : files_beside_text_encoder()) {
    const fs::path target = folder / file;
    std::error_code error;
    if (fs::exists(target, error)) continue;
    fs::create_directories(target.parent_path(), error);
    DownloadEvents events;
    events.on_wait = lookup.download.on_wait;
    download({download_url(model, file), target, std::nullopt, false}, events);
  }
}

}  // namespace

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (const auto chosen = environment("VESPER_MODELS")) folders.emplace_back(*chosen);
  if (const auto cache = cache_folder()) folders.push_back(*cache / "vesper" / "models");
  if (folders.empty()) {
    throw Error(
        ErrorKind::kModel,
        "no folder to look for models in: none of VESPER_MODELS, XDG_CACHE_HOME and HOME is "
        "set");
  }
  return folders;
}

fs::path find_model(const std::string& name_or_path, const ModelLookup& lookup) {
  std::error_code error;
  if (fs::exists(name_or_path, error)) return name_or_path;
  if (name_or_path.empty() || name_or_path.find('/') != std::string::npos) {
    throw Error(ErrorKind::kModel, "model \"" + name_or_path + "\": no such file or folder");
  }
  const std::vector<fs::path> folders = model_folders();
  const KnownModel* known = find_known_model(name_or_path);
  for (const fs::path& folder : folders) {
    if (const auto found = find_in(folder, name_or_path)) return *found;
    if (!known) continue;
    if (const auto found = find_in(folder, std::string(known->name))) return *found;
    // Language models are kept under the names that their publishers gave them.
    if (!known->is_folder() && fs::is_regular_file(folder / known->file, error)) {
      return folder / known->file;
    }
  }
  if (!known) {
    throw Error(ErrorKind::kModel, "model \"" + name_or_path + "\": expected a path, a model in " +
                                       list_of(folders) + ", or one of " +
                                       names_of_known_models(lookup.kind));
  }
  if (lookup.offline) {
    throw Error(ErrorKind::kModel, "offline",
                "model \"" + name_or_path + "\" is not in " + list_of(folders) +
                    ", and may not be fetched");
  }
  const fs::path folder =
      known->is_folder() ? folders.front() / std::string(known->name) : folders.front();
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kModel, "no place for model \"" + name_or_path +
                                       "\": " + folder.string() + ": " + error.message());
  }
  const fs::path target = folder / known->file;
  const std::string url = download_url(*known, known->file);
  if (lookup.on_fetch) lookup.on_fetch(std::string(known->name), url, target);
  if (known->is_folder()) fetch_small_files(*known, folder, lookup);
  download({url, target, published_digest(*known)}, lookup.download);
  return known->is_folder() ? folder : target;
}

}  // namespace vesper
