#include "session/text/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string bytes_of(const TextTokenizer* tokenizer, int32_t id) {
  return tokenizer ? std::string(tokenizer->bytes_of(id)) : std::string();
}

OrderedJson openai_token(const TextTokenizer* tokenizer, int32_t id, float logprob) {
  const std::string text = bytes_of(tokenizer, id);
  OrderedJson bytes = OrderedJson::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", valid_utf8(text)}, {"id", id}, {"logprob", logprob}, {"bytes", bytes}};
}

}  // namespace

std::vector<std::pair<int32_t, float>> likeliest_tokens(std::span<const float> logits, uint32_t n) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(n, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<std::pair<int32_t, float>> likeliest;
  if (end == order.begin()) return likeliest;
  const double greatest = logits[static_cast<size_t>(order[0])];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  const double log_sum = std::log(sum) + greatest;
  for (auto id = order.begin(); id != end; ++id) {
    likeliest.emplace_back(*id, static_cast<float>(logits[static_cast<size_t>(*id)] - log_sum));
  }
  return likeliest;
}

OrderedJson token_json(const TextTokenizer* tokenizer, const TokenLogprob& token) {
  const auto object = [&](int32_t id, float logprob) {
    return OrderedJson{
        {"id", id}, {"text", valid_utf8(bytes_of(tokenizer, id))}, {"logprob", logprob}};
  };
  OrderedJson line = object(token.id, token.logprob);
  for (const auto& [id, logprob] : token.top) line["top"].push_back(object(id, logprob));
  return line;
}

OrderedJson openai_logprobs(const TextTokenizer* tokenizer, std::span<const TokenLogprob> tokens) {
  OrderedJson content = OrderedJson::array();
  for (const TokenLogprob& token : tokens) {
    OrderedJson entry = openai_token(tokenizer, token.id, token.logprob);
    OrderedJson& top = entry["top_logprobs"] = OrderedJson::array();
    for (const auto& [id, logprob] : token.top) {
      top.push_back(openai_token(tokenizer, id, logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

}  // namespace vesper
