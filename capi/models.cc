// The models of this machine: include/vesper/inspect.h.
#include <vesper/inspect.h>

#include <cstring>
#include <string>

#include "capi/cancellation.h"
#include "capi/errors.h"
#include "capi/library.h"
#include "capi/options.h"
#include "session/inspection/reports.h"
#include "session/models/digest.h"
#include "session/models/model_store.h"

namespace vesper::capi {
namespace {

ModelKind model_kind(int kind) {
  switch (kind) {
    case VESPER_MODEL_SPEECH:
      return ModelKind::kSpeech;
    case VESPER_MODEL_VAD:
      return ModelKind::kVad;
    case VESPER_MODEL_TEXT_ENCODER:
      return ModelKind::kTextEncoder;
    case VESPER_MODEL_LANGUAGE:
      return ModelKind::kLanguage;
  }
  throw ArgumentError("kind", "expected a vesper_model_kind, found " + std::to_string(kind));
}

DigestAlgorithm digest_algorithm(const char* name) {
  if (std::strcmp(name, "sha256") == 0) return DigestAlgorithm::kSha256;
  if (std::strcmp(name, "sha1") == 0) return DigestAlgorithm::kSha1;
  throw ArgumentError("algorithm", "expected sha256 or sha1, found '" + std::string(name) + "'");
}

}  // namespace
}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

vesper_status vesper_model_find(const char* model, vesper_model_kind kind,
                                const vesper_load_options* options,
                                const vesper_cancellation* cancellation, char** path) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("path", path) = nullptr;
    const vesper_load_options given =
        options ? capi::read_load_options(*options) : capi::default_load_options();
    const vesper::ModelStore store = capi::model_store(given, capi::is_cancelled(cancellation));
    *path = capi::copied_string(
        store.find(capi::required("model", model), capi::model_kind(capi::number_of(kind)))
            .string());
  });
}

vesper_status vesper_model_find_installed(const char* name, char** path) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("path", path) = nullptr;
    const auto found = vesper::ModelStore().find_installed(capi::required("name", name));
    if (found) *path = capi::copied_string(found->string());
  });
}

vesper_status vesper_models_installed(char** json) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("json", json) = nullptr;
    *json =
        capi::copied_string(vesper::report_text(stored_models_json(vesper::ModelStore().list())));
  });
}

vesper_status vesper_models_known(char** json) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("json", json) = nullptr;
    *json = capi::copied_string(vesper::report_text(vesper::known_models_json()));
  });
}

vesper_status vesper_file_digest(const char* path, const char* algorithm, char** hex) {
  return capi::guarded(__func__, nullptr, [&] {
    *capi::required("hex", hex) = nullptr;
    capi::required("path", path);
    const auto wanted = capi::digest_algorithm(capi::required("algorithm", algorithm));
    *hex = capi::copied_string(vesper::digest_of_file(path, wanted).hex);
  });
}

}  // extern "C"
