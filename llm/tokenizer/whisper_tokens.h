// Whisper's special tokens, languages and suppressed tokens. All follow from the size of the
// vocabulary and the published reference (openai-whisper, whisper/tokenizer.py).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

struct WhisperLanguage {
  const char* code;  // "en", "haw"
  const char* name;  // in English, lower case: "english", "haitian creole"
};

// In token order. Only large-v3 and its variants have the last one, Cantonese.
std::span<const WhisperLanguage> whisper_languages();

// The index in whisper_languages() of a code, a name or an alias ("castilian", "mandarin"), in any
// case; nullopt if there is none.
std::optional<uint32_t> find_whisper_language(std::string_view name);

// Special tokens by id. Text tokens are those below `eot`.
struct WhisperTokens {
  uint32_t n_vocab = 0;
  bool is_multilingual = false;
  int32_t eot = 0;             // end of text; also the number of text tokens
  int32_t sot = 0;             // start of transcript
  int32_t first_language = 0;  // the others follow in the order of whisper_languages()
  uint32_t n_languages = 0;    // 99 or 100; unused in English-only models
  int32_t translate = 0, transcribe = 0;
  int32_t solm = 0;  // start of a language model's text, never used
  int32_t prev = 0;  // before previous text
  int32_t nospeech = 0;
  int32_t notimestamps = 0;
  int32_t timestamp_begin = 0;   // 0.00 s; each next one is 0.02 s later
  uint32_t n_timestamps = 1501;  // up to 30.00 s

  // Throws Error(kModel) if no Whisper model has a vocabulary of this size.
  static WhisperTokens of_vocabulary_size(uint32_t n_vocab);

  // The token of a language by its index in whisper_languages() or its name; nullopt if the model
  // does not have it.
  std::optional<int32_t> language_token(uint32_t index) const;
  std::optional<int32_t> language_token(std::string_view name) const;
  // The language of a token, or null.
  const WhisperLanguage* language_of(int32_t token) const;

  bool is_timestamp(int32_t token) const { return token >= timestamp_begin; }
  // Seconds from the start of the window.
  double seconds_of(int32_t timestamp) const { return 0.02 * (timestamp - timestamp_begin); }

  // Always suppressed: translate, transcribe, sot, solm, prev, nospeech.
  std::array<int32_t, 6> suppressed_special() const;
};

// Whisper's tokenizer, byte-level BPE with token ids as ranks. `vocabulary`: raw bytes by token id.
// encode() never returns ids from `n_text_tokens` on, which are special; their bytes and spellings
// are the vocabulary's. Throws Error(kModel) if one of the 256 bytes has no token.
std::unique_ptr<const TextTokenizer> whisper_tokenizer(std::vector<std::string> vocabulary,
                                                       uint32_t n_text_tokens);

// Tokens for non-speech text: brackets, music notes and other signs, ascending. The reference
// suppresses them, and suppressed_special(), if a file has no list.
std::vector<int32_t> non_speech_tokens(const TextTokenizer& tokenizer);

}  // namespace vesper
