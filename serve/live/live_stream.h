// Live captions: a WebSocket that takes audio and gives back words while they are spoken.
//
// In: GET /v1/audio/stream, then a JSON text that describes the audio, then binary messages with
// it, then {"type": "end"}. Out: captions as JSON texts (live_messages.h). The thread of the
// connection moves bytes to a LiveDecoder.
#pragma once

#include <functional>

#include "serve/api/api_request.h"
#include "serve/http/web_socket.h"
#include "serve/live/live_sessions.h"

namespace vesper {

// Serves the stream until it ends. `is_stopping`: of the server; then the audio that has come is
// decoded, and the stream ends. Throws what the constructor of WebSocket throws.
void serve_live_stream(const ApiRequest& request, LiveSessions& sessions,
                       const WebSocketLimits& limits, const std::function<bool()>& is_stopping);

}  // namespace vesper
