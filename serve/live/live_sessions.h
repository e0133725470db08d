// Speech sessions for live streams. Each stream loads a session of its own: it decodes once a
// step, and between the recordings of a SpeechHost it would wait for minutes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "serve/models/memory_budget.h"
#include "session/speech/speech_session.h"

namespace vesper {

class ModelRegistry;

// Thread-safe.
class LiveSessions {
 public:
  // `models` must outlive this. At most `most_streams` sessions exist at once.
  LiveSessions(ModelRegistry& models, size_t most_streams)
      : models_(models), most_streams_(most_streams) {}

  // A session for as long as this object lives.
  class Lease {
   public:
    // Throws ApiError(404) for an unknown model, ApiError(429) if there are too many streams, and
    // the errors of loading. Waits for memory if the server has a limit and idle models can go.
    Lease(LiveSessions& owner, const std::string& model);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    const std::string& model() const { return model_; }
    SpeechSession& session() { return *session_; }

   private:
    void load(const std::string& model);

    LiveSessions& owner_;
    std::string model_;
    std::optional<MemoryBudget::Share> memory_;
    std::unique_ptr<SpeechSession> session_;
  };

  ModelRegistry& models() { return models_; }
  size_t n_streams() const { return n_streams_; }

 private:
  ModelRegistry& models_;
  size_t most_streams_;
  std::atomic<size_t> n_streams_ = 0;
};

}  // namespace vesper
