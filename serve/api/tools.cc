#include "serve/api/tools.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "decoder/transcript/text_lines.h"

namespace vesper {
namespace {

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";
constexpr std::string_view kMistral = "[TOOL_CALLS]", kPython = "<|python_tag|>";
constexpr std::string_view kArguments = "[ARGS]";

// A call as the model writes it: {"name": NAME, "arguments": {...}}. References of a function's
// parameters are to their own definitions, "#/$defs/...", which are moved to `root`.
Json call_schema(const Json& function, const std::string& arguments_name, Json& root) {
  Json arguments = {{"type", "object"}};
  if (const auto found = function.find("parameters");
      found != function.end() && found->is_object()) {
    arguments = *found;
  }
  for (const char* key : {"$defs", "definitions"}) {
    if (!arguments.contains(key) || !arguments[key].is_object()) continue;
    for (const auto& [name, definition] : arguments[key].items()) {
      Json& place = root[key][name];
      if (!place.is_null() && place != definition) {
        throw ApiError(400,
                       "tools: expected one definition of \"" + name.substr(0, 60) +
                           "\" in all functions, found two",
                       "tools");
      }
      place = definition;
    }
    arguments.erase(key);
  }
  return {{"type", "object"},
          {"properties", {{"name", {{"const", function["name"]}}}, {arguments_name, arguments}}},
          {"required", {"name", arguments_name}},
          {"additionalProperties", false}};
}

bool has_function(const Tools& tools, std::string_view name) {
  return std::ranges::any_of(tools.list,
                             [&](const Json& tool) { return tool["function"]["name"] == name; });
}

std::string arguments_text(const Json& arguments) {
  return arguments.is_string() ? arguments.get<std::string>() : arguments.dump();
}

// An object with the name and the arguments of a function.
std::optional<ToolCall> call_of(const Json& value, const Tools& tools) {
  if (!value.is_object()) return std::nullopt;
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string()) return std::nullopt;
  if (!has_function(tools, name->get<std::string>())) return std::nullopt;
  for (const char* key : {"arguments", "parameters"}) {
    const auto arguments = value.find(key);
    if (arguments == value.end()) continue;
    return ToolCall{name->get<std::string>(), arguments_text(*arguments)};
  }
  return ToolCall{name->get<std::string>(), "{}"};
}

// Removes `mark` from the beginning of `text`.
bool skip(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

// Removes what stands before arguments: NAME, NAME[ARGS] or NAME[CALL_ID]ID[ARGS]. Empty: no
// function of this name.
std::string take_name(std::string_view& text, const Tools& tools) {
  const std::string name(text.substr(0, text.find_first_of(" \t\r\n[{")));
  if (!has_function(tools, name)) return {};
  text.remove_prefix(name.size());
  if (text.starts_with("[CALL_ID]"))
    text.remove_prefix(std::min(text.find(kArguments), text.size()));
  skip(text, kArguments);
  return name;
}

// Removes a JSON value from the beginning of `text`. Discarded: there is none.
Json take_json(std::string_view& text) {
  std::istringstream stream{std::string(text)};
  try {
    Json value;
    stream >> value;
    text.remove_prefix(stream.eof() ? text.size() : static_cast<size_t>(stream.tellg()));
    return value;
  } catch (const Json::parse_error&) {
    return Json(Json::value_t::discarded);
  }
}

// The calls that a text consists of, one after another; empty if it has something else.
std::vector<ToolCall> calls_of(std::string_view text, const Tools& tools) {
  std::vector<ToolCall> calls;
  for (;;) {
    const size_t begin = text.find_first_not_of(" \t\r\n;");  // Llama separates calls by semicolons
    if (begin == std::string_view::npos) return calls;
    text.remove_prefix(begin);
    if (skip(text, kMistral) || skip(text, kPython)) continue;
    const std::string name = take_name(text, tools);
    const Json value = take_json(text);
    if (!name.empty()) {
      if (!value.is_object()) return {};
      calls.push_back({name, value.dump()});
      continue;
    }
    for (const Json& entry : value.is_array() ? value : Json::array({value})) {
      std::optional<ToolCall> call = call_of(entry, tools);
      if (!call) return {};
      calls.push_back(std::move(*call));
    }
  }
}

}  // namespace

Tools read_tools(RequestFields& fields, std::string_view chat_template) {
  Tools tools;
  fields.boolean("parallel_tool_calls");  // several calls are always possible
  const Json* list = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  if (list == nullptr || (list->is_array() && list->empty())) {
    if (choice != nullptr && *choice != "none" && *choice != "auto") {
      throw_field("tool_choice", "\"none\" or \"auto\" without tools", excerpt(*choice));
    }
    return tools;
  }
  if (!list->is_array()) throw_field("tools", "a list of functions", excerpt(*list));
  fields.check_size("tools", *list, "functions");
  std::set<std::string> names;
  Json chosen = Json::array();
  std::string wanted;
  if (choice != nullptr && choice->is_object()) {
    RequestFields inner(*choice, "ToolChoice", "tool_choice.");
    inner.require_choice("type");
    RequestFields function(inner.require("function", "an object"), "FunctionName",
                           "tool_choice.function.");
    const Json& name = function.require("name", "the name of a function");
    if (!name.is_string()) throw_field("tool_choice.function.name", "a text", excerpt(name));
    wanted = name.get<std::string>();
    function.check_all_used();
    inner.check_all_used();
  } else if (choice != nullptr && *choice != "none" && *choice != "auto" && *choice != "required") {
    throw_field("tool_choice", "\"none\", \"auto\", \"required\" or a function", excerpt(*choice));
  }
  size_t index = 0;
  for (const Json& tool : *list) {
    const std::string path = "tools[" + std::to_string(index++) + "].";
    RequestFields outer(tool, "Tool", path);
    outer.require_choice("type");
    const Json& function = outer.require("function", "an object");
    outer.check_all_used();
    RequestFields inner(function, "Function", path + "function.");
    const Json& name = inner.require("name", "a text");
    if (!name.is_string()) throw_field(path + "function.name", "a text", excerpt(name));
    if (!names.insert(name.get<std::string>()).second) {
      throw_field(path + "function.name", "different names", excerpt(name));
    }
    inner.text("description");
    inner.boolean("strict");
    if (const Json* parameters = inner.find("parameters"); parameters && !parameters->is_object()) {
      throw_field(path + "function.parameters", "a JSON schema", excerpt(*parameters));
    }
    inner.check_all_used();
    if (wanted.empty() || name == wanted) chosen.push_back(function);
  }
  if (chosen.empty()) {
    throw_field("tool_choice.function.name", "the name of one of the tools", "\"" + wanted + "\"");
  }
  if (choice != nullptr && *choice == "none") return tools;
  if (chat_template.find("tools") == std::string_view::npos) {
    throw ApiError(400, "tools: the chat template of this model has none", "tools");
  }
  tools.list = *list;
  tools.is_required = choice != nullptr && (*choice == "required" || !wanted.empty());
  const bool has_tags = chat_template.find(kBegin) != std::string_view::npos;
  // Llama's templates ask for "parameters".
  const bool has_parameters = !has_tags &&
                              chat_template.find("\"parameters\"") != std::string_view::npos &&
                              chat_template.find("\"arguments\"") == std::string_view::npos;
  Json schema = Json::object();
  for (const Json& function : chosen) {
    // Before the list is taken from `schema`, which gets the definitions.
    Json call = call_schema(function, has_parameters ? "parameters" : "arguments", schema);
    schema["anyOf"].push_back(std::move(call));
  }
  if (tools.is_required || has_tags) {
    tools.grammar = GrammarOptions{.notation = GrammarNotation::kJsonSchema, .text = schema.dump()};
    // A model that may also answer in words is held to the schema where it begins a call.
    if (!tools.is_required) tools.grammar->after = std::string(kBegin);
  }
  return tools;
}

std::vector<ToolCall> parse_tool_calls(std::string& text, const Tools& tools) {
  std::vector<ToolCall> calls;
  if (tools.list.is_null()) return calls;
  const auto add = [&](std::string_view json) {
    auto found = calls_of(json, tools);
    std::ranges::move(found, std::back_inserter(calls));
    return !found.empty();
  };
  std::string rest;
  for (size_t at = 0;;) {
    const size_t begin = text.find(kBegin, at);
    if (begin == std::string::npos) {
      rest += text.substr(at);
      break;
    }
    const size_t end = text.find(kEnd, begin);
    const size_t json = begin + kBegin.size();
    // A grammar ends the answer with the JSON, before the tag.
    const size_t n = end == std::string::npos ? std::string::npos : end - json;
    rest += text.substr(at, begin - at);
    if (!add(std::string_view(text).substr(json, n))) rest += text.substr(begin, n);
    if (end == std::string::npos) break;
    at = end + kEnd.size();
  }
  for (const std::string_view mark : {kMistral, kPython}) {
    const size_t begin = rest.find(mark);
    if (begin != std::string::npos && add(std::string_view(rest).substr(begin + mark.size()))) {
      rest.resize(begin);
    }
  }
  if (calls.empty() && add(trimmed(rest))) rest.clear();
  if (!calls.empty()) text = trimmed(rest);
  return calls;
}

Json calls_for_template(const Json& calls, const std::string& path) {
  if (!calls.is_array()) throw_field(path, "a list of calls", excerpt(calls));
  Json result = calls;
  for (size_t i = 0; i < result.size(); ++i) {
    Json& call = result[i];
    const std::string name = path + "[" + std::to_string(i) + "].function";
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object() ||
        !call["function"].contains("name")) {
      throw_field(name, "an object with a name", "something else");
    }
    Json& arguments = call["function"]["arguments"];
    if (!arguments.is_string()) continue;
    Json parsed = Json::parse(arguments.get<std::string>(), nullptr, false);
    if (parsed.is_object()) arguments = std::move(parsed);
  }
  return result;
}

}  // namespace vesper
