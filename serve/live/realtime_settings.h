// The session of a realtime client: its settings, in the two shapes that OpenAI's API has for them.
#pragma once

#include <optional>
#include <string>

#include "serve/api/request_fields.h"
#include "serve/live/input_audio.h"
#include "vad/speech_turns.h"

namespace vesper {

// Which messages a client knows.
enum class RealtimeShape {
  kCurrent,  // session.update with audio.input
  kBeta,     // transcription_session.update with input_audio_format, ...
};

struct RealtimeSettings {
  InputFormat format = InputFormat::kPcm16;
  std::string model;  // empty: the only speech model
  std::string language;
  std::string prompt;
  std::vector<std::string> keywords;
  std::optional<TurnSettings> turn_detection;  // absent: the client ends its turns
};

// `settings` with the fields of "session" of an update. Throws ApiError(400) that names a field
// that is unknown, wrong or cannot be honoured. `has_vad`: turns can be detected.
RealtimeSettings updated(RealtimeSettings settings, const Json& session, RealtimeShape shape,
                         bool has_vad);

// The session as events have it.
Json session_json(const RealtimeSettings& settings, const std::string& id, RealtimeShape shape);

}  // namespace vesper
