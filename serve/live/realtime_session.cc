#include "serve/live/realtime_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "llm/tokenizer/unicode/utf8_stream.h"
#include "vad/silero_vad.h"

namespace vesper {
namespace {

constexpr uint64_t kSamplesPerMs = kSampleRateHz / 1000;
constexpr const char* kTranscription = "conversation.item.input_audio_transcription.";

Json error_json(const std::exception& error) {
  return Json::parse(error_body(as_api_error(error))).at("error");
}

}  // namespace

RealtimeSession::RealtimeSession(std::string id, std::string model, RealtimeShape shape,
                                 RealtimeTasks tasks)
    : id_(std::move(id)), shape_(shape), tasks_(std::move(tasks)) {
  if (!model.empty()) tasks_.check_model(model);
  settings_.model = std::move(model);
  // As OpenAI's service, if it can be done.
  if (tasks_.open_vad) settings_.turn_detection.emplace();
  const bool is_beta = shape == RealtimeShape::kBeta;
  send(is_beta ? "transcription_session.created" : "session.created",
       {{"session", session_json(settings_, "sess_" + id_, shape)}});
}

void RealtimeSession::take(std::string_view text) {
  Json event_id;
  try {
    const Json message = parse_json(text);
    if (message.is_object() && message.contains("event_id")) event_id = message.at("event_id");
    RequestFields fields(message);
    fields.ignore("event_id");
    const Json& type = fields.require("type", "the name of an event");
    if (!type.is_string()) throw_field("type", "the name of an event", excerpt(type));
    dispatch(type.get<std::string>(), fields);
  } catch (const std::exception& error) {
    Json description = error_json(error);
    description["event_id"] = event_id.is_string() ? event_id : Json();
    send("error", {{"error", std::move(description)}});
  }
}

void RealtimeSession::dispatch(const std::string& type, RequestFields& fields) {
  if (type == "session.update") {
    update(fields, RealtimeShape::kCurrent);
  } else if (type == "transcription_session.update") {
    update(fields, RealtimeShape::kBeta);
  } else if (type == "input_audio_buffer.append") {
    const Json& text = fields.require("audio", "text in base64");
    if (!text.is_string()) throw_field("audio", "text in base64", excerpt(text));
    fields.check_all_used();
    if (!audio_) audio_.emplace(settings_.format);
    append(audio_->samples(text.get_ref<const std::string&>()));
  } else if (type == "input_audio_buffer.commit") {
    fields.check_all_used();
    if (item_.empty()) {
      throw ApiError(400, "input_audio_buffer: expected audio before the commit, found none", "",
                     "input_audio_buffer_commit_empty");
    }
    finish();
  } else if (type == "input_audio_buffer.clear") {
    fields.check_all_used();
    clear();
  } else {
    throw ApiError(400, "type: this server transcribes; it has no event " + excerpt(type), "type",
                   "unknown_event");
  }
}

void RealtimeSession::update(RequestFields& fields, RealtimeShape shape) {
  const Json& session = fields.require("session", "an object");
  fields.check_all_used();
  const bool has_vad = tasks_.open_vad != nullptr;
  RealtimeSettings settings = updated(settings_, session, shape, has_vad);
  if (!settings.model.empty()) tasks_.check_model(settings.model);
  const bool detected = settings_.turn_detection.has_value();
  if (settings.turn_detection.has_value() != detected && !item_.empty()) {
    throw ApiError(400,
                   "turn_detection: expected the turn to be committed or cleared before a change",
                   "session.turn_detection");
  }
  if (settings.format != settings_.format) audio_.reset();
  if (settings.turn_detection) {
    turns_ = SpeechTurns(*settings.turn_detection);
    if (!item_.empty()) turns_.take(1);  // the open turn goes on
  }
  if (!settings.turn_detection || !detected) {
    recent_.clear();
    vad_ = {};
  }
  settings_ = std::move(settings);
  shape_ = shape;
  const bool is_beta = shape == RealtimeShape::kBeta;
  send(is_beta ? "transcription_session.updated" : "session.updated",
       {{"session", session_json(settings_, "sess_" + id_, shape)}});
}

void RealtimeSession::append(std::span<const float> samples) {
  n_received_ += samples.size();
  if (settings_.turn_detection) return detect_turns(samples);
  if (samples.empty()) return;
  if (item_.empty()) begin_turn();
  tasks_.write(samples);
}

void RealtimeSession::detect_turns(std::span<const float> samples) {
  if (!vad_) {
    vad_ = tasks_.open_vad();
    n_heard_ = n_received_ - samples.size();
  }
  recent_.insert(recent_.end(), samples.begin(), samples.end());
  const auto padding =
      static_cast<uint64_t>(settings_.turn_detection->prefix_padding_ms) * kSamplesPerMs;
  // The number of the first sample of recent_ that is neither written nor dropped.
  const uint64_t first = n_received_ - recent_.size();
  uint64_t begin = first;
  const auto write_up_to = [&](uint64_t end) {
    if (end <= begin) return;
    tasks_.write(std::span(recent_).subspan(begin - first, end - begin));
    begin = end;
  };
  for (const float probability : vad_(samples)) {
    const uint64_t chunk = n_heard_;
    n_heard_ += SileroVad::kChunkSamples;
    const SpeechTurns::Event event = turns_.take(double{probability});
    if (event == SpeechTurns::Event::kBegins) {
      begin = std::max(begin, chunk - std::min(chunk, padding));
      begin_turn();
      send("input_audio_buffer.speech_started",
           {{"audio_start_ms", begin / kSamplesPerMs}, {"item_id", item_}});
    }
    if (!item_.empty()) write_up_to(n_heard_);
    if (event == SpeechTurns::Event::kEnds) {
      send("input_audio_buffer.speech_stopped",
           {{"audio_end_ms", n_heard_ / kSamplesPerMs}, {"item_id", item_}});
      commit();
    }
  }
  if (item_.empty()) begin = std::max(begin, n_heard_ - std::min(n_heard_, padding));
  recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(begin - first));
}

void RealtimeSession::begin_turn() {
  const std::string item = "item_" + id_ + '_' + std::to_string(++n_turns_);
  tasks_.check_model(settings_.model);  // may be the first one
  tasks_.begin_turn(settings_, item);
  item_ = item;
}

void RealtimeSession::commit() {
  const Json previous = previous_.empty() ? Json() : Json(previous_);
  send("input_audio_buffer.committed", {{"previous_item_id", previous}, {"item_id", item_}});
  if (shape_ == RealtimeShape::kBeta) {
    send_item("conversation.item.created", previous);
  } else {
    send_item("conversation.item.added", previous);
    send_item("conversation.item.done", previous);
  }
  previous_ = std::exchange(item_, {});
  turns_.reset();
  tasks_.end_turn();
}

void RealtimeSession::clear() {
  if (!item_.empty()) tasks_.drop_turn();
  item_.clear();
  recent_.clear();
  turns_.reset();
  send("input_audio_buffer.cleared", Json::object());
}

void RealtimeSession::finish() {
  if (item_.empty()) return;
  tasks_.write(recent_);
  recent_.clear();
  commit();
}

void RealtimeSession::send_delta(const std::string& item, const std::string& text) {
  send(std::string(kTranscription) + "delta",
       {{"item_id", item}, {"content_index", 0}, {"delta", valid_utf8(text)}});
}

void RealtimeSession::send_completed(const std::string& item, const std::string& text,
                                     double seconds) {
  const double rounded = std::round(seconds * 1000) / 1000;
  send(std::string(kTranscription) + "completed",
       {{"item_id", item},
        {"content_index", 0},
        {"transcript", valid_utf8(text)},
        {"usage", {{"type", "duration"}, {"seconds", rounded}}}});
}

void RealtimeSession::send_failed(const std::string& item, const std::exception& error) {
  send(std::string(kTranscription) + "failed",
       {{"item_id", item}, {"content_index", 0}, {"error", error_json(error)}});
}

void RealtimeSession::send_item(const std::string& type, const Json& previous) {
  const Json content = Json::array({{{"type", "input_audio"}, {"transcript", nullptr}}});
  send(type, {{"previous_item_id", previous},
              {"item",
               {{"id", item_},
                {"object", "realtime.item"},
                {"type", "message"},
                {"status", "completed"},
                {"role", "user"},
                {"content", content}}}});
}

void RealtimeSession::send(const std::string& type, Json fields) {
  Json event = {{"type", type}, {"event_id", "event_" + id_ + '_' + std::to_string(++n_events_)}};
  event.update(fields);
  tasks_.send(dump_json(event));
}

}  // namespace vesper
