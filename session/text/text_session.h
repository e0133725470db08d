// TextSession: text from a language model, the layer that programs, the C API and a server use.
//
// In: a language model, then prompts as token ids (session/text/text_model.h makes them from texts
// and conversations). Out: text, tokens and their probabilities by callback, and a TextAnswer as
// plain data. Called by cli/generate. Calls llm/generation. session/text/text_options.h has all
// settings and defaults.
//
//   TextSession session("models/SmolLM2-135M-Instruct.Q4_1.gguf");
//   const std::vector<ChatMessage> chat = {{"user", "Why is the sky blue?"}};
//   TextAnswer answer = session.answer({session.model().chat_ids(chat)});
//
// Use a session from one thread at a time. A server has one thread in answer_many(), whose `next`
// takes requests from a queue that other threads fill.
#pragma once

#include <cstddef>
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

#include "session/atomic_file.h"
#include "session/text/text_model.h"
#include "session/text/text_options.h"
#include "session/text/token_logprobs.h"

namespace vesper {

struct TextRequest {
  std::vector<int32_t> prompt = {};
  TextOptions options = {};
};

// Called on the thread that called the session, after every few steps. All are optional. An
// exception ends all running answers and is rethrown.
struct TextEvents {
  // New final text: complete characters, without stop texts.
  std::function<void(std::string_view text)> on_text = {};
  // The same for thinking, with Thinking::kSeparate, the default.
  std::function<void(std::string_view text)> on_thinking = {};
  // All tokens so far, and how many of them are known to belong to the text. Called after on_text
  // and on_thinking with the text of these tokens, and at the end.
  std::function<void(std::span<const TokenLogprob> tokens, size_t n_in_text)> on_tokens = {};
  // Called after each pass over up to 512 tokens of the prompt, then after every few steps. true
  // ends the answer with kCancelled.
  std::function<bool()> is_cancelled = {};
};

enum class AnswerEnd {
  kEnd,        // the model ended it
  kStop,       // one of TextOptions::stops
  kLimit,      // TextOptions::max_tokens
  kContext,    // the context is full
  kLoop,       // it only repeated itself (session/text/answer_loop.h)
  kCancelled,  // TextEvents::is_cancelled
};
// "end", "stop", "limit", "context", "loop", "cancelled".
std::string_view end_name(AnswerEnd end);

struct TextStatistics {
  uint64_t n_prompt = 0;  // tokens of the prompt
  uint64_t n_reused = 0;  // cached tokens of these
  uint64_t n_answer = 0;  // tokens of the answer
  // With TextSessionOptions::speculate: drafted tokens, and how many of them the model sampled too.
  uint64_t n_drafted = 0, n_accepted = 0;
  double prompt_s = 0;  // to the first token of the answer; answer_many: without that step
  double answer_s = 0;  // from there to the last; answer_many: in steps of all slots
};

struct TextAnswer {
  std::string text;      // empty without a tokenizer
  std::string thinking;  // with Thinking::kSeparate
  // The sampled tokens, including one that ended the answer (without it with beam search).
  std::vector<TokenLogprob> tokens;
  // The first tokens of `tokens` that belong to the text (and thinking), without the one that ended
  // it and those of a stop text. All of them without a tokenizer.
  size_t n_in_text = 0;
  AnswerEnd end = AnswerEnd::kEnd;
  Sampling sampling;  // as used: TextOptions::sampling, else the model's, with the seed
  TextStatistics statistics;
};

// One request of many.
struct TextJob {
  TextRequest request = {};
  TextEvents events = {};
  // One of these two is the last event. An invalid request (Error kUsage, kInput or kModel) does
  // not affect others.
  std::function<void(TextAnswer answer)> on_done = {};
  std::function<void(const std::exception& error)> on_failure = {};
};

// How well a model predicts a text.
struct Perplexity {
  double value = 0;       // exp of the mean of -log p
  double deviation = 0;   // standard error of `value`
  uint64_t n_tokens = 0;  // scored tokens
  uint64_t n_contexts = 0;
};

// All functions throw Error(kUsage) naming the setting, what was expected and what was found;
// Error(kInput) for invalid or too long prompts; Error(kDevice).
class TextSession {
 public:
  // `model`: a file or folder of any format that llm/weights reads. Also throws Error(kModel).
  explicit TextSession(const std::filesystem::path& model, const TextSessionOptions& options = {});
  explicit TextSession(std::shared_ptr<const TextModel> model,
                       const TextSessionOptions& options = {});
  ~TextSession();
  TextSession(const TextSession&) = delete;
  TextSession& operator=(const TextSession&) = delete;

  const TextModel& model() const;
  std::shared_ptr<const TextModel> shared_model() const;
  const TextSessionOptions& options() const;
  // The device and the activation format of products: "cpu (AMD EPYC 9K84), int8".
  std::string description() const;
  uint32_t context() const;  // tokens
  uint32_t n_vocab() const;

  TextAnswer answer(const TextRequest& request, const TextEvents& events = {});

  // Answers jobs, up to TextSessionOptions::n_slots at once; the text of a job is independent of
  // the others. `next` returns a job or none. With `is_idle` no answer is running: it may wait for
  // a job, and none ends this call. Otherwise it is called again after a few steps. A job runs in
  // the free slot that has its prompt's prefix in its cache, if one has. The statistics are of all
  // answers.
  using NextJob = std::function<std::optional<TextJob>(bool is_idle)>;
  // `on_steps` is called after every few steps: their number, and the tokens that all answers
  // sampled in them (with drafts, a step has several of an answer).
  using OnSteps = std::function<void(uint64_t n_steps, uint64_t n_tokens)>;
  TextStatistics answer_many(const NextJob& next, const OnSteps& on_steps = {});

  // The keys and values of the last prompt and its answer as bytes for restore_prompt of a
  // session with the same model, which then need not compute the same prefix again. Throws
  // Error(kInput) for bytes of another model.
  std::vector<std::byte> save_prompt();
  void restore_prompt(std::span<const std::byte> bytes);
  // The same in a file, which is written as a whole or not at all. Throw Error(kOutput), and
  // Error(kInput) naming the file.
  void save_prompt(AtomicFile& file);
  void restore_prompt(const std::filesystem::path& file);

  // Passes on the logits after each token, a few rows at a time: (f32 [n, n_vocab], n).
  void logits(std::span<const int32_t> tokens,
              const std::function<void(const float* rows, uint32_t n)>& take_rows);
  // As llama.cpp's llama-perplexity: pieces of context() tokens, each after the tokens that begin
  // every text, of which the second half is scored. Throws Error(kInput) if there is no complete
  // piece, Error(kStopped) if `is_cancelled`, called after every few tokens, returns true.
  Perplexity perplexity(std::span<const int32_t> tokens,
                        const std::function<bool()>& is_cancelled = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
