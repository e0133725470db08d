// Models that can be downloaded by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session/digest.h"

namespace vesper {

enum class ModelKind { kSpeech, kTextEncoder, kLanguage };

struct KnownModel {
  std::string_view name;        // for users, "tiny.en"
  std::string_view repository;  // on Hugging Face, "owner/name"
  std::string_view file;        // in the repository, and in the folder of models
  std::string_view sha1;        // from the publisher's model card; empty: the hub sends a SHA-256
  ModelKind kind = ModelKind::kSpeech;
  bool is_folder() const { return kind == ModelKind::kTextEncoder; }
};

// Files beside `file`, the weights, of a model that is a folder: the small files of a
// sentence-transformers repository. The hub has no digest for them.
const std::vector<std::string_view>& files_beside_text_encoder();

const std::vector<KnownModel>& known_models();

// By name or alias ("turbo", "large"). Null if there is none.
const KnownModel* find_known_model(std::string_view name);

// The URL of a file of the model's repository on the hub, or on the mirror in the environment
// variable HF_ENDPOINT.
std::string download_url(const KnownModel& model, std::string_view file);

std::optional<Digest> published_digest(const KnownModel& model);

}  // namespace vesper
