// The command line of `serve`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "serve/models/model_registry.h"
#include "serve/server/server.h"

namespace vesper {

struct ServeArguments {
  std::vector<std::string> models;  // names or paths
  std::string vad_model;            // empty: the installed one, if there is one
  bool offline = false;
  std::optional<double> memory_gb;  // of all loaded models
  std::optional<double> idle_s;     // after which a model is unloaded
  RegistryOptions registry = {};
  ServerOptions server = {};
};

// The table of options. Parsing stores their values in `arguments`.
OptionTable serve_options(ServeArguments& arguments);

// Returns text to print instead of working (--help, for example). Throws Error(kUsage).
std::optional<std::string> parse_serve_options(int argc, const char* const* argv,
                                               ServeArguments& arguments);

}  // namespace vesper
