// The realtime transcription messages of OpenAI's API, without a socket and a model. In: the
// messages of a client. Out: events for it, and the turns that are to be transcribed. Called by
// realtime_stream.cc and the fuzz target.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/live/input_audio.h"
#include "serve/live/realtime_settings.h"
#include "session/speech/live_vad.h"
#include "vad/speech_turns.h"

namespace vesper {

// What a session needs of others. None may throw but those that say so.
struct RealtimeTasks {
  std::function<void(std::string text)> send;  // to the client; any thread
  // Throws an exception that as_api_error() knows if there is no such speech model. Empty: the only
  // one.
  std::function<void(const std::string& model)> check_model;
  // Opens the VAD model. Absent: there is none. May throw Error.
  std::function<LiveVad()> open_vad;
  // Begins to transcribe a turn. May throw Error.
  std::function<void(const RealtimeSettings& settings, const std::string& item)> begin_turn;
  std::function<void(std::span<const float> samples)> write;  // of the turn, 16 kHz mono
  std::function<void()> end_turn;
  std::function<void()> drop_turn;
};

// One thread calls all but the events of a transcription.
class RealtimeSession {
 public:
  // `id`: unique among sessions; a part of all ids. `model`: of the transcriptions; empty if the
  // client names it later, or there is only one. Sends the first event. Throws what
  // RealtimeTasks::check_model throws.
  RealtimeSession(std::string id, std::string model, RealtimeShape shape, RealtimeTasks tasks);

  // A message of the client. An error of it is sent to the client, and the session goes on.
  void take(std::string_view text);
  // No message follows: ends the turn that is open.
  void finish();

  // Events of the transcription of `item`. Any thread may send them.
  void send_delta(const std::string& item, const std::string& text);
  void send_completed(const std::string& item, const std::string& text, double seconds);
  void send_failed(const std::string& item, const std::exception& error);

 private:
  void dispatch(const std::string& type, RequestFields& fields);
  void update(RequestFields& fields, RealtimeShape shape);
  void append(std::span<const float> samples);
  void detect_turns(std::span<const float> samples);
  void begin_turn();
  void commit();
  void clear();
  void send(const std::string& type, Json fields);
  void send_item(const std::string& type, const Json& previous);

  const std::string id_;
  RealtimeShape shape_;
  RealtimeTasks tasks_;
  RealtimeSettings settings_;
  std::optional<InputAudio> audio_;  // absent: nothing was appended in the format of settings_
  std::atomic<uint64_t> n_events_ = 0;

  uint64_t n_turns_ = 0;
  std::string item_;      // of the open turn; empty: none
  std::string previous_;  // item; empty: none

  // With turn detection. Sample numbers count from the first sample of the session.
  LiveVad vad_;
  SpeechTurns turns_{{}};
  uint64_t n_received_ = 0;    // samples
  uint64_t n_heard_ = 0;       // samples whose probability is known
  std::vector<float> recent_;  // the last samples, which no turn has
};

}  // namespace vesper
