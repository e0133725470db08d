#include "llm/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/chat/template_evaluator.h"
#include "llm/chat/template_syntax.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

struct ChatTemplate::Program {
  chat::Block block;
};

namespace {

// Adds "chat template: " to an error of the template.
[[noreturn]] void rethrow(const Error& error) {
  const std::string place = error.kind() == ErrorKind::kModel ? "chat template: " : "";
  throw Error(error.kind(), place + error.what());
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source) {
  try {
    program_.reset(new Program{chat::parse_template(source)});
  } catch (const Error& error) {
    rethrow(error);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& variables,
                                 std::optional<std::time_t> now) const {
  try {
    chat::Evaluator evaluator(now.value_or(std::time(nullptr)));
    if (!variables.is_object())
      throw Error(ErrorKind::kInternal, "expected variables in a JSON object");
    for (const auto& [name, value] : variables.items()) {
      evaluator.set_global(name, chat::value_of(value));
    }
    return evaluator.run(program_->block);
  } catch (const Error& error) {
    rethrow(error);
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                 const TextTokenizer* tokenizer,
                                 const nlohmann::ordered_json& extra) const {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  variables["messages"] = std::move(list);
  variables["add_generation_prompt"] = add_generation_prompt;
  if (tokenizer != nullptr) {
    if (tokenizer->bos() >= 0) variables["bos_token"] = tokenizer->spelling_of(tokenizer->bos());
    if (tokenizer->eos() >= 0) variables["eos_token"] = tokenizer->spelling_of(tokenizer->eos());
  }
  // Templates test whether these are none.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  if (extra.is_object()) variables.update(extra);
  return render(variables);
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                 const TextTokenizer* tokenizer) const {
  return render(messages, add_generation_prompt, tokenizer, nlohmann::ordered_json());
}

std::string ChatTemplate::render_prompt(std::span<const ChatMessage> messages, bool thinks,
                                        const TextTokenizer* tokenizer) const {
  nlohmann::ordered_json extra;
  if (!thinks) extra = {{"enable_thinking", false}, {"reasoning_effort", "low"}};
  return render(messages, true, tokenizer, extra);
}

void throw_no_chat_template(const std::string& name) {
  throw Error(ErrorKind::kModel, "chat template",
              "expected one, found none in " + name + ": this model only continues texts");
}

}  // namespace vesper
