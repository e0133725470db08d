// From what the user says after --model to a file or folder on this machine.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "session/download.h"
#include "session/known_models.h"

namespace vesper {

struct ModelLookup {
  ModelKind kind = ModelKind::kSpeech;  // which known names a message lists
  bool offline = false;                 // never fetch
  // Called before a model is fetched, with its name, the address and the file it will be.
  std::function<void(const std::string& name, const std::string& url,
                     const std::filesystem::path& target)>
      on_fetch = nullptr;
  DownloadEvents download;
};

// The folders that models are looked for in, in this order: $VESPER_MODELS if set, then
// vesper/models in the user's cache folder ($XDG_CACHE_HOME, or ~/.cache). What is fetched goes to
// the first. Throws Error(kModel) if there is none.
std::vector<std::filesystem::path> model_folders();

// An existing path as it is; else a name, which in each of the model folders stands for a folder
// NAME with model.bin, *.safetensors or *.gguf in it, or a file NAME, NAME.bin, ggml-NAME.bin or
// NAME.gguf;
// else a known model (session/known_models.h), which is fetched. Throws Error(kModel) saying where
// it looked.
std::filesystem::path find_model(const std::string& name_or_path, const ModelLookup& lookup);

}  // namespace vesper
