#include "serve/models/embedding_host.h"

#include <utility>

namespace vesper {

EmbeddingHost::EmbeddingHost(const HostedModel& model, const EmbeddingSessionOptions& session,
                             const HostOptions& options)
    : thread_(std::make_unique<ModelThread<EmbeddingSession, VectorJob>>(
          model, options,
          [path = model.path, session] {
            return std::make_unique<EmbeddingSession>(path, session);
          },
          [this](EmbeddingSession& loaded, JobQueue<VectorJob>& queue, VectorJob first) {
            run_jobs(loaded, queue, std::move(first));
          },
          [](VectorJob& job, const std::exception&) {
            job.sender.push(JobFailed{std::current_exception()});
          })) {}

void EmbeddingHost::run_jobs(EmbeddingSession& session, JobQueue<VectorJob>& queue,
                             VectorJob first) {
  std::unique_ptr<VectorJob> job = std::make_unique<VectorJob>(std::move(first));
  size_t index = 0;  // of the next text of `job`
  session.embed_many([&](bool) -> std::optional<EmbeddingJob> {
    for (;;) {
      if (index == job->inputs.size() || job->sender.is_cancelled()) {
        std::optional<VectorJob> next = queue.pop();
        if (!next) return std::nullopt;
        job = std::make_unique<VectorJob>(std::move(*next));
        index = 0;
        continue;
      }
      TextOrIds& input = job->inputs[index];
      try {
        EmbeddingJob run;
        if (const auto* text = std::get_if<std::string>(&input)) {
          run.tokens = session.tokenize(session.prompt(TextPurpose::kAny) + *text);
        } else {
          run.tokens = session.tokenize(std::get<std::vector<int32_t>>(std::move(input)));
        }
        run.on_done = [this, index, sender = job->sender](Embedding embedding) {
          n_tokens += embedding.n_tokens;
          sender.push(VectorDone{index, std::move(embedding)});
        };
        ++index;
        return run;
      } catch (const std::exception&) {
        job->sender.push(JobFailed{std::current_exception()});
        index = job->inputs.size();
      }
    }
  });
}

bool EmbeddingHost::push(const std::string& client, std::vector<TextOrIds> inputs,
                         const std::shared_ptr<EventQueue<VectorEvent>>& events) {
  return thread_->push(client, VectorJob{std::move(inputs), EventSender<VectorEvent>(events)});
}

}  // namespace vesper
