#include "decoder/windows/prompt_history.h"

#include <algorithm>

#include "decoder/transcript/text_lines.h"

namespace vesper {

std::vector<int32_t> tokens_of_phrase(const TextTokenizer& tokenizer, const std::string& text) {
  const std::string phrase = trimmed(text);
  return phrase.empty() ? std::vector<int32_t>{} : tokenizer.encode(" " + phrase, false, false);
}

PromptHistory::PromptHistory(const DecodingSettings& settings, const TextTokenizer& tokenizer,
                             const WhisperTokens& tokens, uint32_t n_text_ctx)
    : start_of_previous_(tokens.prev),
      limit_(n_text_ctx / 2 - 1),
      carry_initial_(settings.carry_initial_prompt),
      hotwords_(tokens_of_phrase(tokenizer, settings.hotwords)),
      said_(tokens_of_phrase(tokenizer, settings.initial_prompt)),
      n_initial_(said_.size()) {
  if (hotwords_.size() > limit_) hotwords_.resize(limit_);
}

std::vector<int32_t> PromptHistory::before_next() const {
  std::vector<int32_t> prompt{start_of_previous_};
  prompt.insert(prompt.end(), hotwords_.begin(), hotwords_.end());
  size_t room = limit_ - hotwords_.size();
  size_t first = first_remembered_;
  if (carry_initial_) {
    const size_t n = std::min(n_initial_, room);
    prompt.insert(prompt.end(), said_.begin(), said_.begin() + static_cast<std::ptrdiff_t>(n));
    room -= n;
    first = std::max(first, n_initial_);
  }
  const size_t n = std::min(said_.size() - first, room);
  prompt.insert(prompt.end(), said_.end() - static_cast<std::ptrdiff_t>(n), said_.end());
  if (prompt.size() == 1) prompt.clear();
  return prompt;
}

}  // namespace vesper
