// The describers of single kinds of files, behind describe_model().
#pragma once

#include "llm/inspect/model_description.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A GGUF file, with those that it was split into.
void describe_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file,
                   ModelDescription& description);

// Everything that open_weights() takes, and what stands beside it.
void describe_files(const std::filesystem::path& path, ModelDescription& description);

}  // namespace vesper
