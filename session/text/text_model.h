// The files of a language model: its tokenizer, its chat template, and its weights, which are not
// read yet. In: texts and conversations. Out: the token ids that a TextRequest has as its prompt.
// Cheap to open, and safe to use from several threads at once.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class TextModel {
 public:
  // `chat_template`: the source of one that replaces the model's own. Throws Error(kModel).
  explicit TextModel(const std::filesystem::path& path, std::string_view chat_template = {});
  explicit TextModel(std::shared_ptr<const WeightProvider> weights,
                     std::string_view chat_template = {});

  // Null if the model has none that can be read: it takes and gives token ids only.
  const TextTokenizer* tokenizer() const { return tokenizer_.get(); }
  // Throws Error(kModel) saying why there is none.
  const TextTokenizer& require_tokenizer() const;
  bool has_chat_template() const { return chat_template_.has_value(); }

  // A conversation, up to where the model's next message begins. `thinks`: false asks the template
  // for an answer without thinking (its variable enable_thinking). Throws Error(kModel) without a
  // template, Error(kInput) if the template refuses the conversation.
  std::vector<int32_t> chat_ids(std::span<const ChatMessage> messages, bool thinks = true) const;
  // A text that is to be continued.
  std::vector<int32_t> text_ids(std::string_view text) const;

  // Whether a prompt ends where the model's thinking has begun: some templates begin it themselves.
  bool begins_thinking(std::span<const int32_t> prompt) const;

  // The longest context that the model is made for, in tokens.
  uint32_t max_ctx() const { return weights_->config().decoder().n_positions; }
  // A context for a prompt of so many tokens and its answer, which has at most max_tokens, or
  // usually no more than 2048: rounded up to a multiple of 1024, and at most max_ctx().
  uint32_t ctx_for(uint64_t n_prompt, std::optional<uint32_t> max_tokens) const;

  const WeightProvider& weights() const { return *weights_; }

 private:
  std::shared_ptr<const WeightProvider> weights_;
  std::unique_ptr<TextTokenizer> tokenizer_;
  std::exception_ptr tokenizer_error_;  // why there is no tokenizer
  std::optional<ChatTemplate> chat_template_;
};

}  // namespace vesper
