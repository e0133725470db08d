// Models that have a name of their own; most can be downloaded by it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "session/models/digest.h"

namespace vesper {

enum class ModelKind { kSpeech, kVad, kTextEncoder, kLanguage };
// "speech", "voice activity", "text encoder" or "language".
std::string_view kind_name(ModelKind kind);

// The VAD model that the programs and the C API use if it is installed.
inline constexpr const char* kVadModel = "silero-vad";

// The name of the language model that is taken if none is named (ModelStore::find).
inline constexpr std::string_view kDefaultModel = "default";

// A language model for those who name none, and the memory of a machine that it is for.
struct DefaultModel {
  std::string_view name;
  uint64_t min_memory_gib = 0;
  bool is_fetched = false;  // otherwise it is only taken if it is installed
};
// The best first. 12 GiB: machines with 16 GB, less what firmware and kernel keep.
inline constexpr std::array<DefaultModel, 8> kDefaultModels = {{{"qwen3-1.7b", 12, true},
                                                                {"qwen3-0.6b", 0, true},
                                                                {"llama-3.2-3b", 8},
                                                                {"smollm2-1.7b", 4},
                                                                {"llama-3.2-1b", 4},
                                                                {"gemma-3-1b", 4},
                                                                {"smollm2-360m", 0},
                                                                {"smollm2-135m", 0}}};

struct ModelFile {
  std::string_view name;    // in the repository
  std::string_view digest;  // hexadecimal, SHA-1 or SHA-256 by its length; empty: none
};

// All of its files have digests, or none has.
struct KnownModel {
  std::string_view name;        // for users, "tiny.en"
  std::string_view repository;  // on Hugging Face, "owner/name"; empty: cannot be downloaded
  ModelFile weights;            // in the folder of models under the same name
  ModelKind kind = ModelKind::kSpeech;
  std::string_view revision = "main";      // of the repository: a branch or a commit
  std::span<const ModelFile> beside = {};  // of a model that is a folder: its other files
  // The sampling settings of the publisher's generation_config.json, for files that lack them;
  // empty: none.
  std::string_view generation_config = {};
  bool is_folder() const { return !beside.empty(); }
  bool has_digests() const { return !weights.digest.empty(); }
};

// Models whose files have digests here, so that a mirror cannot change them, then text encoders
// without digests, which are fetched as those of other repositories: with a warning.
const std::vector<KnownModel>& known_models();

// The model that "hf://OWNER/NAME/FILE" names; for a text encoder "hf://OWNER/NAME" too. It has no
// digests, and its name is "OWNER--NAME", that of its folder among the models. Absent if `text`
// does not begin with hf://. The result refers to `text`, except its name, which is stored in
// `name`. Throws Error(kModel) if the rest has another form.
std::optional<KnownModel> model_of_repository(std::string_view text, ModelKind kind,
                                              std::string& name);

// By name or alias ("turbo", "large"). Null if there is none.
const KnownModel* find_known_model(std::string_view name);

// The model whose weights have this file name: language models keep their publishers' names. Null
// if there is none.
const KnownModel* find_known_model_of_file(const std::filesystem::path& path);

// The URL of a file of the model's repository on the hub, or on the mirror in the environment
// variable HF_ENDPOINT.
std::string download_url(const KnownModel& model, std::string_view file);

std::optional<Digest> published_digest(const ModelFile& file);

}  // namespace vesper
