// A text encoder of the server. In: texts or token ids of many connections. Out: their vectors.
// Texts of several requests are computed in one batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "serve/models/event_queue.h"
#include "serve/models/model_thread.h"
#include "serve/models/text_host.h"
#include "serve/models/text_or_ids.h"
#include "session/embedding/embedding_session.h"

namespace vesper {

struct VectorDone {
  size_t index = 0;  // of the text in its request
  Embedding embedding = {};
};
using VectorEvent = std::variant<VectorDone, JobFailed>;

// The texts of one request.
struct VectorJob {
  std::vector<TextOrIds> inputs = {};
  EventSender<VectorEvent> sender;
};

class EmbeddingHost {
 public:
  EmbeddingHost(const HostedModel& model, const EmbeddingSessionOptions& session,
                const HostOptions& options);

  const HostedModel& hosted() const { return thread_->model(); }
  ModelThread<EmbeddingSession, VectorJob>& thread() { return *thread_; }
  // false: the queue is full.
  bool push(const std::string& client, std::vector<TextOrIds> inputs,
            const std::shared_ptr<EventQueue<VectorEvent>>& events);

  std::atomic<uint64_t> n_tokens = 0;

 private:
  void run_jobs(EmbeddingSession& session, JobQueue<VectorJob>& queue, VectorJob first);

  std::unique_ptr<ModelThread<EmbeddingSession, VectorJob>> thread_;
};

}  // namespace vesper
