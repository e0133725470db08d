#include "serve/live/realtime_stream.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/live/live_decoder.h"
#include "serve/live/realtime_session.h"
#include "serve/models/model_registry.h"

namespace vesper {
namespace {

RealtimeShape shape_of(const HttpExchange& exchange) {
  return exchange.header("OpenAI-Beta") == "realtime=v1" ? RealtimeShape::kBeta
                                                         : RealtimeShape::kCurrent;
}

std::string without_space(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

class RealtimeStream {
 public:
  RealtimeStream(const ApiRequest& request, LiveSessions& sessions, const WebSocketLimits& limits)
      : exchange_(request.exchange),
        socket_(request.exchange, "realtime", limits),
        session_(request.id, request.exchange.query("model"), shape_of(request.exchange),
                 tasks(sessions)),
        decoder_(sessions) {}

  void run(const std::function<bool()>& is_stopping) {
    socket_.run({.on_message =
                     [this](std::string_view bytes, bool is_text) {
                       if (is_text) return session_.take(bytes);
                       socket_.close(WebSocketClose::kPolicyViolation, "expected JSON texts");
                     },
                 .on_end = [this](bool is_connected) { on_end(is_connected); },
                 .is_ending = is_stopping});
  }

 private:
  RealtimeTasks tasks(LiveSessions& sessions) {
    ModelRegistry& models = sessions.models();
    RealtimeTasks tasks;
    tasks.send = [this](std::string text) { socket_.send(std::move(text)); };
    tasks.check_model = [&models](const std::string& model) { models.speech(model); };
    if (const auto& vad = models.options().speech.vad_model; !vad.empty()) {
      tasks.open_vad = [&vad] { return open_live_vad(vad); };
    }
    tasks.begin_turn = [this](const RealtimeSettings& settings, const std::string& item) {
      begin_turn(settings, item);
    };
    tasks.write = [this](std::span<const float> samples) {
      turn_->write({reinterpret_cast<const char*>(samples.data()), samples.size_bytes()},
                   [this] { return exchange_.client_has_left(); });
    };
    tasks.end_turn = [this] { turn_->end(); };
    tasks.drop_turn = [this] { turn_->cancel(); };
    return tasks;
  }

  void begin_turn(const RealtimeSettings& settings, const std::string& item) {
    LiveTurnSettings turn;
    turn.model = settings.model;
    if (!settings.language.empty()) turn.language = settings.language;
    turn.prompt = settings.prompt;
    for (const std::string& keyword : settings.keywords) {
      turn.hotwords += (turn.hotwords.empty() ? "" : ", ") + keyword;
    }
    turn.audio.raw = RawPcm{.encoding = RawPcm::Encoding::kF32Le};
    LiveTurnEvents events;
    events.on_final = [this, item, is_first = true](std::span<const CaptionWord> words,
                                                    double) mutable {
      std::string text;
      for (const CaptionWord& word : words) text += word.text;
      if (std::exchange(is_first, is_first && text.empty())) text = without_space(text);
      if (!text.empty()) session_.send_delta(item, text);
    };
    events.on_done = [this, item](const Transcript& transcript) {
      std::string text;
      for (const Segment& segment : transcript.segments) text += segment.text;
      session_.send_completed(item, without_space(text), transcript.duration_s);
    };
    events.on_error = [this, item](const std::exception& error) {
      session_.send_failed(item, error);
    };
    turn_ = std::make_shared<LiveTurn>(std::move(turn), std::move(events));
    decoder_.add(turn_, [this] { return exchange_.client_has_left(); });
  }

  void on_end(bool is_connected) {
    if (!is_connected) return socket_.close(WebSocketClose::kGoingAway);
    session_.finish();
    decoder_.finish([this] { socket_.close(WebSocketClose::kGoingAway); });
  }

  HttpExchange& exchange_;
  WebSocket socket_;
  RealtimeSession session_;
  std::shared_ptr<LiveTurn> turn_;  // the last one
  LiveDecoder decoder_;             // last: its thread uses the others
};

}  // namespace

void serve_realtime_stream(const ApiRequest& request, LiveSessions& sessions,
                           const WebSocketLimits& limits,
                           const std::function<bool()>& is_stopping) {
  const std::string intent = request.exchange.query("intent");
  if (intent != "transcription") {
    throw_field("intent", "transcription in the query", '"' + intent.substr(0, 80) + '"');
  }
  // While it can be answered by HTTP.
  const std::string model = request.exchange.query("model");
  if (!model.empty()) sessions.models().speech(model);
  RealtimeStream(request, sessions, limits).run(is_stopping);
}

}  // namespace vesper
