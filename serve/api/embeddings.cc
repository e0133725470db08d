#include "serve/api/embeddings.h"

#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <utility>

#include "serve/api/request_fields.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

// The first `n` numbers; of a vector of length 1 they are scaled to length 1 again (Matryoshka
// models are used so).
void shorten(std::vector<float>& vector, size_t n) {
  const auto length = [&] {
    double sum = 0;
    for (const float number : vector) sum += double{number} * number;
    return std::sqrt(sum);
  };
  const bool is_normalized = std::abs(length() - 1) < 1e-3;
  vector.resize(n);
  const double left = length();
  if (!is_normalized || left == 0) return;
  for (float& number : vector) number = static_cast<float>(number / left);
}

// Little-endian f32 in base64 (RFC 4648).
std::string base64(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  const size_t n_bytes = vector.size() * sizeof(float);
  std::string text((n_bytes + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock adds a zero
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(vector.data()),
                                static_cast<int>(n_bytes));
  text.resize(static_cast<size_t>(n));
  return text;
}

}  // namespace

void embeddings(const ApiRequest& request) {
  const Json body = parse_json(request.exchange.read_body(request.limits.max_json_bytes));
  RequestFields fields(body, "EmbeddingRequest", "");
  EmbeddingHost& host = request.models.embedding(fields.text("model").value_or(""));
  const std::string format = fields.choice("encoding_format").value_or("float");
  const auto dimensions = fields.integer("dimensions");
  fields.ignore("user");
  std::vector<TextOrIds> inputs = read_texts(fields, "input", "texts");
  fields.check_all_used();

  auto events = std::make_shared<EventQueue<VectorEvent>>();
  std::vector<Json> data(inputs.size());
  if (!host.push(request.client, std::move(inputs), events)) throw_busy(request.exchange);
  size_t n_left = data.size();
  uint64_t n_tokens = 0;
  wait_for_events(request.exchange, *events, [&](VectorEvent event) {
    if (auto* failed = std::get_if<JobFailed>(&event)) throw as_api_error(failed->error);
    auto& [index, embedding] = std::get<VectorDone>(event);
    n_tokens += embedding.n_tokens;
    if (dimensions) {
      if (static_cast<size_t>(*dimensions) > embedding.vector.size()) {
        throw_field("dimensions", "at most " + std::to_string(embedding.vector.size()),
                    std::to_string(*dimensions));
      }
      shorten(embedding.vector, static_cast<size_t>(*dimensions));
    }
    Json vector = format == "base64" ? Json(base64(embedding.vector)) : Json(embedding.vector);
    data[index] = {{"object", "embedding"}, {"index", index}, {"embedding", std::move(vector)}};
    return --n_left == 0;
  });
  const Json response = {{"object", "list"},
                         {"data", std::move(data)},
                         {"model", host.hosted().name},
                         {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
  respond_json(request.exchange, response.dump());
}

}  // namespace vesper
