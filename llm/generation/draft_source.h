// Where drafted tokens come from. In: the tokens of texts. Out: guesses of the tokens that follow.
// A guess may be wrong: it changes how soon an answer comes, never the answer. Used by
// llm/generation/speculation; ngram_drafts.h and model_drafts.h are the sources.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "llm/generation/decoding_loop.h"

namespace vesper {

// Rows of a pass over drafts: one per running slot and one per drafted token. Up to this number,
// the CPU's kernels compute a row as in a pass of one, to the last bit.
inline constexpr uint32_t kMostDraftedRows = 12;

// Classes of guessed tokens: those of a higher one are more often accepted.
inline constexpr uint32_t kGuessClasses = 5;

// The tokens that may follow the text of a slot.
struct Guess {
  uint32_t slot = 0;
  std::span<const int32_t> text = {};  // its tokens, at least one
  uint32_t most = 0;                   // tokens that may be guessed, below kMostDraftedRows
  bool is_complete = false;            // the source guesses no further tokens
  uint32_t n = 0;                      // guessed tokens
  // The last token of the text, then the guessed ones.
  std::array<int32_t, kMostDraftedRows> tokens{};
  std::array<uint8_t, kMostDraftedRows> classes{};  // [n], of the guessed tokens
  // Of DraftPlanner: the tokens that the next pass should run. Above n: the guess is too short.
  uint32_t n_drafted = 0;

  void add(int32_t token, uint32_t token_class) {
    classes[n++] = static_cast<uint8_t>(token_class);
    tokens[n] = token;
    is_complete |= n == most;
  }
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // For texts of up to n_ctx tokens in n_slots slots.
  virtual void prepare(uint32_t n_slots, uint32_t n_ctx) = 0;
  // The probability of each class that a token is accepted, before any is known.
  virtual std::array<double, kGuessClasses> first_acceptance() const = 0;
  // A text with these settings starts in a slot, after this prompt. May take as long as the prompt
  // took; ends early if `is_cancelled`, which may be empty, returns true.
  virtual void start(uint32_t slot, std::span<const int32_t> prompt, const Sampling& sampling,
                     std::span<const TokenBias> bias,
                     const std::function<bool()>& is_cancelled) = 0;
  // Begins a guess with the tokens that cost next to nothing, if there are any.
  virtual void begin(Guess& guess) = 0;
  // Adds a token to each of these guesses, or completes it.
  virtual void extend(std::span<Guess* const> guesses) = 0;
};

}  // namespace vesper
