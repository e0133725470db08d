// The models that can be fetched by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session/digest.h"

namespace vesper {

enum class ModelKind { kSpeech, kTextEncoder, kLanguage };

struct KnownModel {
  std::string_view name;        // as users say it, "tiny.en"
  std::string_view repository;  // of the publisher on Hugging Face, "owner/name"
  std::string_view file;        // in it; the name it is kept under, too
  std::string_view sha1;        // as the publisher's model card gives it; empty if it gives none:
                                // the hub gives a SHA-256 with the file then
  ModelKind kind = ModelKind::kSpeech;
  bool is_folder() const { return kind == ModelKind::kTextEncoder; }
};

// What a model that is a folder has beside `file`, its weights: the small files of a repository of
// sentence-transformers. The hub gives no digest for them.
const std::vector<std::string_view>& files_beside_text_encoder();

const std::vector<KnownModel>& known_models();

// By name or by another name for it ("turbo", "large"). Null if there is none.
const KnownModel* find_known_model(std::string_view name);

// Where a file of the model's repository is, on the hub or, if the environment variable HF_ENDPOINT
// is set, on the mirror that it names.
std::string download_url(const KnownModel& model, std::string_view file);

std::optional<Digest> published_digest(const KnownModel& model);

}  // namespace vesper
