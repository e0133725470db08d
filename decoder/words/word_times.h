// Word times: tokens become words, and their positions times. openai-whisper's timing.py, as
// functions over arrays.
//
// In: positions of tokens (decoder/words/whisper_aligner) and the window's segments. Out: words
// with times in those segments. Called by decoder/windows/window_decoder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/decoding_settings.h"
#include "decoder/transcript/transcript.h"

namespace vesper {

inline constexpr double kSecondsPerPosition = 0.02;  // of the encoder's output

// A word as spelled by some tokens.
struct TokenWord {
  std::string text;
  uint32_t n_tokens = 0;
};

// Whether the language (a code) is written without spaces between words.
bool is_written_without_spaces(std::string_view language);
// Joins tokens, given as bytes, to words. A word begins with a space or is punctuation; with
// by_character, it is a complete character.
std::vector<TokenWord> split_words(std::span<const std::string_view> tokens, bool by_character);

// A word of a window; times are from the start of the window.
struct WordTiming {
  std::string text;  // empty if merged into another word
  uint32_t n_tokens = 0;
  double start_s = 0, end_s = 0;
  double probability = 0;  // mean of its tokens
};

// `positions` are those of each token and of end of text, `probabilities` those of the tokens.
std::vector<WordTiming> time_words(const std::vector<TokenWord>& words,
                                   std::span<const uint32_t> positions,
                                   std::span<const float> probabilities);

// Joins separate punctuation to its word, whose times do not change.
void merge_punctuation(std::vector<WordTiming>& words, const Punctuation& punctuation);

// Assigns a window's words to its segments, shortens words that extend into silence, and moves the
// ends of segments to their first and last word. Text tokens are below `end_of_text`; the window
// starts at `offset_s`; the previous speech ended at `last_speech_s`.
void add_words(std::vector<Segment>& segments, std::vector<WordTiming> words, int32_t end_of_text,
               double offset_s, double last_speech_s, const Punctuation& punctuation);

// Splits words between their tokens, at complete characters. Parts share the time of the word in
// proportion to characters. `tokens` are the bytes of the words' tokens. A word that differs from
// its tokens is not split.
std::vector<Word> split_at_tokens(const std::vector<Word>& words,
                                  std::span<const std::string_view> tokens);

// The end of the last word, or without words of the last segment. `segments` is not empty.
double end_of_speech_s(const std::vector<Segment>& segments);

}  // namespace vesper
