#include "serve/api/answer_options.h"

#include <algorithm>
#include <charconv>

namespace vesper {
namespace {

std::vector<std::string> read_stops(RequestFields& fields) {
  const Json* value = fields.find("stop");
  if (value == nullptr) return {};
  const char* expected = "a text or a list of texts";
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) throw_field("stop", expected, excerpt(*value));
  fields.check_size("stop", *value, "texts");
  std::vector<std::string> stops;
  for (const Json& stop : *value) {
    if (!stop.is_string()) throw_field("stop", expected, excerpt(stop));
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

// {"TOKEN ID": BIAS}
std::vector<std::pair<int32_t, float>> read_bias(RequestFields& fields) {
  std::vector<std::pair<int32_t, float>> list;
  const Json* value = fields.find("logit_bias");
  if (value == nullptr) return list;
  if (!value->is_object()) throw_field("logit_bias", "an object", excerpt(*value));
  fields.check_size("logit_bias", *value, "tokens");
  const Json& range = fields.keyword("logit_bias", "additionalProperties");
  const Json &low = range.at("minimum"), &high = range.at("maximum");
  for (const auto& [name, bias] : value->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0) {
      throw_field("logit_bias", "token ids", "\"" + name.substr(0, 40) + "\"");
    }
    if (!bias.is_number() || bias < low || bias > high) {
      throw_field("logit_bias", "numbers from " + low.dump() + " to " + high.dump(), excerpt(bias));
    }
    list.emplace_back(id, bias.get<float>());
  }
  return list;
}

template <class To, class From>
void take(std::optional<To>& to, const std::optional<From>& from) {
  if (from) to = static_cast<To>(*from);
}

}  // namespace

void read_answer_options(RequestFields& fields, AnswerRequest& request) {
  TextOptions& options = request.options;
  SamplingOptions& sampling = options.sampling;
  take(sampling.temperature, fields.number("temperature"));
  take(sampling.top_p, fields.number("top_p"));
  take(sampling.frequency_penalty, fields.number("frequency_penalty"));
  take(sampling.presence_penalty, fields.number("presence_penalty"));
  // OpenAI's API has no further ones; these names are llama.cpp's.
  take(sampling.top_k, fields.integer("top_k"));
  take(sampling.min_p, fields.number("min_p"));
  take(sampling.typical_p, fields.number("typical_p"));
  take(sampling.repetition_penalty, fields.number("repeat_penalty"));
  if (const auto seed = fields.integer("seed")) {
    sampling.seed = static_cast<uint32_t>(*seed ^ (*seed >> 32));
  }
  take(options.max_tokens, fields.integer("max_tokens"));
  options.stops = read_stops(fields);
  options.logit_bias = read_bias(fields);
  if (const auto ignore = fields.boolean("ignore_eos")) options.ignore_end = *ignore;
  request.n_choices = static_cast<uint32_t>(fields.integer("n").value_or(1));
  request.is_streamed = fields.boolean("stream").value_or(false);
  if (const Json* stream_options = fields.find("stream_options")) {
    RequestFields inner(*stream_options, "StreamOptions", "stream_options.");
    request.has_usage_event = inner.boolean("include_usage").value_or(false);
    inner.allow_only("include_obfuscation");
    inner.check_all_used();
    if (!request.is_streamed) throw_field("stream_options", "nothing without stream", "an object");
  }
  // They describe the request to a service, and change no answer.
  for (const char* name :
       {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}) {
    fields.ignore(name);
  }
  fields.allow_only("store");
  fields.allow_only("service_tier");
}

std::optional<GrammarOptions> read_response_format(RequestFields& fields) {
  const Json* value = fields.find("response_format");
  if (value == nullptr) return std::nullopt;
  RequestFields format(*value, "ResponseFormat", "response_format.");
  const std::string type = format.require_choice("type");
  const Json* named = format.find("json_schema");
  std::optional<GrammarOptions> grammar;
  if (type == "json_object") {
    grammar = GrammarOptions{.notation = GrammarNotation::kJson};
  } else if (type == "json_schema") {
    if (named == nullptr) throw_field("response_format.json_schema", "an object", "nothing");
    RequestFields inner(*named, "NamedSchema", "response_format.json_schema.");
    const Json& schema = inner.require("schema", "a JSON schema");
    grammar = GrammarOptions{.notation = GrammarNotation::kJsonSchema, .text = schema.dump()};
    for (const char* name : {"name", "description", "strict"}) inner.ignore(name);
    inner.check_all_used();
  }
  format.check_all_used();
  return grammar;
}

std::string_view finish_reason(AnswerEnd end) {
  return end == AnswerEnd::kLimit || end == AnswerEnd::kContext ? "length" : "stop";
}

std::shared_ptr<EventQueue<AnswerEvent>> push_answers(const ApiRequest& request, TextHost& host,
                                                      const AnswerRequest& asked) {
  auto events = std::make_shared<EventQueue<AnswerEvent>>();
  size_t choice = 0;
  for (const std::vector<int32_t>& prompt : asked.prompts) {
    if (prompt.size() >= host.context()) {
      throw ApiError(400,
                     "expected a prompt of less than " + std::to_string(host.context()) +
                         " tokens, found " + std::to_string(prompt.size()),
                     "messages", "context_length_exceeded");
    }
    for (uint32_t i = 0; i < asked.n_choices; ++i, ++choice) {
      TextRequest one{prompt, asked.options};
      std::optional<uint32_t>& seed = one.options.sampling.seed;
      if (seed) seed = seed_of_prompt(*seed, choice);
      if (!host.push(request.client, std::move(one), choice, asked.has_logprobs, events)) {
        events->is_cancelled = true;  // those that are queued already
        throw_busy(request.exchange);
      }
    }
  }
  return events;
}

void Usage::add(const TextAnswer& answer, bool is_first_of_prompt) {
  if (is_first_of_prompt) {
    n_prompt += answer.statistics.n_prompt;
    n_cached += answer.statistics.n_reused;
  }
  n_answer += answer.statistics.n_answer;
}

Json Usage::json() const {
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_answer},
          {"total_tokens", n_prompt + n_answer},
          {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

}  // namespace vesper
