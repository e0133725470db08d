#include "serve/live/live_stream.h"

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "serve/live/live_decoder.h"
#include "serve/live/live_messages.h"

namespace vesper {
namespace {

class LiveStream {
 public:
  LiveStream(const ApiRequest& request, LiveSessions& sessions, const WebSocketLimits& limits)
      : exchange_(request.exchange),
        socket_(request.exchange, "vesper", limits),
        decoder_(sessions) {}

  void run(const std::function<bool()>& is_stopping) {
    socket_.run(
        {.on_message = [this](std::string_view bytes, bool is_text) { on_message(bytes, is_text); },
         .on_end = [this](bool is_connected) { on_end(is_connected); },
         .is_ending = is_stopping});
  }

 private:
  void on_message(std::string_view bytes, bool is_text) {
    if (is_failed_) return;
    try {
      if (!is_text) {
        write_audio(bytes);
      } else if (!turn_) {
        start(parse_live_start(bytes));
      } else {
        check_live_end(bytes);
        turn_->end();
      }
    } catch (const std::exception& error) {
      fail(error);
    }
  }

  void start(LiveTurnSettings settings) {
    LiveTurnEvents events;
    events.on_ready = [this](const std::string& model) { socket_.send(live_ready(model)); };
    events.on_final = [this](std::span<const CaptionWord> words, double received_s) {
      if (!words.empty()) socket_.send(live_words("final", words, received_s));
    };
    events.on_partial = [this](std::span<const CaptionWord> words, double received_s) {
      socket_.send(live_words("partial", words, received_s));
    };
    events.on_done = [this](const Transcript& transcript) {
      socket_.send_last(live_done(transcript), WebSocketClose::kNormal);
    };
    events.on_error = [this](const std::exception& error) {
      socket_.send_last(live_error(error), WebSocketClose::kInternalError);
    };
    turn_ = std::make_shared<LiveTurn>(std::move(settings), std::move(events));
    decoder_.add(turn_, [] { return false; });
  }

  void write_audio(std::string_view bytes) {
    if (!turn_) throw ApiError(400, "expected a JSON text before the audio");
    if (turn_->has_ended()) throw ApiError(400, "expected no audio after {\"type\": \"end\"}");
    turn_->write(bytes, [this] { return exchange_.client_has_left(); });
  }

  // Decodes what has come, unless nobody is there to read it.
  void on_end(bool is_connected) {
    if (!turn_) return socket_.close(WebSocketClose::kGoingAway, "no stream was started");
    if (is_connected) return turn_->end();
    turn_->cancel();
    socket_.close(WebSocketClose::kGoingAway);
  }

  void fail(const std::exception& error) {
    is_failed_ = true;
    if (turn_) turn_->cancel();
    // The decoder's thread may still send "ready" or words, which must not follow the error.
    socket_.send_last(live_error(error), WebSocketClose::kPolicyViolation);
  }

  HttpExchange& exchange_;
  WebSocket socket_;
  std::shared_ptr<LiveTurn> turn_;  // the only one
  bool is_failed_ = false;
  LiveDecoder decoder_;  // last: its thread uses the socket
};

}  // namespace

void serve_live_stream(const ApiRequest& request, LiveSessions& sessions,
                       const WebSocketLimits& limits, const std::function<bool()>& is_stopping) {
  LiveStream(request, sessions, limits).run(is_stopping);
}

}  // namespace vesper
