#include <utility>

#include "serve/api/answer_options.h"
#include "serve/api/chat.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

std::vector<std::vector<int32_t>> read_prompts(RequestFields& fields, const TextModel& model) {
  std::vector<std::vector<int32_t>> prompts;
  for (TextOrIds& prompt : read_texts(fields, "prompt", "prompts")) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      prompts.push_back(model.text_ids(*text));
    } else {
      prompts.push_back(std::get<std::vector<int32_t>>(std::move(prompt)));
    }
  }
  return prompts;
}

// The log-probabilities of a completion: lists by token. `offset`: where its text begins.
Json legacy_logprobs(const TextTokenizer& tokenizer, std::span<const TokenLogprob> tokens,
                     uint64_t& offset) {
  Json result = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
  for (const TokenLogprob& token : tokens) {
    const std::string text(tokenizer.bytes_of(token.id));
    result["tokens"].push_back(text);
    result["token_logprobs"].push_back(token.logprob);
    Json top = Json::object();
    for (const auto& [id, logprob] : token.top) top[std::string(tokenizer.bytes_of(id))] = logprob;
    result["top_logprobs"].push_back(std::move(top));
    result["text_offset"].push_back(offset);
    offset += text.size();
  }
  return result;
}

class Completion {
 public:
  Completion(const ApiRequest& request, TextHost& host, const AnswerRequest& asked)
      : request_(request), host_(host), asked_(asked) {}

  void run() {
    const auto events = push_answers(request_, host_, asked_);
    const size_t n_choices = asked_.prompts.size() * asked_.n_choices;
    choices_.resize(n_choices);
    offsets_.resize(n_choices);
    is_counted_.resize(asked_.prompts.size());
    size_t n_left = n_choices;
    wait_for_events(request_.exchange, *events, [&](AnswerEvent event) {
      if (auto* text = std::get_if<AnswerText>(&event)) {
        if (asked_.is_streamed) send(text->choice, text->text, text->tokens);
        return false;
      }
      if (auto* failed = std::get_if<JobFailed>(&event)) throw as_api_error(failed->error);
      finish(std::get<AnswerDone>(event));
      return --n_left == 0;
    });
    Json body = header();
    if (!asked_.is_streamed) {
      body["choices"] = std::move(choices_);
      body["usage"] = usage_.json();
      respond_json(request_.exchange, dump_json(body));
      return;
    }
    if (asked_.has_usage_event) {
      body["choices"] = Json::array();
      body["usage"] = usage_.json();
      request_.exchange.send_event(dump_json(body));
    }
    request_.exchange.send_event("[DONE]");
    request_.exchange.end_events();
  }

 private:
  Json header() const {
    return {{"id", "cmpl-" + request_.id},
            {"object", "text_completion"},
            {"created", created_},
            {"model", host_.hosted().name}};
  }

  Json choice_of(size_t choice, std::string_view text, std::span<const TokenLogprob> tokens,
                 std::string_view reason) {
    Json logprobs;
    if (asked_.has_logprobs) {
      logprobs = legacy_logprobs(host_.model().require_tokenizer(), tokens, offsets_[choice]);
    }
    return {{"text", text},
            {"index", choice},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", reason.empty() ? Json() : Json(reason)}};
  }

  void send(size_t choice, std::string_view text, std::span<const TokenLogprob> tokens,
            std::string_view reason = {}) {
    if (!std::exchange(has_begun_, true)) request_.exchange.begin_events();
    Json chunk = header();
    chunk["choices"] = Json::array({choice_of(choice, text, tokens, reason)});
    request_.exchange.send_event(dump_json(chunk));
  }

  void finish(const AnswerDone& done) {
    const TextAnswer& answer = done.answer;
    const size_t prompt = done.choice / asked_.n_choices;
    usage_.add(answer, !is_counted_[prompt]);
    is_counted_[prompt] = true;
    const std::string_view reason = finish_reason(answer.end);
    if (asked_.is_streamed) {
      send(done.choice, "", {}, reason);
    } else {
      choices_[done.choice] = choice_of(done.choice, answer.text,
                                        std::span(answer.tokens).first(answer.n_in_text), reason);
    }
  }

  const ApiRequest& request_;
  TextHost& host_;
  const AnswerRequest& asked_;
  const int64_t created_ = unix_time();
  std::vector<Json> choices_;
  std::vector<uint64_t> offsets_;  // bytes of text, by choice
  std::vector<bool> is_counted_;   // by prompt
  Usage usage_;
  bool has_begun_ = false;
};

}  // namespace

void completions(const ApiRequest& request) {
  const Json body = parse_json(request.exchange.read_body(request.limits.max_json_bytes));
  RequestFields fields(body, "CompletionRequest", "");
  TextHost& host = request.models.text(fields.text("model").value_or(""));
  AnswerRequest asked;
  asked.options.thinking = Thinking::kInText;
  read_answer_options(fields, asked);
  if (!asked.options.max_tokens) asked.options.max_tokens = 16;  // OpenAI's default
  if (const auto n_top = fields.integer("logprobs")) {
    asked.has_logprobs = true;
    asked.options.top_logprobs = static_cast<uint32_t>(*n_top);
  }
  fields.allow_only("echo");
  fields.allow_only("suffix");
  fields.allow_only("best_of", {asked.n_choices});
  asked.options.grammar = read_response_format(fields);
  asked.prompts = read_prompts(fields, host.model());
  fields.check_all_used();
  Completion(request, host, asked).run();
}

}  // namespace vesper
