// TextSession: text from a language model, the layer that programs, the C API and a server use.
//
// In: a language model, then prompts as token ids (session/text/text_model.h makes them of texts
// and conversations). Out: text, tokens and their probabilities by callback as they come, and a
// TextAnswer as plain data. Called by cli/generate. Calls llm/generation.
// Every setting and its default is in session/text_options.h.
//
//   TextSession session("models/SmolLM2-135M-Instruct.Q4_1.gguf");
//   const std::vector<ChatMessage> chat = {{"user", "Why is the sky blue?"}};
//   TextAnswer answer = session.answer({session.model().chat_ids(chat)});
//
// One thread at a time uses a session. A server has one thread in answer_many(), whose `next` takes
// requests from a queue that other threads fill.
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

#include "session/text/text_model.h"
#include "session/text/token_logprobs.h"
#include "session/text_options.h"

namespace vesper {

struct TextRequest {
  std::vector<int32_t> prompt = {};
  TextOptions options = {};
};

// Called on the thread that called the session, after each few steps. Each may be absent. What one
// throws ends all answers under way, and passes through.
struct TextEvents {
  // Text that is new and final: whole characters, and nothing of a stop text.
  std::function<void(std::string_view text)> on_text = {};
  // The same of what the model thinks, with Thinking::kSeparate.
  std::function<void(std::string_view text)> on_thinking = {};
  // All tokens so far, and how many of them are known to be of the text. Also once at the end.
  std::function<void(std::span<const TokenLogprob> tokens, size_t n_in_text)> on_tokens = {};
  // Asked after each few steps. True ends the answer: TextAnswer::end is kCancelled.
  std::function<bool()> is_cancelled = {};
};

enum class AnswerEnd {
  kEnd,        // the model ended it
  kStop,       // one of TextOptions::stops
  kLimit,      // TextOptions::max_tokens
  kContext,    // the context is full
  kCancelled,  // TextEvents::is_cancelled
};
// "end", "stop", "limit", "context", "cancelled".
std::string_view end_name(AnswerEnd end);

struct TextStatistics {
  uint64_t n_prompt = 0;  // tokens of the prompt
  uint64_t n_reused = 0;  // of these, tokens whose keys and values were there already
  uint64_t n_answer = 0;  // tokens of the answer
  double prompt_s = 0;    // until the first token of the answer; of many: without that step
  double answer_s = 0;    // from there to the last; of many: in steps of all slots
};

struct TextAnswer {
  std::string text;      // empty for a model without a tokenizer
  std::string thinking;  // with Thinking::kSeparate
  // What was chosen, a token that ended the answer included. With beam search log-probabilities
  // are 0.
  std::vector<TokenLogprob> tokens;
  // So many of `tokens`, from the first, are of the text (its thinking included): neither the token
  // that ended it nor those of a stop text. All of them without a tokenizer.
  size_t n_in_text = 0;
  AnswerEnd end = AnswerEnd::kEnd;
  TextStatistics statistics;
};

// One request of many.
struct TextJob {
  TextRequest request = {};
  TextEvents events = {};
  // The last event: one of these two. A request that cannot be answered (Error kUsage, kInput or
  // kModel) leaves the others alone.
  std::function<void(TextAnswer answer)> on_done = {};
  std::function<void(const std::exception& error)> on_failure = {};
};

// How well a model foresees a text.
struct Perplexity {
  double value = 0;       // exp of the mean of -log p
  double deviation = 0;   // standard error of `value`
  uint64_t n_tokens = 0;  // that were scored
  uint64_t n_contexts = 0;
};

// All functions throw Error(kUsage) naming the setting, what was expected and what was found;
// Error(kInput) for prompts that have no room or no meaning; Error(kDevice).
class TextSession {
 public:
  // `model`: a file or folder of any format that llm/weights reads. Throws Error(kModel), too.
  explicit TextSession(const std::filesystem::path& model, const TextSessionOptions& options = {});
  explicit TextSession(std::shared_ptr<const TextModel> model,
                       const TextSessionOptions& options = {});
  ~TextSession();
  TextSession(const TextSession&) = delete;
  TextSession& operator=(const TextSession&) = delete;

  const TextModel& model() const;
  // The device and what products meet the weights in: "cpu (AMD EPYC 9K84), int8".
  std::string description() const;
  uint32_t context() const;  // tokens
  uint32_t n_vocab() const;

  TextAnswer answer(const TextRequest& request, const TextEvents& events = {});

  // Answers jobs, TextSessionOptions::n_slots at once, as slots become free; the text of one does
  // not depend on the others. `next` gives a job, or none: where `is_idle`, no answer is under way
  // and none ends this call, so that it may wait there for a job; else it is asked again after a
  // few steps. The statistics are of all answers.
  using NextJob = std::function<std::optional<TextJob>(bool is_idle)>;
  TextStatistics answer_many(const NextJob& next);

  // The keys and values of the first slot's latest prompt and answer, as bytes that restore_prompt
  // of a session with the same model takes: a prompt that begins in the same way is not computed
  // again then. Throws Error(kInput) for bytes of another model.
  std::vector<std::byte> save_prompt();
  void restore_prompt(std::span<const std::byte> bytes);

  // Hands over the logits after each token, a few rows at a time: (f32 [n, n_vocab], n).
  void logits(std::span<const int32_t> tokens,
              const std::function<void(const float* rows, uint32_t n)>& take_rows);
  // As llama.cpp's llama-perplexity: the tokens in pieces of context() of which the second half is
  // scored, each with the tokens at its start that begin every text. Throws Error(kInput) if there
  // is not one whole piece.
  Perplexity perplexity(std::span<const int32_t> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
