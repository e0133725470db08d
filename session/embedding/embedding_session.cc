#include "session/embedding/embedding_session.h"

#include <algorithm>
#include <utility>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "session/bounds.h"

namespace vesper {

namespace {

std::unique_ptr<Device> checked_device(const EmbeddingSessionOptions& options) {
  check_options(options);
  return open_device(options.device, DeviceOptions{.n_threads = options.threads});
}

// The tokenizer of a model, or why there is none.
std::optional<SentenceTokenizer> find_tokenizer(const WeightProvider& weights,
                                                std::exception_ptr& problem) {
  try {
    return SentenceTokenizer(weights);
  } catch (const Error&) {
    problem = std::current_exception();
    return std::nullopt;
  }
}

EmbedderOptions with_head(EmbedderOptions options, const std::optional<ScoreHead>& head) {
  options.score = head ? &*head : nullptr;
  return options;
}

// Qwen3-Reranker's usual task, of its model card.
constexpr const char* kUsualInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

}  // namespace

void check_options(const EmbeddingSessionOptions& options) {
  check_weight_options(options.weights);
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
  if (options.embedder.batch_tokens != 0) {
    check_bounds("batch tokens", bounds::kBatchTokens, options.embedder.batch_tokens);
  }
}

EmbeddingSession::EmbeddingSession(const std::filesystem::path& model,
                                   const EmbeddingSessionOptions& options)
    : EmbeddingSession(*change_weights(open_weights(model), options.weights, options.threads),
                       options) {}

EmbeddingSession::EmbeddingSession(const WeightProvider& weights,
                                   const EmbeddingSessionOptions& options)
    : tokenizer_(options.is_reranker ? find_tokenizer(weights, tokenizer_error_) : std::nullopt),
      head_(options.is_reranker ? std::optional(read_score_head(weights, tokenizer().tokens()))
                                : std::nullopt),
      instruction_(options.instruction.empty() ? kUsualInstruction : options.instruction),
      embedder_(weights, checked_device(options), parse_compute(options.compute),
                with_head(options.embedder, head_)) {
  if (head_) head_->layers.clear();
  // After the embedder, whose loading takes the most memory.
  if (!options.is_reranker) tokenizer_ = find_tokenizer(weights, tokenizer_error_);
  if (tokenizer_error_) return;
  try {
    check_tokenizer(weights);
  } catch (const Error&) {
    if (options.is_reranker) throw;
    tokenizer_error_ = std::current_exception();
  }
}

void EmbeddingSession::check_tokenizer(const WeightProvider& weights) const {
  if (tokenizer_->n_vocab() > embedder_.n_vocab()) {
    throw Error(ErrorKind::kModel, weights.path().string() + ": the tokenizer has " +
                                       std::to_string(tokenizer_->n_vocab()) +
                                       " tokens, the weights only " +
                                       std::to_string(embedder_.n_vocab()));
  }
  if (head_ && !head_->judges && tokenizer_->tokens().pair() == nullptr) {
    throw Error(ErrorKind::kModel, weights.path().string() +
                                       ": expected a tokenizer with a template for pairs of texts, "
                                       "found none");
  }
  const uint32_t least = !head_          ? tokenizer_->least_tokens()
                         : head_->judges ? tokenizer_->least_judgement_tokens()
                                         : tokenizer_->least_pair_tokens();
  if (max_tokens() < least) {
    throw Error(ErrorKind::kUsage, "max tokens",
                "expected at least " + std::to_string(least) + " for this model, found " +
                    std::to_string(max_tokens()));
  }
}

std::string EmbeddingSession::description() const {
  return engine_text(embedder_.device().info(), compute_name(embedder_.compute()));
}

std::string EmbeddingSession::prompt(TextPurpose purpose) const {
  const auto& prompts = embedder_.settings().prompts;
  std::vector<std::string> names;
  if (purpose == TextPurpose::kQuery) names = {"query"};
  if (purpose == TextPurpose::kPassage) names = {"passage", "document"};
  names.push_back(embedder_.settings().default_prompt);
  for (const std::string& name : names) {
    const auto found = prompts.find(name);
    if (found != prompts.end()) return found->second;
  }
  return {};
}

std::string EmbeddingSession::prompt_of_kind(const std::string& name) const {
  if (name == "query") return prompt(TextPurpose::kQuery);
  if (name == "passage" || name == "document") return prompt(TextPurpose::kPassage);
  const auto found = embedder_.settings().prompts.find(name);
  return found == embedder_.settings().prompts.end() ? "" : found->second;
}

std::string EmbeddingSession::prompt(const std::string& name_or_text) const {
  const auto& prompts = embedder_.settings().prompts;
  const auto found = prompts.find(name_or_text);
  if (found != prompts.end()) return found->second;
  if (name_or_text == "query" || name_or_text == "passage" || name_or_text == "document") {
    throw Error(ErrorKind::kUsage, "prefix",
                "this model's files name no prompt \"" + name_or_text +
                    "\"; give the text itself, such as \"" + name_or_text + ": \"");
  }
  return name_or_text;
}

TokenizedText EmbeddingSession::tokenize(std::string_view text) const {
  if (head_) {
    throw Error(ErrorKind::kUsage, "reranker", "expected an embedder for texts, found a reranker");
  }
  return tokenizer().encode(text, max_tokens());
}

TokenizedText EmbeddingSession::tokenize(std::vector<int32_t> ids) const {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < embedder_.n_vocab()) continue;
    throw Error(ErrorKind::kInput, "expected token ids below " +
                                       std::to_string(embedder_.n_vocab()) + ", found " +
                                       std::to_string(id));
  }
  if (ids.empty()) throw Error(ErrorKind::kInput, "expected token ids, found none");
  TokenizedText tokens{std::move(ids)};
  tokens.n_tokens = static_cast<uint32_t>(tokens.ids.size());
  tokens.ids.resize(std::min(tokens.n_tokens, max_tokens()));
  return tokens;
}

TokenizedText EmbeddingSession::tokenize_pair(std::string_view query,
                                              std::string_view document) const {
  if (!head_) {
    throw Error(ErrorKind::kUsage, "reranker", "expected a reranker for pairs, found an embedder");
  }
  return head_->judges ? tokenizer().encode_judgement(instruction_, query, document, max_tokens())
                       : tokenizer().encode_pair(query, document, max_tokens());
}

const SentenceTokenizer& EmbeddingSession::tokenizer() const {
  if (tokenizer_error_) std::rethrow_exception(tokenizer_error_);
  return *tokenizer_;
}

std::vector<Embedding> EmbeddingSession::embed(std::span<const std::string> texts,
                                               const std::optional<std::string>& prefix) {
  const std::string before = prefix ? *prefix : prompt(TextPurpose::kAny);
  std::vector<Embedding> embeddings;
  size_t n_given = 0;
  embed_many([&](bool) -> std::optional<EmbeddingJob> {
    if (n_given == texts.size()) return std::nullopt;
    return EmbeddingJob{
        .tokens = tokenize(before + texts[n_given++]),
        .on_done = [&](Embedding found) { embeddings.push_back(std::move(found)); }};
  });
  return embeddings;
}

std::vector<float> EmbeddingSession::rerank(std::string_view query,
                                            std::span<const std::string> documents) {
  std::vector<float> scores;
  size_t n_given = 0;
  embed_many([&](bool) -> std::optional<EmbeddingJob> {
    if (n_given == documents.size()) return std::nullopt;
    return EmbeddingJob{
        .tokens = tokenize_pair(query, documents[n_given++]),
        .on_done = [&](const Embedding& found) { scores.push_back(found.vector.front()); }};
  });
  return scores;
}

void EmbeddingSession::embed_many(const NextJob& next) {
  std::vector<EmbeddingJob> batch;
  size_t n_tokens = 0;
  const auto flush = [&] {
    run(batch);
    batch.clear();
    n_tokens = 0;
  };
  while (true) {
    std::optional<EmbeddingJob> job = next(batch.empty());
    if (!job) {
      if (batch.empty()) return;
      flush();
      continue;
    }
    const size_t n = job->tokens.ids.size();
    if (n_tokens + n > embedder_.batch_tokens() || batch.size() == embedder_.batch_texts()) flush();
    n_tokens += n;
    batch.push_back(std::move(*job));
  }
}

void EmbeddingSession::run(std::vector<EmbeddingJob>& batch) {
  std::vector<std::span<const int32_t>> texts;
  std::vector<uint32_t> second_begins;
  for (const EmbeddingJob& job : batch) {
    texts.emplace_back(job.tokens.ids);
    if (head_) second_begins.push_back(job.tokens.second_begin);
  }
  const uint32_t d = dimensions();
  std::vector<float> vectors(texts.size() * d);
  embedder_.embed(texts, vectors.data(), second_begins);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].on_done) continue;
    const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(i * d);
    batch[i].on_done({std::vector<float>(begin, begin + d),
                      static_cast<uint32_t>(batch[i].tokens.ids.size()), batch[i].tokens.n_tokens});
  }
}

}  // namespace vesper
