// Functions that a model may call: "tools" and "tool_choice" of chat completions. The model's chat
// template tells the model of them; the calls are parsed from its answer, and a grammar holds their
// arguments to their schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/grammar/grammar_options.h"
#include "serve/api/request_fields.h"

namespace vesper {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

struct Tools {
  Json list = nullptr;  // for the template; null: none
  // The model must call a function: its whole answer is a call.
  bool is_required = false;
  std::optional<GrammarOptions> grammar = {};
};

// Reads "tools", "tool_choice" and "parallel_tool_calls". `chat_template`: that of the model.
// Throws ApiError, also if the model's template has no tools.
Tools read_tools(RequestFields& fields, std::string_view chat_template);

// The calls of an answer, which are removed from `text`. The forms: a JSON object with "name" and
// "arguments" (or "parameters", Llama's word) between <tool_call> and </tool_call> (Hermes, Qwen),
// after [TOOL_CALLS] in a list (Mistral up to v7), after <|python_tag|> or alone, several separated
// by semicolons (Llama 3); and NAME[ARGS]{...} after [TOOL_CALLS] (Mistral since v11). Marks that
// are control tokens are not part of an answer's text, so the forms count without them, too.
std::vector<ToolCall> parse_tool_calls(std::string& text, const Tools& tools);

// A call of an earlier answer or a list of them for the template: arguments as objects, because
// templates of Hugging Face expect them so, and OpenAI's API has JSON in a text.
Json calls_for_template(const Json& calls, const std::string& path);

}  // namespace vesper
