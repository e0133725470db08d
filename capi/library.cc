#include "capi/library.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "capi/options.h"
#include "error/error.h"

namespace vesper::capi {
namespace {

// Recursive: a log function may call the library.
std::recursive_mutex log_mutex;
vesper_on_log on_log = nullptr;
void* on_log_user = nullptr;

}  // namespace

void log(vesper_log_level level, const std::string& message) {
  const std::lock_guard lock(log_mutex);
  if (on_log) on_log(level, message.c_str(), on_log_user);
}

vesper_load_options default_load_options() {
  vesper_load_options options{};
  options.size = sizeof options;
  options.device = options.compute = "auto";
  return options;
}

vesper_load_options read_load_options(const vesper_load_options& given) {
  vesper_load_options options = read_options("load", &given, default_load_options());
  if (std::ranges::any_of(options.reserved, [](uint64_t number) { return number != 0; })) {
    throw ArgumentError("load", "expected only fields that version " VESPER_VERSION
                                " of the library knows, found one that is set in `reserved`");
  }
  return options;
}

ModelStore model_store(const vesper_load_options& options, std::function<bool()> is_cancelled) {
  ModelStoreOptions store{.offline = options.offline != 0, .is_cancelled = std::move(is_cancelled)};
  const auto fetched = std::make_shared<std::string>();
  store.on_fetch = [fetched](const std::string& name, const std::string& url,
                             const std::filesystem::path& target) {
    *fetched = name;
    log(VESPER_LOG_INFO, "fetching model " + name + " from " + url + " to " + target.string());
  };
  store.on_unverified = [](const std::string& name, const std::string& repository) {
    log(VESPER_LOG_WARNING, "no digests are known for model " + name +
                                ": nothing vouches for the files of repository " + repository);
  };
  store.on_wait = [] {
    log(VESPER_LOG_INFO, "another process is fetching this model: waiting for it");
  };
  if (options.on_download) {
    store.on_progress = [fetched, on_download = options.on_download,
                         user = options.on_download_user](uint64_t done, uint64_t total, uint64_t) {
      if (on_download(fetched->c_str(), done, total, user) != 0) {
        throw Error(ErrorKind::kStopped,
                    "the download of " + *fetched + " was stopped by the caller");
      }
    };
  }
  return ModelStore(std::move(store));
}

}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

const char* vesper_version(void) { return VESPER_VERSION; }

int vesper_has_feature(const char* feature) {
#ifdef VESPER_HAS_VULKAN
  if (feature && std::strcmp(feature, "vulkan") == 0) return 1;
#endif
  (void)feature;
  return 0;
}

void vesper_set_log(vesper_on_log on_log, void* user) {
  const std::lock_guard lock(capi::log_mutex);
  capi::on_log = on_log;
  capi::on_log_user = user;
}

void vesper_load_options_init(vesper_load_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_load_options);
}

}  // extern "C"
