#include <vesper/embedding.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "capi/cancellation.h"
#include "capi/library.h"
#include "capi/objects.h"
#include "capi/options.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "session/embedding/embedding_session.h"
#include "session/embedding/ranking.h"

struct vesper_embedder final : vesper::capi::Object {
  static constexpr std::string_view kKind = "an embedder";
  vesper_embedder(const std::filesystem::path& path, const vesper::EmbeddingSessionOptions& options)
      : Object(kKind), session(path, options), description(session.description()) {}

  vesper::EmbeddingSession session;
  const std::string description;
};

namespace vesper::capi {
namespace {

vesper_embedder_options default_embedder_options() {
  vesper_embedder_options options{};
  options.size = sizeof options;
  options.load = default_load_options();
  options.normalize = -1;
  return options;
}

std::shared_ptr<vesper_embedder> open_embedder(const char* model,
                                               const vesper_embedder_options* caller) {
  const auto given = read_options("options", caller, default_embedder_options());
  const vesper_load_options load = read_load_options(given.load);
  EmbeddingSessionOptions options;
  set_engine(load, options);
  EmbedderOptions& embedder = options.embedder;
  if (given.pooling) embedder.pooling = parse_pooling(given.pooling);
  if (given.normalize < -1 || given.normalize > 1) {
    throw Error(ErrorKind::kUsage, "normalize",
                "expected -1, 0 or 1, found " + std::to_string(given.normalize));
  }
  if (given.normalize >= 0) embedder.normalize = given.normalize == 1;
  embedder.dimensions = given.dimensions;
  embedder.max_tokens = given.max_tokens;
  embedder.batch_tokens = given.batch_tokens;
  if (given.reranker < 0 || given.reranker > 1) {
    throw Error(ErrorKind::kUsage, "reranker",
                "expected 0 or 1, found " + std::to_string(given.reranker));
  }
  options.is_reranker = given.reranker == 1;
  if (given.instruction) options.instruction = given.instruction;
  // Before a download.
  check_options(options);
  require_device_name(options.device);
  const auto path = model_store(load).find(model, ModelKind::kTextEncoder);
  auto opened = std::make_shared<vesper_embedder>(path, options);
  log(VESPER_LOG_INFO, std::string(model) + ": " + opened->description);
  return opened;
}

// Embeds texts of which `tokens_of(i)` returns the tokens of text i.
template <class TokensOf>
void embed(EmbeddingSession& session, size_t n_texts, const vesper_cancellation* cancellation,
           float* vectors, uint32_t* n_tokens, const TokensOf& tokens_of) {
  const auto stopped = is_cancelled(cancellation);
  if (n_texts > 0) required("vectors", vectors);
  const size_t dimensions = session.dimensions();
  size_t n_started = 0;
  session.embed_many([&](bool) -> std::optional<EmbeddingJob> {
    if (stopped && stopped()) throw_stopped();
    if (n_started == n_texts) return std::nullopt;
    const size_t index = n_started++;
    EmbeddingJob job{tokens_of(index)};
    job.on_done = [&, index](const Embedding& embedding) {
      std::ranges::copy(embedding.vector, vectors + index * dimensions);
      if (n_tokens) n_tokens[index] = embedding.n_whole;
    };
    return job;
  });
}

}  // namespace
}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

void vesper_embedder_options_init(vesper_embedder_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_embedder_options);
}

vesper_status vesper_embedder_open(const char* model, const vesper_embedder_options* options,
                                   vesper_embedder** embedder) {
  return capi::open_object(__func__, model, "embedder", embedder,
                           [&] { return capi::open_embedder(model, options); });
}

void vesper_embedder_close(vesper_embedder* embedder) {
  capi::close_object(__func__, "embedder", embedder);
}

const char* vesper_embedder_description(const vesper_embedder* embedder) {
  return capi::guarded_value(__func__, embedder, "", [&] {
    return capi::find_object("embedder", embedder)->description.c_str();
  });
}

uint32_t vesper_embedder_dimensions(const vesper_embedder* embedder) {
  return capi::guarded_value(__func__, embedder, 0u, [&] {
    return capi::find_object("embedder", embedder)->session.dimensions();
  });
}

uint32_t vesper_embedder_max_tokens(const vesper_embedder* embedder) {
  return capi::guarded_value(__func__, embedder, 0u, [&] {
    return capi::find_object("embedder", embedder)->session.max_tokens();
  });
}

vesper_status vesper_embedder_prompt(const vesper_embedder* embedder, const char* name,
                                     char** prompt) {
  if (prompt) *prompt = nullptr;
  return capi::guarded(__func__, embedder, [&] {
    const auto found = capi::find_object("embedder", embedder);
    capi::required("name", name);
    capi::required("prompt", prompt);
    *prompt = capi::copied_string(found->session.prompt_of_kind(name));
  });
}

vesper_status vesper_embed(vesper_embedder* embedder, const char* const* texts, size_t n_texts,
                           const char* prefix, const vesper_cancellation* cancellation,
                           float* vectors, uint32_t* n_tokens) {
  return capi::guarded(__func__, embedder, [&] {
    const capi::Use use("embedder", embedder);
    if (n_texts > 0) capi::required("texts", texts);
    for (size_t i = 0; i < n_texts; ++i) capi::required("texts", texts[i]);
    vesper::EmbeddingSession& session = use->session;
    const std::string before =
        prefix ? session.prompt(std::string(prefix)) : session.prompt(vesper::TextPurpose::kAny);
    capi::embed(session, n_texts, cancellation, vectors, n_tokens,
                [&](size_t i) { return session.tokenize(before + texts[i]); });
  });
}

vesper_status vesper_embed_tokens(vesper_embedder* embedder, const int32_t* tokens,
                                  const size_t* offsets, size_t n_texts,
                                  const vesper_cancellation* cancellation, float* vectors) {
  return capi::guarded(__func__, embedder, [&] {
    const capi::Use use("embedder", embedder);
    if (n_texts > 0) capi::required("offsets", offsets);
    if (n_texts > 0) capi::required("tokens", tokens);
    for (size_t i = 0; i < n_texts; ++i) {
      if (offsets[i] <= offsets[i + 1]) continue;
      throw capi::ArgumentError("offsets", "expected ascending numbers, found " +
                                               std::to_string(offsets[i]) + " before " +
                                               std::to_string(offsets[i + 1]));
    }
    capi::embed(use->session, n_texts, cancellation, vectors, nullptr, [&](size_t i) {
      try {
        return use->session.tokenize({tokens + offsets[i], tokens + offsets[i + 1]});
      } catch (const vesper::Error& error) {
        throw vesper::Error(error.kind(), "text " + std::to_string(i) + ": " + error.what());
      }
    });
  });
}

vesper_status vesper_rerank(vesper_embedder* embedder, const char* const* queries,
                            const char* const* documents, size_t n_pairs,
                            const vesper_cancellation* cancellation, float* scores,
                            uint32_t* n_tokens) {
  return capi::guarded(__func__, embedder, [&] {
    const capi::Use use("embedder", embedder);
    if (n_pairs > 0) capi::required("queries", queries);
    if (n_pairs > 0) capi::required("documents", documents);
    if (n_pairs > 0) capi::required("scores", scores);
    for (size_t i = 0; i < n_pairs; ++i) capi::required("queries", queries[i]);
    for (size_t i = 0; i < n_pairs; ++i) capi::required("documents", documents[i]);
    capi::embed(use->session, n_pairs, cancellation, scores, n_tokens,
                [&](size_t i) { return use->session.tokenize_pair(queries[i], documents[i]); });
  });
}

double vesper_similarity(const float* a, const float* b, size_t n) {
  return capi::guarded_value(__func__, nullptr, 0.0, [&] {
    if (n > 0) capi::required("a", a);
    if (n > 0) capi::required("b", b);
    return vesper::cosine({a, n}, {b, n});
  });
}

}  // extern "C"
