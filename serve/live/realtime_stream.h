// Realtime transcription by the messages of OpenAI's API: GET /v1/realtime?intent=transcription
// becomes a WebSocket. In: base64 audio in JSON texts. Out: the text of each turn of speech, while
// it is spoken and at its end. realtime_session.h has the messages, a LiveDecoder the model.
#pragma once

#include <functional>

#include "serve/api/api_request.h"
#include "serve/http/web_socket.h"
#include "serve/live/live_sessions.h"

namespace vesper {

// Serves the session until it ends. `is_stopping`: of the server; then the open turn is committed,
// and the session ends with its text. Throws ApiError(400) for another intent, what
// ModelRegistry::speech() throws, and what the constructor of WebSocket throws.
void serve_realtime_stream(const ApiRequest& request, LiveSessions& sessions,
                           const WebSocketLimits& limits, const std::function<bool()>& is_stopping);

}  // namespace vesper
