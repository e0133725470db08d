// EmbeddingSession: texts to vectors, or pairs of texts to scores. The programs and servers use
// this layer.
//
// Input: a text encoder or a language model with a pooling, then texts or token ids. Output: one
// vector per text; it does not depend on the other texts. Called by cli/embed. Calls embedder/.
//
// A reranker (EmbeddingSessionOptions::is_reranker) reads a query and a document together. Its
// vector has one number: how well the document answers the query.
//
//   EmbeddingSession session("models/all-minilm-l6-v2");
//   const std::vector<std::string> texts = {"a sentence", "another"};
//   std::vector<Embedding> embeddings = session.embed(texts);
//
// A session is used by one thread at a time, except tokenize(), which any thread may call. A server
// runs embed_many() in one thread; its `next` takes requests from a queue that other threads fill.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "embedder/embedder.h"
#include "embedder/sentence_tokenizer.h"
#include "llm/conversion/changed_weights.h"

namespace vesper {

struct EmbeddingSessionOptions {
  std::string device = "auto";   // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // precision: "auto" (the device's best), "f32", "f16", "bf16",
                                 // "int8"
  uint32_t threads = 0;          // of the CPU device; 0: one for each core
  WeightOptions weights = {};    // changes of the weights while they are loaded
  // Pooling, normalization, dimensions, max_tokens and batch_tokens.
  EmbedderOptions embedder = {};
  // The model is a reranker: a cross-encoder with a classifier of one label, or Qwen3-Reranker.
  bool is_reranker = false;
  std::string instruction = {};  // the task, for Qwen3-Reranker; empty: searching the web
};

// Throws Error(kUsage) naming the first setting that is out of bounds. The embedder checks what
// depends on the model.
void check_options(const EmbeddingSessionOptions& options);

// What the text is for. Some models need a different prompt for each purpose.
enum class TextPurpose { kAny, kQuery, kPassage };

struct Embedding {
  std::vector<float> vector;  // [dimensions]
  uint32_t n_tokens = 0;      // tokens computed, including special tokens
  uint32_t n_whole = 0;       // tokens of the whole text; larger than n_tokens if it was truncated
};

// One text of many.
struct EmbeddingJob {
  TokenizedText tokens;  // of EmbeddingSession::tokenize()
  std::function<void(Embedding embedding)> on_done = {};
};

// All functions throw Error(kUsage) with the setting, what was expected and what was found,
// Error(kInput) for ids outside the vocabulary, and Error(kDevice).
class EmbeddingSession {
 public:
  // `model`: a file or folder in any format that llm/weights reads. Also throws Error(kModel).
  explicit EmbeddingSession(const std::filesystem::path& model,
                            const EmbeddingSessionOptions& options = {});

  // The device and the precision: "cpu (AMD EPYC 9K84), bf16".
  std::string description() const;
  uint32_t dimensions() const { return embedder_.dimensions(); }
  uint32_t max_tokens() const { return embedder_.max_tokens(); }  // of a text

  // The model's prompt for this purpose ("query", "passage" or "document"), else its default
  // prompt; may be empty.
  std::string prompt(TextPurpose purpose) const;
  // The same for "query", "passage" and "document"; for another name the model's prompt with this
  // name, else "".
  std::string prompt_of_kind(const std::string& name) const;
  // The model's prompt with this name; if there is none, returns the argument as the prompt. Throws
  // Error(kUsage) for "query", "passage" or "document" if the model has no such prompt.
  std::string prompt(const std::string& name_or_text) const;

  // The ids of a text, truncated to max_tokens(). Throws Error(kModel) if the model has no
  // tokenizer, and Error(kUsage) if max_tokens is too small for a single token, or the session is a
  // reranker.
  TokenizedText tokenize(std::string_view text) const;
  // For ids that the caller has, including special tokens. Throws Error(kInput) for an empty list
  // and for an id outside the vocabulary.
  TokenizedText tokenize(std::vector<int32_t> ids) const;
  // The ids of a query and a document for a reranker, together at most max_tokens(). Throws
  // Error(kUsage) if the session is no reranker.
  TokenizedText tokenize_pair(std::string_view query, std::string_view document) const;
  // Throws the same errors as tokenize().
  const SentenceTokenizer& tokenizer() const;

  // Puts `prefix` before each text. Default: prompt(TextPurpose::kAny).
  std::vector<Embedding> embed(std::span<const std::string> texts,
                               const std::optional<std::string>& prefix = {});
  // The score of each document for the query: higher is better. Probabilities, or logits if the
  // model's files say so. Throws the errors of tokenize_pair().
  std::vector<float> rerank(std::string_view query, std::span<const std::string> documents);

  // Embeds jobs in batches of EmbedderOptions::batch_tokens, in order. `next` returns a job or
  // none. If `is_idle`, no job is pending: `next` may wait for one, and none ends this call.
  // Otherwise none starts the batch with the jobs it has.
  using NextJob = std::function<std::optional<EmbeddingJob>(bool is_idle)>;
  void embed_many(const NextJob& next);

 private:
  // `weights` have the changes.
  EmbeddingSession(const WeightProvider& weights, const EmbeddingSessionOptions& options);
  void run(std::vector<EmbeddingJob>& batch);

  // Checks the tokenizer against the model.
  void check_tokenizer(const WeightProvider& weights) const;

  std::exception_ptr tokenizer_error_;  // why there is no tokenizer
  std::optional<SentenceTokenizer> tokenizer_;
  std::optional<ScoreHead> head_;  // of a reranker, without its layers
  std::string instruction_;
  Embedder embedder_;
};

}  // namespace vesper
