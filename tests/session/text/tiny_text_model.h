// A tiny random language model with a vocabulary of letters.
#pragma once

#include <filesystem>

namespace vesper {

// config.json and model.safetensors; the folder is created.
void write_tiny_text_weights(const std::filesystem::path& folder);

// tokenizer.json and tokenizer_config.json: ids 0 and 1 are special, <end> and <user>, 2 and 3 are
// the tags of thinking, 4 is a space, then letters. `begins`: every text begins with <user>.
void write_letter_tokenizer(const std::filesystem::path& folder, bool has_template = true,
                            bool begins = false);

}  // namespace vesper
