#include "serve/live/live_sessions.h"

#include "serve/api/api_error.h"
#include "serve/models/model_registry.h"

namespace vesper {

LiveSessions::Lease::Lease(LiveSessions& owner, const std::string& model) : owner_(owner) {
  if (++owner_.n_streams_ > owner_.most_streams_) {
    --owner_.n_streams_;
    throw ApiError(429,
                   "too many live streams: this server serves " +
                       std::to_string(owner_.most_streams_) + " at once",
                   "", "too_many_streams");
  }
  try {
    load(model);
  } catch (...) {
    --owner_.n_streams_;
    throw;
  }
}

LiveSessions::Lease::~Lease() { --owner_.n_streams_; }

void LiveSessions::Lease::load(const std::string& model) {
  const HostedModel& hosted = owner_.models_.speech(model).hosted();
  const RegistryOptions& options = owner_.models_.options();
  model_ = hosted.name;
  if (options.host.memory) memory_.emplace(*options.host.memory, hosted.name, hosted.n_bytes);
  SpeechSessionOptions speech = options.speech;
  speech.batch_size = 1;  // one stream has one window at a time
  session_ = std::make_unique<SpeechSession>(hosted.path, speech);
}

}  // namespace vesper
