// The prompt of each window: previous text, and the user's prompt. As in openai-whisper's
// transcribe.py and decoding.py; hotwords as in faster-whisper.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoder/decoding_settings.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {

class PromptHistory {
 public:
  // For the start of a recording. `n_text_ctx` is the decoder's context; a prompt has at most half
  // of it.
  PromptHistory(const DecodingSettings& settings, const TextTokenizer& tokenizer,
                const WhisperTokens& tokens, uint32_t n_text_ctx);

  // The tokens before the start of transcript of the next window; may be empty.
  std::vector<int32_t> before_next() const;

  void add(std::span<const int32_t> said) { said_.insert(said_.end(), said.begin(), said.end()); }
  // Removes all previous text from later prompts.
  void forget() { first_remembered_ = said_.size(); }

  bool operator==(const PromptHistory&) const = default;

 private:
  int32_t start_of_previous_;
  size_t limit_;  // of the following tokens
  bool carry_initial_;
  std::vector<int32_t> hotwords_;
  std::vector<int32_t> said_;  // the initial prompt first
  size_t n_initial_;
  size_t first_remembered_ = 0;
};

// The tokens of a text within a prompt: outer blanks become one leading blank. Empty for a blank
// text.
std::vector<int32_t> tokens_of_phrase(const TextTokenizer& tokenizer, const std::string& text);

}  // namespace vesper
