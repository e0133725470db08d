// OpenAI's Whisper checkpoints: tiny.pt and others.
#pragma once

#include <memory>

#include "llm/weights/weight_provider.h"

namespace vesper {

// `file` is a zip file (llm/files/zip_directory.h). The vocabulary is in `files`: OpenAI's
// multilingual.tiktoken or gpt2.tiktoken, or that of another format. Throws Error(kModel).
ModelContents read_openai(const ModelFiles& files, std::shared_ptr<const MappedFile> file);

}  // namespace vesper
