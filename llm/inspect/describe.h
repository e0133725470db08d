// Describers for single kinds of files, used by describe_model().
#pragma once

#include "llm/inspect/model_description.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// A GGUF file and its split files.
void describe_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file,
                   ModelDescription& description);

// Everything that open_weights() reads, and the files beside it.
void describe_files(const std::filesystem::path& path, ModelDescription& description);

}  // namespace vesper
