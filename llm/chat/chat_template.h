// Chat templates: format the messages of a conversation as the model was trained to see them.
//
// The template is the model's own, in Jinja as Hugging Face's transformers run it (trim_blocks and
// lstrip_blocks). Debian 12 has no Jinja library for C++, so the parts that such templates use are
// here. Called by the sessions and `generate`.
//
//   template_lexer -> template_expressions, template_parser -> template_evaluator and its functions
//
// Templates are untrusted: their time and memory are limited (see Evaluator).
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
  std::string role;  // "system", "user", "assistant", or another role of the template
  std::string content;
};

class ChatTemplate {
 public:
  // Throws Error(kModel) naming the template line that cannot be parsed.
  explicit ChatTemplate(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `variables` is a JSON object with the variables of the template: messages,
  // add_generation_prompt, bos_token, eos_token, tools and others. `now` is the time for
  // strftime_now(), by default the current time. Throws Error(kModel) naming the line, or
  // Error(kInput) if the template rejects the conversation (raise_exception). Thread-safe.
  std::string render(const nlohmann::ordered_json& variables,
                     std::optional<std::time_t> now = std::nullopt) const;

  // The same for text messages. `tokenizer` has bos_token and eos_token; may be null. `extra` has
  // further variables, such as tools or enable_thinking; an object or null.
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                     const TextTokenizer* tokenizer, const nlohmann::ordered_json& extra) const;
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                     const TextTokenizer* tokenizer = nullptr) const;
  // A conversation up to the start of the model's answer. `thinks` false asks for an answer without
  // thinking (the variable enable_thinking), or with little (reasoning_effort, of gpt-oss).
  std::string render_prompt(std::span<const ChatMessage> messages, bool thinks,
                            const TextTokenizer* tokenizer) const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

// Throws the Error(kModel) about a model without a template. `name`: its file.
[[noreturn]] void throw_no_chat_template(const std::string& name);

// The source of a model's template, from GGUF metadata or from the files beside its weights
// (chat_template.jinja, chat_template.json, tokenizer_config.json). Empty if it has none.
std::optional<std::string> chat_template_source(const WeightProvider& weights);

}  // namespace vesper
