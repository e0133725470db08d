// The messages of a WebSocket: a session of realtime transcription, and a live stream. Each line of
// an input is a message; a line that begins with '=' is a binary one.
#include <algorithm>
#include <cmath>
#include <set>

#include "audio/sources/input.h"
#include "serve/live/live_messages.h"
#include "serve/live/realtime_session.h"
#include "serve/models/model_registry.h"
#include "tests/fuzz/fuzz.h"
#include "tests/serve/base64.h"
#include "vad/silero_vad.h"

namespace vesper::fuzz {

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// A chunk is speech if one of its samples is loud.
LiveVad loudness() {
  return [pending = std::vector<float>()](std::span<const float> samples) mutable {
    std::vector<float> probabilities;
    for (const float sample : samples) {
      pending.push_back(sample);
      if (pending.size() < SileroVad::kChunkSamples) continue;
      const bool is_speech = std::ranges::any_of(pending, [](float x) { return x > 0.1f; });
      probabilities.push_back(is_speech ? 0.9f : 0.1f);
      pending.clear();
    }
    return probabilities;
  };
}

// What would be transcribed.
struct Turns {
  bool is_open = false;
  size_t n_samples = 0;  // of all turns
};

RealtimeTasks tasks_of(Turns& turns, std::set<std::string>& event_ids) {
  RealtimeTasks tasks;
  tasks.send = [&event_ids](const std::string& text) {
    const Json event = Json::parse(text);
    require(event.at("type").is_string(), "an event has no type");
    require(event_ids.insert(event.at("event_id")).second, "two events have one id");
  };
  tasks.check_model = [](const std::string& model) {
    if (!model.empty() && model != "tiny") throw UnknownModel("model: expected tiny");
  };
  tasks.open_vad = loudness;
  tasks.begin_turn = [&turns](const RealtimeSettings&, const std::string&) {
    require(!turns.is_open, "a turn begins in a turn");
    turns.is_open = true;
  };
  tasks.write = [&turns](std::span<const float> samples) {
    require(turns.is_open, "samples of no turn");
    for (const float sample : samples) require(std::isfinite(sample), "a sample is not finite");
    turns.n_samples += samples.size();
  };
  tasks.end_turn = tasks.drop_turn = [&turns] {
    require(turns.is_open, "a turn ends twice");
    turns.is_open = false;
  };
  return tasks;
}

void use_realtime(const std::vector<std::string_view>& messages, RealtimeShape shape) {
  Turns turns;
  std::set<std::string> event_ids;
  size_t n_bytes = 0;
  RealtimeSession session("1", "", shape, tasks_of(turns, event_ids));
  for (const std::string_view message : messages) {
    session.take(message);
    n_bytes += message.size();
  }
  session.finish();
  require(!turns.is_open, "the last turn is open");
  require(event_ids.size() <= 1 + 5 * (n_bytes + 1), "more events than a message can have");
  // A byte of text is less than a byte of 8 kHz audio.
  require(turns.n_samples <= 2 * n_bytes, "more samples than were sent");
}

void use_stream(const std::vector<std::string_view>& messages) {
  LiveTurnSettings settings = parse_live_start(messages.front());
  std::string audio;
  for (size_t i = 1; i < messages.size(); ++i) {
    if (messages[i].starts_with('=')) {
      audio += messages[i].substr(1);
    } else {
      check_live_end(messages[i]);
      break;
    }
  }
  if (settings.audio.is_live_container) return;  // ffmpeg reads it
  const auto bytes = std::as_bytes(std::span(audio));
  AudioReader reader = AudioReader::from_memory(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "audio", settings.audio);
  std::vector<float> samples(1000);
  size_t n_samples = 0;
  while (const size_t n = reader.read(samples.data(), samples.size())) n_samples += n;
  require(n_samples <= audio.size(), "more samples than bytes");
}

}  // namespace

std::vector<std::string> seeds() {
  const auto append = [](size_t n_samples, char high) {
    std::string bytes;
    for (size_t i = 0; i < n_samples; ++i) bytes += {'\0', i % 8 < 4 ? high : '\0'};
    return "{\"type\":\"input_audio_buffer.append\",\"audio\":\"" + base64(bytes) + "\"}\n";
  };
  const std::string commit = "{\"type\":\"input_audio_buffer.commit\",\"event_id\":\"a\"}\n";
  const std::string clear = "{\"type\":\"input_audio_buffer.clear\"}\n";
  const std::string update =
      "{\"type\":\"session.update\",\"session\":{\"type\":\"transcription\",\"include\":[],"
      "\"audio\":{\"input\":{\"format\":{\"type\":\"audio/pcm\",\"rate\":24000},\"transcription\":"
      "{\"model\":\"tiny\",\"language\":\"en\",\"prompt\":\"a\",\"keywords\":[\"b\"]},"
      "\"noise_reduction\":null,\"turn_detection\":";
  const std::string vad =
      "{\"type\":\"server_vad\",\"threshold\":0.5,\"prefix_padding_ms\":30,"
      "\"silence_duration_ms\":40}}}}}\n";
  const std::string beta =
      "{\"type\":\"transcription_session.update\",\"session\":{\"input_audio_format\":\"g711_"
      "ulaw\","
      "\"input_audio_transcription\":{\"model\":\"tiny\"},\"turn_detection\":null}}\n";
  return {update + "null}}}}\n" + append(100, 64) + commit + append(50, 64) + clear,
          update + vad + append(1600, 0) + append(1600, 64) + append(3200, 0) + append(800, 64) +
              commit + append(800, 64),
          beta + append(100, 64) + commit,
          "{\"model\":\"tiny\",\"format\":\"pcm16\",\"sample_rate\":8000,\"channels\":2,"
          "\"language\":\"en\",\"prompt\":\"a\",\"step\":0.5}\n=abcdefgh\n{\"type\":\"end\"}\n",
          std::string("{\"format\":\"f32\"}\n=\0\0\x80?\0\0\0@\n", 27)};
}

void use(Bytes input) {
  const std::vector<std::string_view> messages = lines_of(text_of(input));
  if (messages.empty()) return;
  use_realtime(messages, messages.size() % 2 == 0 ? RealtimeShape::kCurrent : RealtimeShape::kBeta);
  try {
    use_stream(messages);
  } catch (const ApiError& error) {
    require(Json::parse(live_error(error)).contains("error"), "an error without a description");
  }
}

}  // namespace vesper::fuzz
