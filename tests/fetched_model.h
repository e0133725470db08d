// Models of scripts/fetch-models.sh for tests.
#pragma once

#include <filesystem>
#include <string>

namespace vesper {

// The file or folder of a model on this machine. Throws Error if it is absent; the test then fails.
// With the environment variable VESPER_TEST_WITHOUT_MODELS, skips the test that calls it.
std::filesystem::path fetched_model(const std::string& name);

}  // namespace vesper
