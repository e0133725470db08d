// Chat templates: in come the messages of a conversation, out goes the text that the model was
// trained to see them as. The template is the model's own, in the language that Hugging Face's
// transformers run (Jinja, with trim_blocks and lstrip_blocks); no package of Debian 12 has a Jinja
// for C++, so what such templates use of it is here. `generate` and `serve` call it.
//
//   template_lexer -> template_expressions, template_parser -> template_evaluator and what it calls
//
// A template comes from a file that nobody has read: what it may cost is bounded (see Evaluator).
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vesper {

class TextTokenizer;
class WeightProvider;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", or what else the template knows
  std::string content;
};

class ChatTemplate {
 public:
  // Throws Error(kModel) naming the line of the template that cannot be read.
  explicit ChatTemplate(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `variables`: a JSON object with all that the template may name: messages,
  // add_generation_prompt, bos_token, eos_token, tools and others. `now`: the time that
  // strftime_now() tells, of the clock if absent. Throws Error(kModel) naming the line, or
  // Error(kInput) where the template itself refuses the conversation (raise_exception).
  // Safe to call from several threads at once.
  std::string render(const nlohmann::ordered_json& variables,
                     std::optional<std::time_t> now = std::nullopt) const;

  // The same for messages of text. `tokenizer`: whose bos_token and eos_token it is told; may be
  // null. `extra`: further variables, such as tools or enable_thinking; an object or null.
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                     const TextTokenizer* tokenizer, const nlohmann::ordered_json& extra) const;
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                     const TextTokenizer* tokenizer = nullptr) const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

// The source of a model's template: from GGUF metadata, or from the files beside its weights
// (chat_template.jinja, chat_template.json, tokenizer_config.json). Absent if it has none.
std::optional<std::string> chat_template_source(const WeightProvider& weights);

}  // namespace vesper
