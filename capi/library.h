// What the C API does for models of every kind: the log, and finding and loading a model.
#pragma once

#include <vesper/base.h>

#include <filesystem>
#include <functional>
#include <string>

#include "capi/errors.h"
#include "session/models/model_store.h"

namespace vesper::capi {

// Passes a message to the function of vesper_set_log, if there is one.
void log(vesper_log_level level, const std::string& message);

vesper_load_options default_load_options();
// The options of the caller; see read_options().
vesper_load_options read_load_options(const vesper_load_options& given);

// A store that logs and reports its downloads, and is offline if the options say so. The options
// must outlive it.
ModelStore model_store(const vesper_load_options& options, std::function<bool()> is_cancelled = {});

// Sets device, compute and threads of a session's options, and weights and adapters if it has them.
template <class SessionOptions>
void set_engine(const vesper_load_options& given, SessionOptions& options) {
  options.device = given.device ? given.device : "auto";
  options.compute = given.compute ? given.compute : "auto";
  options.threads = given.threads;
  if constexpr (requires { options.weights; }) {
    options.weights.type = given.weights ? given.weights : "";
    if (given.n_adapters > 0) required("adapters", given.adapters);
    for (size_t i = 0; i < given.n_adapters; ++i) {
      const auto& [path, scale] = given.adapters[i];
      options.weights.adapters.push_back({required("path", path), static_cast<float>(scale)});
    }
  }
}

}  // namespace vesper::capi
