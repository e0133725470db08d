// What one sequence must write: a text of a grammar, at once or after other text. In: a matcher and
// where its text begins. Out: bit masks of allowed tokens, and tokens that need no model. Used by
// decoding_loop, which copies one for every sequence.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llm/grammar/matching/grammar_matcher.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Where the text of a grammar begins in an answer.
struct GrammarStart {
  // After this text, such as "</think>", and white space of up to two tokens. Empty: at once. The
  // answer does not end before. What the last token of this text adds to it is free text too, as
  // far as the grammar does not begin with it.
  std::string after;
  // At once as well, unless the first token is this one, such as <think>. -1: only after `after`.
  int32_t opening = -1;
};

class GrammarConstraint {
 public:
  // `tokenizer` must outlive this object. Null: no text is forced and none is before the grammar's.
  explicit GrammarConstraint(GrammarMatcher matcher, const TextTokenizer* tokenizer = nullptr,
                             GrammarStart start = {});

  // Whisper: tokens from this id on are timestamps, outside of the text: allowed at its begin and
  // where it may end.
  void set_timestamp_begin(int32_t id) { timestamp_begin_ = id; }

  // Sets the bits of the tokens that may follow, and clears the others. `allowed`: u32 words, at
  // least those of the vocabulary; bits beyond it are cleared. False if no token may follow.
  // Allocates nothing once the grammar's masks are cached.
  bool fill_mask(std::span<uint32_t> allowed);
  // Moves past a sampled token. False if it is not allowed.
  bool accept(int32_t token);
  // Only the end may follow. With timestamps, the model ends the text.
  bool is_complete() const {
    return part_ == Part::kGrammar && timestamp_begin_ == INT32_MAX && matcher_.is_complete();
  }

  // Moves past text that the grammar demands, and returns its tokens: those that the tokenizer
  // makes of the whole text, whatever follows it, up to `most`. Empty if these are fewer than two.
  std::vector<int32_t> take_forced(size_t most);

 private:
  enum class Part {
    kOpening,  // the first token decides
    kFree,     // before GrammarStart::after
    kSpace,    // white space may follow it
    kGrammar,
  };

  void allow_space(std::span<uint32_t> allowed) const;
  void leave_free_text(std::string_view rest);
  // Whether no token spells text on both sides of `at`, whatever follows the text.
  bool is_boundary(std::string_view text, size_t at) const;

  GrammarMatcher matcher_;
  const TextTokenizer* tokenizer_;
  GrammarStart start_;
  Part part_ = Part::kGrammar;
  uint32_t n_space_ = 0;     // tokens of white space that may follow
  std::string free_ending_;  // of the free text, shorter than start_.after
  int32_t timestamp_begin_ = INT32_MAX;
  bool has_begun_ = false;  // the grammar's text
  // Tokens before a forced text in which the tokenizer's view of it begins.
  static constexpr size_t kTokensBeforeForced = 32;
  std::array<int32_t, kTokensBeforeForced> written_{};  // last tokens of the grammar's text
  size_t n_written_ = 0;
};

}  // namespace vesper
