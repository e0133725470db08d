#include "serve/api/tokens.h"

#include <vector>

#include "serve/api/request_fields.h"
#include "serve/models/model_registry.h"

namespace vesper {

void tokenize(const ApiRequest& request) {
  const Json body = parse_json(request.exchange.read_body(request.limits.max_json_bytes));
  RequestFields fields(body, "TokenizeRequest", "");
  const TextHost& host = request.models.text(fields.text("model").value_or(""));
  const auto content = fields.text("content");
  if (!content) throw_field("content", "a text", "nothing");
  const bool adds_special = fields.boolean("add_special").value_or(false);
  const bool parses_special = fields.boolean("parse_special").value_or(true);
  fields.check_all_used();
  const auto ids = host.model().require_tokenizer().encode(*content, parses_special, adds_special);
  respond_json(request.exchange, Json({{"tokens", ids}}).dump());
}

void detokenize(const ApiRequest& request) {
  const Json body = parse_json(request.exchange.read_body(request.limits.max_json_bytes));
  RequestFields fields(body, "DetokenizeRequest", "");
  const TextHost& host = request.models.text(fields.text("model").value_or(""));
  const Json& list = fields.require("tokens", "a list of token ids");
  fields.check_all_used();
  if (!list.is_array()) throw_field("tokens", "a list of token ids", excerpt(list));
  const TextTokenizer& tokenizer = host.model().require_tokenizer();
  std::string content;
  for (const Json& id : list) {
    const bool is_id = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                       id.get<int64_t>() < static_cast<int64_t>(tokenizer.n_vocab());
    if (!is_id) throw_field("tokens", "token ids of the model", excerpt(id));
    content += tokenizer.bytes_of(id.get<int32_t>());
  }
  respond_json(request.exchange, dump_json({{"content", content}}));
}

}  // namespace vesper
