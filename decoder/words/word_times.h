// When each word was said: what the decoder looked at while it wrote a window's tokens becomes
// times, and tokens become words. openai-whisper's timing.py, as functions over arrays.
//
// In come the weights of the cross-attention (decoder/words/whisper_aligner) and the window's
// segments; out go words with times in those segments. Called by decoder/transcriber.
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

// The weights of some heads for the rows of one pass; row r of head h starts at
// data[h * head_stride + r * row_stride].
struct HeadWeights {
  float* data = nullptr;
  size_t head_stride = 0, row_stride = 0;
  uint32_t n_heads = 0, n_rows = 0, n_positions = 0;
};

// Gives every position of a head mean 0 and standard deviation 1 over the head's rows (0 where
// there is no deviation).
void standardize_over_rows(const HeadWeights& weights);
// out[i] = the median of in[i - 3 .. i + 3], mirrored at both ends; as it is if n is below 4.
void median_filter_7(std::span<const float> in, float* out);
// Dynamic time warping: of all ways through matrix [n_rows, n_positions] from the first row and
// position to the last that go on by one row, one position or both at a time, the one with the
// greatest sum; returns the position at which it enters each row. Sizes are above 0.
std::vector<uint32_t> first_positions(std::span<const float> matrix, uint32_t n_rows,
                                      uint32_t n_positions);
// All three: of the weights (which change) of all rows, the positions of rows
// [first_row, first_row + n_rows).
std::vector<uint32_t> align_rows(const HeadWeights& weights, uint32_t first_row, uint32_t n_rows);

// A word as some tokens spell it.
struct TokenWord {
  std::string text;
  uint32_t n_tokens = 0;
};

// Whether words are not told apart by spaces in that language (a code).
bool is_written_without_spaces(std::string_view language);
// Joins tokens, each given as its bytes, to words: one begins with a space, or is punctuation;
// by_character: wherever characters are whole.
std::vector<TokenWord> split_words(std::span<const std::string_view> tokens, bool by_character);

// A word of a window; times from the window's start.
struct WordTiming {
  std::string text;  // empty where another word took it over
  uint32_t n_tokens = 0;
  double start_s = 0, end_s = 0;
  double probability = 0;  // mean over its tokens
};

// `positions` are those of each token and of end of text after them, `probabilities` those of the
// tokens.
std::vector<WordTiming> time_words(const std::vector<TokenWord>& words,
                                   std::span<const uint32_t> positions,
                                   std::span<const float> probabilities);

// Punctuation that stands alone joins the word that it belongs to, whose times stay.
void merge_punctuation(std::vector<WordTiming>& words, const Punctuation& punctuation);

// Gives a window's words to its segments, shortens those that reach into silence, and moves the
// segments' ends to their first and last word. `end_of_text`: text tokens are below it;
// `offset_s`: where the window starts; `last_speech_s`: where speech before it ended.
void add_words(std::vector<Segment>& segments, std::vector<WordTiming> words, int32_t end_of_text,
               double offset_s, double last_speech_s, const Punctuation& punctuation);

// The words cut between their tokens, where characters are whole; each part has its share of its
// word's time, by characters. `tokens` are the bytes of those that the words are of. A word that
// they do not spell stays as it is.
std::vector<Word> split_at_tokens(const std::vector<Word>& words,
                                  std::span<const std::string_view> tokens);

// The end of the last word; of the last segment if there are no words. `segments` is not empty.
double end_of_speech_s(const std::vector<Segment>& segments);

}  // namespace vesper
