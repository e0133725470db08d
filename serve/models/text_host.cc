#include "serve/models/text_host.h"

#include <algorithm>
#include <utility>

namespace vesper {

uint32_t context_of(const TextSessionOptions& session, uint32_t max_ctx) {
  constexpr uint32_t kUsualContext = 4096;  // as TextSessionOptions::context
  return session.context != 0 ? session.context : std::min(kUsualContext, max_ctx);
}

TextHost::TextHost(const HostedModel& model, const TextSessionOptions& session,
                   const HostOptions& options)
    : model_(std::make_shared<const TextModel>(model.path)) {
  context_ = context_of(session, model_->max_ctx());
  thread_ = std::make_unique<ModelThread<TextSession, TextJob>>(
      model, options,
      [files = model_, session] { return std::make_unique<TextSession>(files, session); },
      [this](TextSession& loaded, JobQueue<TextJob>& queue, TextJob first) {
        run_jobs(loaded, queue, std::move(first));
      },
      [](TextJob& job, const std::exception& error) { job.on_failure(error); });
}

void TextHost::run_jobs(TextSession& session, JobQueue<TextJob>& queue, TextJob first) {
  std::optional<TextJob> next = std::move(first);
  session.answer_many([&](bool) { return next ? std::exchange(next, std::nullopt) : queue.pop(); },
                      [this](uint64_t steps, uint64_t tokens) {
                        n_steps += steps;
                        n_answer_tokens += tokens;
                      });
}

bool TextHost::push(const std::string& client, TextRequest request, size_t choice, bool with_tokens,
                    const std::shared_ptr<EventQueue<AnswerEvent>>& events) {
  const EventSender<AnswerEvent> sender(events);
  TextJob job{.request = std::move(request)};
  // The text that has no event yet: on_tokens() adds its tokens and sends it.
  auto pending = std::make_shared<AnswerText>(AnswerText{.choice = choice});
  auto n_sent = std::make_shared<size_t>(0);
  if (with_tokens) {
    job.events.on_text = [pending](std::string_view text) { pending->text += text; };
    job.events.on_thinking = [pending](std::string_view text) { pending->thinking += text; };
    job.events.on_tokens = [sender, pending, n_sent](std::span<const TokenLogprob> tokens,
                                                     size_t n_in_text) {
      const size_t n = std::min(n_in_text, tokens.size());
      if (n <= *n_sent && pending->text.empty() && pending->thinking.empty()) return;
      if (n > *n_sent) {
        pending->tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(*n_sent),
                               tokens.begin() + static_cast<ptrdiff_t>(n));
        *n_sent = n;
      }
      sender.push(std::exchange(*pending, AnswerText{.choice = pending->choice}));
    };
  } else {
    job.events.on_text = [sender, choice](std::string_view text) {
      sender.push(AnswerText{.choice = choice, .text = std::string(text)});
    };
    job.events.on_thinking = [sender, choice](std::string_view text) {
      sender.push(AnswerText{.choice = choice, .thinking = std::string(text)});
    };
  }
  job.events.is_cancelled = [sender] { return sender.is_cancelled(); };
  job.on_done = [this, sender, choice](TextAnswer answer) {
    n_prompt_tokens += answer.statistics.n_prompt;
    n_reused_tokens += answer.statistics.n_reused;
    sender.push(AnswerDone{choice, std::move(answer)});
  };
  job.on_failure = [sender](const std::exception&) {
    sender.push(JobFailed{std::current_exception()});
  };
  return thread_->push(client, std::move(job));
}

}  // namespace vesper
