// CTranslate2's `model.bin` and the files beside it, as faster-whisper loads them.
#pragma once

#include <memory>
#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Whether the bytes begin like a CTranslate2 binary of any version.
bool is_ctranslate2(const MappedFile& file);

// Reads `model` (the binary) and, if present in `files`, config.json, vocabulary.json or
// vocabulary.txt, and preprocessor_config.json. Throws Error(kModel).
ModelContents read_ctranslate2(const ModelFiles& files, std::shared_ptr<const MappedFile> model);

}  // namespace vesper
