// GGUF metadata of a model: the inverse of llm/weights/gguf and of llm/tokenizer/files.
#pragma once

#include <string>

#include "llm/config/model_config.h"
#include "llm/files/gguf_writer.h"
#include "llm/files/mapped_file.h"
#include "llm/weights/model_families.h"

namespace vesper {

// The sizes and choices of a model with one stack. `family` is the row that describes its GGUF
// files. Facts that GGUF has no key for are not written: configuration_difference() finds them.
void write_model_keys(const ModelConfig& model, const ModelFamily& family, GgufWriter& writer);

// What readers of text encoders need besides. `pooling_type`: llama.cpp's number; 0: none.
void write_encoder_keys(const ModelFamily& family, uint32_t n_token_types, uint32_t pooling_type,
                        GgufWriter& writer);

// The first fact in which two configurations of a model differ: "the attention scale is 0.1, and
// 0.125 in the converted file". Empty if they compute the same.
std::string configuration_difference(const ModelConfig& source, const ModelConfig& converted);

// The tokenizer of a folder, for a model with `n_vocab` tokens. Returns false, after writing that
// there is none, if the folder has no tokenizer. Throws Error(kModel) for one that GGUF cannot
// state.
bool write_tokenizer_keys(const ModelFiles& files, uint32_t n_vocab, GgufWriter& writer);

}  // namespace vesper
