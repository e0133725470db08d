// CTranslate2's `model.bin` with the files beside it: what faster-whisper loads.
#pragma once

#include <memory>
#include <string>

#include "llm/weights/weight_provider.h"

namespace vesper {

// Whether the bytes begin as a CTranslate2 binary of any version does.
bool is_ctranslate2(const MappedFile& file);

// Reads `model` (the binary) and, from `files`, config.json, vocabulary.json or vocabulary.txt and
// preprocessor_config.json, each where there is one. Throws Error(kModel).
ModelContents read_ctranslate2(const ModelFiles& files, std::shared_ptr<const MappedFile> model);

}  // namespace vesper
