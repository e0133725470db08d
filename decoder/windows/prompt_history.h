// What each window is prompted with: what was said before it, and what the user expects to be said.
// As openai-whisper's transcribe.py and decoding.py do it; hotwords as faster-whisper does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoder/decoding_settings.h"
#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {

class PromptHistory {
 public:
  // Of a recording that nothing has been said of yet. `n_text_ctx` is the decoder's context, half
  // of which a prompt may take.
  PromptHistory(const DecodingSettings& settings, const Tokenizer& tokenizer,
                const WhisperTokens& tokens, uint32_t n_text_ctx);

  // The tokens before the start of transcript of the next window, none if there is nothing to say.
  std::vector<int32_t> before_next() const;

  void add(std::span<const int32_t> said) { said_.insert(said_.end(), said.begin(), said.end()); }
  // Later windows are not prompted with what was said up to now.
  void forget() { first_remembered_ = said_.size(); }

  bool operator==(const PromptHistory&) const = default;

 private:
  int32_t start_of_previous_;
  size_t limit_;  // of the tokens after that one
  bool carry_initial_;
  std::vector<int32_t> hotwords_;
  std::vector<int32_t> said_;  // the initial prompt first
  size_t n_initial_;
  size_t first_remembered_ = 0;
};

// The tokens of a text that follows others: its blanks at both ends become one before it. None for
// a blank text.
std::vector<int32_t> tokens_of_phrase(const Tokenizer& tokenizer, const std::string& text);
// Without the blanks at both ends.
std::string trimmed(const std::string& text);

}  // namespace vesper
