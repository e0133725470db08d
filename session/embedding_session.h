// EmbeddingSession: texts to vectors, the layer that programs, the C API and a server use.
//
// In: a text encoder or a language model with a pooling, then texts or token ids. Out: a vector per
// text, independent of the texts beside it. Called by cli/embed. Calls embedder/.
//
//   EmbeddingSession session("models/all-minilm-l6-v2");
//   const std::vector<std::string> texts = {"a sentence", "another"};
//   std::vector<Embedding> embeddings = session.embed(texts);
//
// One thread at a time uses a session, but for tokenize(), which any may call. A server has one
// thread in embed_many(), whose `next` takes requests from a queue that other threads fill.
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

namespace vesper {

struct EmbeddingSessionOptions {
  std::string device = "auto";   // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // precision: "auto" (the device's best), "f32", "f16", "bf16",
                                 // "int8"
  uint32_t threads = 0;          // of the CPU device; 0: one for each core
  // Pooling, normalization, dimensions, max_tokens and batch_tokens.
  EmbedderOptions embedder = {};
};

// What a text is embedded for. Some models want another prompt before each kind.
enum class TextPurpose { kAny, kQuery, kPassage };

struct Embedding {
  std::vector<float> vector;  // [dimensions]
  uint32_t n_tokens = 0;      // that went into the model, special tokens included
  uint32_t n_whole = 0;       // of the whole text; more than n_tokens if it was truncated
};

// One text of many.
struct EmbeddingJob {
  TokenizedText tokens;  // of EmbeddingSession::tokenize()
  std::function<void(Embedding embedding)> on_done = {};
};

// All functions throw Error(kUsage) naming the setting, what was expected and what was found;
// Error(kInput) for ids that are none of the vocabulary's; Error(kDevice).
class EmbeddingSession {
 public:
  // `model`: a file or folder of any format that llm/weights reads. Throws Error(kModel), too.
  explicit EmbeddingSession(const std::filesystem::path& model,
                            const EmbeddingSessionOptions& options = {});
  explicit EmbeddingSession(const WeightProvider& weights,
                            const EmbeddingSessionOptions& options = {});

  // The device and the precision: "cpu (AMD EPYC 9K84), bf16".
  std::string description() const;
  uint32_t dimensions() const { return embedder_.dimensions(); }
  uint32_t max_tokens() const { return embedder_.max_tokens(); }  // of a text

  // What the model's files want before a text of that purpose: the prompt "query", "passage" or
  // "document", else the default prompt; may be empty.
  std::string prompt(TextPurpose purpose) const;
  // The prompt of that name in the model's files, or the name itself as a text. Throws
  // Error(kUsage) for "query", "passage" and "document" where the files have no such prompt.
  std::string prompt(const std::string& name_or_text) const;

  // The ids of a text, truncated to max_tokens(). Throws Error(kModel) if the model has no
  // tokenizer, Error(kUsage) if max_tokens leaves no room for a token.
  TokenizedText tokenize(std::string_view text) const {
    return tokenizer().encode(text, max_tokens());
  }
  // Ids that the caller has, special tokens among them. Throws Error(kInput) for an id beyond the
  // vocabulary, and for none.
  TokenizedText tokenize(std::vector<int32_t> ids) const;
  // Throws as tokenize() does.
  const SentenceTokenizer& tokenizer() const;

  // Each text with `prefix` before it; absent: prompt(TextPurpose::kAny).
  std::vector<Embedding> embed(std::span<const std::string> texts,
                               const std::optional<std::string>& prefix = {});

  // Embeds jobs in batches of EmbedderOptions::batch_tokens, in their order. `next` gives a job, or
  // none: where `is_idle`, no job is waiting and none ends this call, so that it may wait there for
  // a job; else the batch is computed as it is.
  using NextJob = std::function<std::optional<EmbeddingJob>(bool is_idle)>;
  void embed_many(const NextJob& next);

 private:
  void run(std::vector<EmbeddingJob>& batch);

  Embedder embedder_;
  std::optional<SentenceTokenizer> tokenizer_;
  std::exception_ptr tokenizer_error_;  // why there is no tokenizer
};

}  // namespace vesper
