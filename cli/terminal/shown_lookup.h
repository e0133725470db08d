// A model's place on this machine, with what a fetch of it shows on standard error.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "session/known_models.h"

namespace vesper {

// find_model (session/model_lookup.h), for a program of that name: it notes where a model comes
// from, and shows the progress on a terminal. Throws what find_model does.
std::filesystem::path find_model_showing(std::string_view program, const std::string& name_or_path,
                                         ModelKind kind, bool offline);

}  // namespace vesper
