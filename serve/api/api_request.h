// What every function of the API gets: the exchange, the client, the models.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/api/api_error.h"
#include "serve/http/http_exchange.h"
#include "serve/models/event_queue.h"

namespace vesper {

class ModelRegistry;

struct ApiLimits {
  uint64_t max_json_bytes = 16'000'000;
  uint64_t max_upload_bytes = 1'000'000'000;
  double max_audio_s = 4 * 3600;  // of a recording
  double max_decoding_s = 600;    // of its file to samples
};

struct ApiRequest {
  HttpExchange& exchange;
  ModelRegistry& models;
  const ApiLimits& limits;
  std::string id;      // of the request, in its response and in the log
  std::string client;  // the name of its key, else its address: whose turn it is in a queue
};

inline void respond_json(HttpExchange& exchange, const std::string& body) {
  exchange.respond(200, "application/json", body);
}

// Seconds since 1970.
inline int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Passes events on to `take` until it returns true. Cancels the request and throws ConnectionLost
// if the client leaves, and ApiError(503) if the model fails.
template <class Event, class Take>
void wait_for_events(HttpExchange& exchange, EventQueue<Event>& events, const Take& take) {
  constexpr std::chrono::milliseconds kStep{100};
  // Also if sending fails.
  struct CancelAtEnd {
    EventQueue<Event>& queue;
    ~CancelAtEnd() { queue.is_cancelled = true; }
  } cancel{events};
  for (;;) {
    std::optional<Event> event = events.pop(kStep);
    if (event) {
      if (take(std::move(*event))) return;
    } else if (events.has_ended()) {
      throw ApiError(503, "the model failed; the log of the server says why");
    } else if (exchange.client_has_left()) {
      throw ConnectionLost();
    }
  }
}

// The refusal of a full queue; the client may come again.
[[noreturn]] inline void throw_busy(HttpExchange& exchange) {
  exchange.set_header("Retry-After", "1");
  throw ApiError(429, "too many requests are waiting for this model", "", "queue_full");
}

}  // namespace vesper
