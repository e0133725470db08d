// A language model of the server. In: jobs of many connections. Out: events of their answers. Up to
// TextSessionOptions::n_slots answers run at once; a waiting job starts when one ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "serve/models/event_queue.h"
#include "serve/models/model_thread.h"
#include "session/text/text_session.h"

namespace vesper {

// New text of an answer.
struct AnswerText {
  size_t choice = 0;  // of the request
  std::string text = {}, thinking = {};
  std::vector<TokenLogprob> tokens = {};  // of the text, if log-probabilities were asked for
};
struct AnswerDone {
  size_t choice = 0;
  TextAnswer answer = {};
};
// An exception of the session.
struct JobFailed {
  std::exception_ptr error = {};
};
using AnswerEvent = std::variant<AnswerText, AnswerDone, JobFailed>;

// Tokens of a prompt and its answer; `max_ctx`: of the model.
uint32_t context_of(const TextSessionOptions& session, uint32_t max_ctx);

class TextHost {
 public:
  // Opens the files of the model, without its weights. Throws Error(kModel).
  TextHost(const HostedModel& model, const TextSessionOptions& session, const HostOptions& options);

  const HostedModel& hosted() const { return thread_->model(); }
  const TextModel& model() const { return *model_; }
  // Tokens of a prompt and its answer.
  uint32_t context() const { return context_; }
  ModelThread<TextSession, TextJob>& thread() { return *thread_; }

  // Queues one answer. Events about it go to `events`, with this choice. false: the queue is full.
  // `with_tokens`: events have the tokens of the texts.
  bool push(const std::string& client, TextRequest request, size_t choice, bool with_tokens,
            const std::shared_ptr<EventQueue<AnswerEvent>>& events);

  std::atomic<uint64_t> n_prompt_tokens = 0, n_reused_tokens = 0;
  // Tokens that answers sampled, and the steps in which they did so, together.
  std::atomic<uint64_t> n_answer_tokens = 0, n_steps = 0;

 private:
  void run_jobs(TextSession& session, JobQueue<TextJob>& queue, TextJob first);

  std::shared_ptr<const TextModel> model_;
  uint32_t context_ = 0;
  std::unique_ptr<ModelThread<TextSession, TextJob>> thread_;
};

}  // namespace vesper
