// The files of a language model: tokenizer, chat template, sampling settings, and weights, which
// are not read yet. In: texts and conversations. Out: token ids for a TextRequest. Cheap to open,
// and thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/generation/sampling_defaults.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// How an instruction becomes a prompt.
struct InstructionFormat {
  std::optional<std::string> system = {};  // a message before it
  bool is_chat = true;                     // false: a text to continue
  bool thinks = true;                      // see TextModel::chat_ids
};

class TextModel {
 public:
  // `chat_template`: replaces the model's template. Throws Error(kModel).
  explicit TextModel(const std::filesystem::path& path, std::string_view chat_template = {});
  explicit TextModel(std::shared_ptr<const WeightProvider> weights,
                     std::string_view chat_template = {});

  // Null if the model has no readable tokenizer: then only token ids work.
  const TextTokenizer* tokenizer() const { return tokenizer_.get(); }
  // Throws Error(kModel) with the reason if there is none.
  const TextTokenizer& require_tokenizer() const;
  bool has_chat_template() const { return chat_template_.has_value(); }

  // A conversation up to the start of the model's next message. `thinks` false asks the template
  // for an answer without thinking, or with little (its variables enable_thinking and
  // reasoning_effort). Throws Error(kModel) without a template, Error(kInput) if the template
  // rejects the conversation.
  std::vector<int32_t> chat_ids(std::span<const ChatMessage> messages, bool thinks = true) const;
  // The same for messages as data: `variables` is an object with "messages" in the form of OpenAI's
  // API, and further variables of the template, such as "tools" and "enable_thinking".
  std::vector<int32_t> chat_ids(const nlohmann::ordered_json& variables) const;
  // Empty without a template.
  const std::string& chat_template_text() const { return chat_template_text_; }
  // A text to continue.
  std::vector<int32_t> text_ids(std::string_view text) const;
  // An instruction and the text that it is about, either of which may be empty: a message of a
  // chat. A text to continue if the model has no template and the format no system message. Throws
  // like chat_ids().
  std::vector<int32_t> instruction_ids(const std::string& instruction, const std::string& text,
                                       const InstructionFormat& format = {}) const;

  // Whether the prompt ends with the start of thinking, which some templates add.
  bool begins_thinking(std::span<const int32_t> prompt) const;
  // Whether it ends with the end of thinking: the answer is to begin without it.
  bool ends_thinking(std::span<const int32_t> prompt) const;
  // Whether the model writes messages on channels (session/text/channel_text.h).
  bool has_channels() const;
  // Whether the prompt ends with the start of such a message.
  bool begins_message(std::span<const int32_t> prompt) const;

  // The sampling settings of the model: of its files (llm/generation/sampling_defaults.h), or of a
  // known model with the same file name (session/models/known_models.h).
  const SamplingDefaults& sampling_defaults() const { return sampling_defaults_; }

  // Tokens of its logits, at least those of the tokenizer.
  uint32_t n_vocab() const { return weights_->config().n_vocab; }
  // The model's longest context in tokens.
  uint32_t max_ctx() const { return weights_->config().decoder().n_positions; }
  // The context for a prompt of `n_prompt` tokens and an answer of at most max_tokens, by default
  // 2048: rounded up to a multiple of 1024, at most max_ctx().
  uint32_t ctx_for(uint64_t n_prompt, std::optional<uint32_t> max_tokens) const;

  // As in the files.
  const std::shared_ptr<const WeightProvider>& weights() const { return weights_; }

 private:
  bool ends_with(std::span<const int32_t> prompt, std::string_view tag) const;
  const ChatTemplate& require_chat_template() const;
  std::vector<int32_t> ids_of_chat(const std::string& text) const;

  std::shared_ptr<const WeightProvider> weights_;
  std::unique_ptr<TextTokenizer> tokenizer_;
  std::exception_ptr tokenizer_error_;  // why there is no tokenizer
  std::string chat_template_text_;
  std::optional<ChatTemplate> chat_template_;
  SamplingDefaults sampling_defaults_;
};

}  // namespace vesper
