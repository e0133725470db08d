#include "serve/api/chat.h"

#include <algorithm>
#include <utility>

#include "serve/api/answer_options.h"
#include "serve/api/tools.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

// The text of a message: a text, or a list of parts of which all are texts.
std::string content_text(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw_field(path, "a text or a list of text parts", excerpt(content));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    RequestFields part(content[i], "ContentPart", path + "[" + std::to_string(i) + "].");
    part.require_choice("type");
    const Json& words = part.require("text", "a text");
    if (!words.is_string()) throw_field(part.path_of("text"), "a text", excerpt(words));
    part.check_all_used();
    text += (text.empty() ? "" : "\n") + words.get<std::string>();
  }
  return text;
}

// The messages in the form that chat templates expect.
Json read_messages(RequestFields& fields) {
  const Json& list = fields.require("messages", "a list of messages");
  if (!list.is_array() || list.empty()) {
    throw_field("messages", "a list of at least one message", excerpt(list));
  }
  Json messages = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    RequestFields message(list[i], "Message", "messages[" + std::to_string(i) + "].");
    const Json& role = message.require("role", "a text");
    if (!role.is_string()) throw_field(message.path_of("role"), "a text", excerpt(role));
    Json result = {{"role", role == "developer" ? Json("system") : role}};
    const Json* calls = message.find("tool_calls");
    const Json* content = message.find("content");
    if (content == nullptr && calls == nullptr) {
      throw_field(message.path_of("content"), "a text", "nothing");
    }
    result["content"] = content ? content_text(*content, message.path_of("content")) : "";
    if (calls) result["tool_calls"] = calls_for_template(*calls, message.path_of("tool_calls"));
    for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
      if (const auto text = message.text(name)) result[name] = *text;
    }
    // gpt-oss's template has another name for it, and refuses it beside a content.
    if (const auto thinking = result.find("reasoning_content");
        thinking != result.end() && result["content"] == "") {
      result["thinking"] = Json(*thinking);
    }
    for (const char* name : {"refusal", "audio", "annotations", "function_call"}) {
      message.allow_only(name);
    }
    message.check_all_used();
    messages.push_back(std::move(result));
  }
  return messages;
}

// The variables of the template besides the messages.
void read_template_variables(RequestFields& fields, Json& variables) {
  if (const auto effort = fields.choice("reasoning_effort")) {
    variables["enable_thinking"] = *effort != "none" && *effort != "minimal";
    variables["reasoning_effort"] = *effort;
  }
  const Json* further = fields.find("chat_template_kwargs");
  if (further == nullptr) return;
  if (!further->is_object()) throw_field("chat_template_kwargs", "an object", excerpt(*further));
  for (const auto& [name, value] : further->items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      throw_field("chat_template_kwargs", "other variables than those of the request", name);
    }
    variables[name] = value;
  }
}

Json tool_calls_json(const std::string& id, size_t choice, const std::vector<ToolCall>& calls,
                     bool with_index) {
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Json call = Json::object();
    if (with_index) call["index"] = i;
    call["id"] = "call_" + id + "_" + std::to_string(choice) + "_" + std::to_string(i);
    call["type"] = "function";
    call["function"] = {{"name", calls[i].name}, {"arguments", calls[i].arguments}};
    list.push_back(std::move(call));
  }
  return list;
}

// One chat completion while its answers are computed.
class ChatCompletion {
 public:
  ChatCompletion(const ApiRequest& request, std::string model, TextHost& host,
                 const AnswerRequest& asked, const Tools& tools)
      : request_(request), model_(std::move(model)), host_(host), asked_(asked), tools_(tools) {}

  void run() {
    const auto events = push_answers(request_, host_, asked_);
    choices_.resize(asked_.n_choices);
    size_t n_left = asked_.n_choices;
    wait_for_events(request_.exchange, *events, [&](AnswerEvent event) {
      if (auto* text = std::get_if<AnswerText>(&event)) {
        if (asked_.is_streamed) send_text(*text);
        return false;
      }
      if (auto* failed = std::get_if<JobFailed>(&event)) throw as_api_error(failed->error);
      auto& done = std::get<AnswerDone>(event);
      usage_.add(done.answer, n_left == asked_.n_choices);
      finish(done);
      return --n_left == 0;
    });
    if (asked_.is_streamed) {
      end_stream();
    } else {
      Json body = header("chat.completion");
      body["choices"] = std::move(choices_);
      body["usage"] = usage_.json();
      respond_json(request_.exchange, dump_json(body));
    }
  }

  bool has_begun() const { return has_begun_; }

 private:
  Json header(const char* object) const {
    return {{"id", "chatcmpl-" + request_.id},
            {"object", object},
            {"created", created_},
            {"model", model_}};
  }

  void send_chunk(size_t choice, Json delta, std::string_view reason = {}, Json logprobs = {}) {
    if (!std::exchange(has_begun_, true)) request_.exchange.begin_events();
    Json chunk = header("chat.completion.chunk");
    chunk["choices"] = Json::array({{{"index", choice},
                                     {"delta", std::move(delta)},
                                     {"logprobs", std::move(logprobs)},
                                     {"finish_reason", reason.empty() ? Json() : Json(reason)}}});
    if (asked_.has_usage_event) chunk["usage"] = nullptr;
    request_.exchange.send_event(dump_json(chunk));
  }

  void send_role(size_t choice) {
    Json& is_sent = choices_[choice];
    if (!is_sent.is_null()) return;
    is_sent = true;
    send_chunk(choice, {{"role", "assistant"}, {"content", ""}});
  }

  void send_text(const AnswerText& text) {
    // What a call is only shows at its end.
    if (!tools_.list.is_null()) return;
    send_role(text.choice);
    if (!text.thinking.empty()) send_chunk(text.choice, {{"reasoning_content", text.thinking}});
    if (!text.text.empty() || !text.tokens.empty()) {
      send_chunk(text.choice, {{"content", text.text}}, {}, logprobs(text.tokens));
    }
  }

  Json logprobs(std::span<const TokenLogprob> tokens) const {
    if (!asked_.has_logprobs) return nullptr;
    Json list = openai_logprobs(host_.model().tokenizer(), tokens);
    list["refusal"] = nullptr;
    return list;
  }

  void finish(AnswerDone& done) {
    TextAnswer& answer = done.answer;
    const std::vector<ToolCall> calls = parse_tool_calls(answer.text, tools_);
    const std::string_view reason = calls.empty() ? finish_reason(answer.end) : "tool_calls";
    const auto tokens = std::span(answer.tokens).first(answer.n_in_text);
    if (asked_.is_streamed) {
      send_role(done.choice);
      if (!tools_.list.is_null()) {
        if (!answer.thinking.empty()) {
          send_chunk(done.choice, {{"reasoning_content", answer.thinking}});
        }
        if (!answer.text.empty()) {
          send_chunk(done.choice, {{"content", answer.text}}, {}, logprobs(tokens));
        }
        if (!calls.empty()) {
          send_chunk(done.choice,
                     {{"tool_calls", tool_calls_json(request_.id, done.choice, calls, true)}});
        }
      }
      send_chunk(done.choice, Json::object(), reason);
      return;
    }
    Json message = {{"role", "assistant"},
                    {"content", calls.empty() || !answer.text.empty() ? Json(answer.text) : Json()},
                    {"refusal", nullptr}};
    if (!answer.thinking.empty()) message["reasoning_content"] = answer.thinking;
    if (!calls.empty()) {
      message["tool_calls"] = tool_calls_json(request_.id, done.choice, calls, false);
    }
    choices_[done.choice] = {{"index", done.choice},
                             {"message", std::move(message)},
                             {"logprobs", logprobs(tokens)},
                             {"finish_reason", reason}};
  }

  void end_stream() {
    if (asked_.has_usage_event) {
      Json chunk = header("chat.completion.chunk");
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_.json();
      request_.exchange.send_event(dump_json(chunk));
    }
    request_.exchange.send_event("[DONE]");
    request_.exchange.end_events();
  }

  const ApiRequest& request_;
  std::string model_;
  TextHost& host_;
  const AnswerRequest& asked_;
  const Tools& tools_;
  const int64_t created_ = unix_time();
  std::vector<Json> choices_;  // streamed: not null once the role is sent
  Usage usage_;
  bool has_begun_ = false;
};

}  // namespace

void chat_completions(const ApiRequest& request) {
  const Json body = parse_json(request.exchange.read_body(request.limits.max_json_bytes));
  RequestFields fields(body, "ChatRequest", "");
  const std::string model = fields.text("model").value_or("");
  TextHost& host = request.models.text(model);
  AnswerRequest asked;
  asked.options.thinking = Thinking::kSeparate;
  read_answer_options(fields, asked);
  if (const auto limit = fields.integer("max_completion_tokens")) {
    asked.options.max_tokens = static_cast<uint32_t>(*limit);
  }
  asked.has_logprobs = fields.boolean("logprobs").value_or(false);
  const auto n_top = fields.integer("top_logprobs");
  if (n_top && !asked.has_logprobs) throw_field("top_logprobs", "logprobs: true", "none");
  asked.options.top_logprobs = static_cast<uint32_t>(n_top.value_or(0));
  asked.options.grammar = read_response_format(fields);
  const Tools tools = read_tools(fields, host.model().chat_template_text());
  if (tools.grammar) {
    if (asked.options.grammar) {
      throw_field("response_format", "text with tools", "another form");
    }
    asked.options.grammar = tools.grammar;
  }
  Json variables = Json::object();
  variables["messages"] = read_messages(fields);
  if (!tools.list.is_null()) variables["tools"] = tools.list;
  read_template_variables(fields, variables);
  fields.allow_only("modalities");
  fields.check_all_used();
  asked.prompts.push_back(host.model().chat_ids(variables));
  ChatCompletion(request, host.hosted().name, host, asked, tools).run();
}

}  // namespace vesper
