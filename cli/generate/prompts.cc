#include "cli/generate/prompts.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/program.h"
#include "error/error.h"

namespace vesper {
namespace {

using nlohmann::json;

[[noreturn]] void fail_line(const std::string& expected) {
  throw Error(ErrorKind::kInput, "expected " + expected);
}

// Null if absent.
const json* member_of(const json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return found == value.end() ? nullptr : &*found;
}

}  // namespace

InstructionFormat instruction_format(const GenerateArguments& arguments) {
  return {arguments.system, !arguments.no_chat, !arguments.no_think};
}

PromptFile::PromptFile(const TextModel& model, const GenerateArguments& arguments)
    : model_(model),
      arguments_(arguments),
      is_json_(!arguments.input.ends_with(".txt")),
      lines_(arguments.input) {}

std::optional<FilePrompt> PromptFile::next() {
  std::string line;
  while (lines_.next(line)) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    FilePrompt prompt;
    prompt.max_tokens = arguments_.text.max_tokens;
    prompt.line_number = lines_.line_number();
    prompt.origin = lines_.origin();
    try {
      if (is_json_) {
        read(line, prompt);
      } else {
        prompt.ids = model_.instruction_ids(line, "", instruction_format(arguments_));
      }
    } catch (const Error& error) {
      // Errors of one prompt do not affect others.
      if (error.kind() != ErrorKind::kInput && error.kind() != ErrorKind::kModel) throw;
      const Failure failure = failure_of(error);
      prompt.error = failure.message;
      prompt.status = failure.status;
    }
    return prompt;
  }
  return std::nullopt;
}

void PromptFile::read(const std::string& line, FilePrompt& prompt) const {
  const json value = json::parse(line, nullptr, false);
  if (value.is_discarded()) fail_line("JSON");
  if (const json* n = member_of(value, "max_tokens")) {
    if (!n->is_number_unsigned() || *n == 0 || *n > UINT32_MAX) {
      fail_line("max_tokens to be a count");
    }
    prompt.max_tokens = n->get<uint32_t>();
  }
  prompt.ids = ids_of(value);
}

std::vector<int32_t> PromptFile::ids_of(const json& line) const {
  if (line.is_string())
    return model_.instruction_ids(line.get<std::string>(), "", instruction_format(arguments_));
  if (const json* text = member_of(line, "prompt"); text && text->is_string()) {
    return model_.instruction_ids(text->get<std::string>(), "", instruction_format(arguments_));
  }
  if (const json* list = member_of(line, "prompt_ids"); list && list->is_array()) {
    std::vector<int32_t> ids;
    for (const json& id : *list) {
      if (!id.is_number_unsigned() || id > INT32_MAX) fail_line("token ids in prompt_ids");
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }
  const json* list = member_of(line, "messages");
  if (!list || !list->is_array()) {
    fail_line("a text, or an object with prompt, prompt_ids or messages");
  }
  std::vector<ChatMessage> messages;
  const bool has_system = !list->empty() && list->front().is_object() &&
                          list->front().value("role", json()) == "system";
  if (arguments_.system && !has_system) messages.push_back({"system", *arguments_.system});
  for (const json& message : *list) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content") || !message["content"].is_string()) {
      fail_line("messages with role and content");
    }
    messages.push_back({message["role"], message["content"]});
  }
  return model_.chat_ids(messages, !arguments_.no_think);
}

}  // namespace vesper
