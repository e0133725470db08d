// The realtime transcription messages of OpenAI's API, without a socket and a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "error/error.h"
#include "serve/live/realtime_session.h"
#include "serve/models/model_registry.h"
#include "tests/llm/counted_allocations.h"
#include "tests/serve/base64.h"
#include "vad/silero_vad.h"

namespace vesper::realtime_test {
namespace {

// The resampler holds back what further samples determine.
constexpr double kHeldBack = 300;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// 16-bit samples at 24 kHz of a tone.
std::string tone(double seconds, double loudness) {
  std::string bytes;
  for (size_t i = 0; i < static_cast<size_t>(seconds * 24000); ++i) {
    const double value = loudness * std::sin(2 * M_PI * 440 * static_cast<double>(i) / 24000);
    const auto sample = static_cast<int16_t>(std::lround(value * 32767));
    bytes += static_cast<char>(sample & 0xff);
    bytes += static_cast<char>(sample >> 8 & 0xff);
  }
  return bytes;
}

// Speech is what is loud.
LiveVad loudness() {
  return [pending = std::vector<float>()](std::span<const float> samples) mutable {
    pending.insert(pending.end(), samples.begin(), samples.end());
    std::vector<float> probabilities;
    size_t at = 0;
    for (; at + SileroVad::kChunkSamples <= pending.size(); at += SileroVad::kChunkSamples) {
      float most = 0;
      for (size_t i = 0; i < SileroVad::kChunkSamples; ++i) {
        most = std::max(most, std::abs(pending[at + i]));
      }
      probabilities.push_back(most > 0.1f ? 1.0f : 0.0f);
    }
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(at));
    return probabilities;
  };
}

struct Turn {
  std::string item = {};
  size_t n_samples = 0;
  std::string end = {};  // "end" or "drop"
};

// A client, its session, and what would be transcribed.
class Client {
 public:
  explicit Client(bool has_vad = false, RealtimeShape shape = RealtimeShape::kCurrent)
      : session("1", "", shape, tasks(has_vad)) {}

  void send(const Json& message) { session.take(message.dump()); }
  void append(const std::string& bytes) {
    send({{"type", "input_audio_buffer.append"}, {"audio", base64(bytes)}});
  }
  void commit() { send({{"type", "input_audio_buffer.commit"}}); }
  void update(const Json& input) {
    const Json fields = {{"type", "transcription"}, {"audio", {{"input", input}}}};
    send({{"type", "session.update"}, {"session", fields}});
  }
  // The types of the events since the last call.
  std::vector<std::string> types() {
    std::vector<std::string> list;
    for (; n_read < events.size(); ++n_read) list.push_back(events[n_read].at("type"));
    return list;
  }
  const Json& last() const { return events.back(); }
  // The message of the last event, which is an error.
  std::string error() const {
    if (last().at("type") != "error") return "no error: " + last().dump();
    return last().at("error").at("message").get<std::string>();
  }

  std::vector<Json> events;
  size_t n_read = 0;
  std::vector<Turn> turns;
  RealtimeSession session;

 private:
  RealtimeTasks tasks(bool has_vad) {
    RealtimeTasks tasks;
    tasks.send = [this](const std::string& text) { events.push_back(Json::parse(text)); };
    tasks.check_model = [](const std::string& model) {
      if (model != "" && model != "tiny") throw UnknownModel("model: expected tiny");
    };
    if (has_vad) tasks.open_vad = loudness;
    tasks.begin_turn = [this](const RealtimeSettings&, const std::string& item) {
      turns.push_back({.item = item});
    };
    tasks.write = [this](std::span<const float> samples) {
      turns.back().n_samples += samples.size();
    };
    tasks.end_turn = [this] { turns.back().end = "end"; };
    tasks.drop_turn = [this] { turns.back().end = "drop"; };
    return tasks;
  }
};

TEST(RealtimeSession, BeginsWithItsSettings) {
  const Client current(true), beta(false, RealtimeShape::kBeta);
  EXPECT_EQ(current.last().at("type"), "session.created");
  const Json& session = current.last().at("session");
  EXPECT_EQ(session.at("type"), "transcription");
  const Json& input = session.at("audio").at("input");
  EXPECT_EQ(input.at("format"), Json({{"type", "audio/pcm"}, {"rate", 24000}}));
  EXPECT_EQ(input.at("turn_detection").at("type"), "server_vad");
  EXPECT_EQ(beta.last().at("type"), "transcription_session.created");
  EXPECT_EQ(beta.last().at("session").at("input_audio_format"), "pcm16");
  EXPECT_TRUE(beta.last().at("session").at("turn_detection").is_null());
}

TEST(RealtimeSession, AnUpdateChangesOnlyWhatItNames) {
  Client client(true);
  client.update({{"format", {{"type", "audio/pcmu"}}},
                 {"transcription", {{"model", "tiny"}, {"language", "de"}, {"prompt", "Hallo."}}},
                 {"turn_detection", {{"type", "server_vad"}, {"silence_duration_ms", 300}}}});
  client.update({{"transcription", {{"keywords", {"Vesper"}}}}, {"turn_detection", nullptr}});
  EXPECT_THAT(client.types(), ElementsAre("session.created", "session.updated", "session.updated"));
  const Json& input = client.last().at("session").at("audio").at("input");
  EXPECT_EQ(input.at("format"), Json({{"type", "audio/pcmu"}}));
  EXPECT_EQ(
      input.at("transcription"),
      Json(
          {{"model", "tiny"}, {"prompt", "Hallo."}, {"language", "de"}, {"keywords", {"Vesper"}}}));
  EXPECT_TRUE(input.at("turn_detection").is_null());
  client.send({{"type", "transcription_session.update"},
               {"session",
                {{"input_audio_format", "g711_alaw"},
                 {"input_audio_transcription", {{"language", ""}}},
                 {"turn_detection", {{"type", "server_vad"}, {"threshold", 0.25}}}}}});
  EXPECT_EQ(client.last().at("type"), "transcription_session.updated");
  const Json& session = client.last().at("session");
  EXPECT_EQ(session.at("input_audio_format"), "g711_alaw");
  EXPECT_EQ(session.at("input_audio_transcription").at("prompt"), "Hallo.");
  EXPECT_FALSE(session.at("input_audio_transcription").contains("language"));
  EXPECT_EQ(session.at("turn_detection").at("threshold"), 0.25);
}

TEST(RealtimeSession, NamesAFieldThatItCannotHonour) {
  const std::vector<std::pair<Json, std::string>> wrong = {
      {{{"format", {{"type", "audio/mp3"}}}}, "audio.input.format.type: expected audio/pcm"},
      {{{"format", {{"type", "audio/pcm"}, {"rate", 16000}}}}, "audio.input.format.rate"},
      {{{"transcription", {{"model", "gpt-4o-transcribe"}}}}, "model: expected tiny"},
      {{{"transcription", {{"language", "xx"}}}}, "transcription.language: expected a language"},
      {{{"transcription", {{"delay", "low"}}}}, "transcription.delay: this server has no such"},
      {{{"transcription", nullptr}}, "session.audio.input.transcription: expected an object"},
      {{{"noise_reduction", {{"type", "near_field"}}}}, "session.audio.input.noise_reduction"},
      {{{"turn_detection", {{"type", "semantic_vad"}}}}, "turn_detection.type"},
      {{{"turn_detection", {{"type", "server_vad"}, {"create_response", true}}}},
       "turn_detection.create_response"},
      {{{"turn_detection", {{"type", "server_vad"}, {"prefix_padding_ms", -1}}}},
       "turn_detection.prefix_padding_ms: expected an integer from 0"},
      {{{"turn_detection", {{"type", "server_vad"}}}}, "null, because no VAD model is installed"},
      {{{"colour", "red"}}, "session.audio.input.colour: this server has no such field"},
  };
  Client client;
  for (const auto& [input, message] : wrong) {
    client.update(input);
    EXPECT_THAT(client.error(), HasSubstr(message));
  }
  const std::vector<std::pair<Json, std::string>> messages = {
      {{{"type", "session.update"}, {"session", {{"type", "realtime"}}}}, "session.type"},
      {{{"type", "session.update"}}, "session: expected an object"},
      {{{"type", "session.update"},
        {"session",
         {{"type", "transcription"}, {"include", {"item.input_audio_transcription.logprobs"}}}}},
       "session.include"},
      {{{"type", "response.create"}}, "it has no event \"response.create\""},
      {{{"type", "input_audio_buffer.append"}, {"audio", "AA=A"}},
       "audio: expected text in base64"},
      {{{"type", "input_audio_buffer.append"}, {"audio", "AAA"}}, "audio: expected text in base64"},
      {{{"type", "input_audio_buffer.append"}, {"audio", " AAA"}},
       "audio: expected text in base64"},
      {{{"type", "input_audio_buffer.append"}, {"audio", 1}}, "audio: expected text in base64"},
      {{{"type", 7}}, "type: expected the name of an event"},
      {Json::array(), "expected an object"},
  };
  for (const auto& [message, text] : messages) {
    client.send(message);
    EXPECT_THAT(client.error(), HasSubstr(text));
  }
  client.session.take("{");
  EXPECT_THAT(client.error(), HasSubstr("expected JSON"));
  EXPECT_THAT(client.turns, IsEmpty());
}

TEST(RealtimeSession, AnErrorNamesItsEvent) {
  Client client;
  client.send({{"type", "input_audio_buffer.commit"}, {"event_id", "mine"}});
  EXPECT_EQ(client.last().at("error").at("event_id"), "mine");
  EXPECT_EQ(client.last().at("error").at("code"), "input_audio_buffer_commit_empty");
  EXPECT_EQ(client.last().at("error").at("type"), "invalid_request_error");
}

TEST(RealtimeSession, TheClientEndsItsTurns) {
  Client client;
  client.types();
  client.append("");
  EXPECT_THAT(client.turns, IsEmpty());
  const std::string second = tone(1, 0.5);
  client.append(second.substr(0, 10001));  // inside a sample
  client.append(second.substr(10001));
  EXPECT_THAT(client.types(), IsEmpty());
  client.commit();
  EXPECT_THAT(client.types(), ElementsAre("input_audio_buffer.committed", "conversation.item.added",
                                          "conversation.item.done"));
  client.append(second);
  client.commit();
  ASSERT_EQ(client.turns.size(), 2u);
  EXPECT_NEAR(static_cast<double>(client.turns[0].n_samples), 16000, kHeldBack);
  EXPECT_EQ(client.turns[0].end, "end");
  const Json& item = client.last().at("item");
  EXPECT_EQ(item.at("id"), client.turns[1].item);
  EXPECT_EQ(item.at("role"), "user");
  EXPECT_EQ(client.last().at("previous_item_id"), client.turns[0].item);
  EXPECT_NE(client.turns[0].item, client.turns[1].item);
}

TEST(RealtimeSession, OlderClientsGetItemsThatAreCreated) {
  Client client(false, RealtimeShape::kBeta);
  client.append(tone(0.1, 0.5));
  client.types();
  client.commit();
  EXPECT_THAT(client.types(),
              ElementsAre("input_audio_buffer.committed", "conversation.item.created"));
}

TEST(RealtimeSession, AClearedTurnIsDropped) {
  Client client;
  client.append(tone(0.5, 0.5));
  client.types();
  client.send({{"type", "input_audio_buffer.clear"}});
  EXPECT_THAT(client.types(), ElementsAre("input_audio_buffer.cleared"));
  EXPECT_EQ(client.turns.at(0).end, "drop");
  client.commit();
  EXPECT_THAT(client.error(), HasSubstr("found none"));
}

TEST(RealtimeSession, TurnsBeginAndEndWithSpeech) {
  Client client(true);
  client.types();
  const std::string audio = tone(2, 0) + tone(1, 0.5) + tone(1, 0) + tone(1, 0.5) + tone(1, 0);
  for (size_t at = 0; at < audio.size(); at += 3001) client.append(audio.substr(at, 3001));
  const std::vector<std::string> turn = {
      "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
      "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"};
  std::vector<std::string> both = turn;
  both.insert(both.end(), turn.begin(), turn.end());
  const size_t first = client.events.size() - both.size();
  ASSERT_EQ(client.types(), both);
  constexpr double kChunkMs = 32, kPaddingMs = 300, kSilenceMs = 500;
  for (const size_t i : {0u, 1u}) {
    const double begin = client.events[first + 5 * i].at("audio_start_ms");
    const double end = client.events[first + 5 * i + 1].at("audio_end_ms");
    EXPECT_NEAR(begin, 2000 + 2000 * static_cast<double>(i) - kPaddingMs, kChunkMs);
    EXPECT_NEAR(end, 3000 + 2000 * static_cast<double>(i) + kSilenceMs, 3 * kChunkMs);
    EXPECT_NEAR(static_cast<double>(client.turns.at(i).n_samples), (end - begin) * 16, 16);
    EXPECT_EQ(client.turns.at(i).end, "end");
  }
}

TEST(RealtimeSession, ACommitDuringSpeechBeginsAnotherTurn) {
  Client client(true);
  client.append(tone(1, 0.5));
  client.commit();
  client.append(tone(1, 0.5));
  client.session.finish();
  ASSERT_EQ(client.turns.size(), 2u);
  const size_t n_samples = client.turns[0].n_samples + client.turns[1].n_samples;
  EXPECT_NEAR(static_cast<double>(n_samples), 32000, kHeldBack);
  EXPECT_EQ(client.turns[1].end, "end");
}

TEST(RealtimeSession, TurnDetectionChangesBetweenTurns) {
  Client client(true);
  client.append(tone(1, 0.5));
  client.update({{"turn_detection", nullptr}});
  EXPECT_THAT(client.error(), HasSubstr("expected the turn to be committed or cleared"));
  // Its settings may change.
  client.update({{"turn_detection", {{"type", "server_vad"}, {"silence_duration_ms", 100}}}});
  EXPECT_EQ(client.last().at("type"), "session.updated");
  client.append(tone(0.3, 0));
  EXPECT_EQ(client.turns.at(0).end, "end");
  client.update({{"turn_detection", nullptr}});
  EXPECT_EQ(client.last().at("type"), "session.updated");
  client.append(tone(0.1, 0));
  EXPECT_EQ(client.turns.size(), 2u);
}

TEST(RealtimeSession, SoundIsOfTheLastFormat) {
  Client client;
  const std::string second = tone(1, 0.5);
  client.append(second.substr(0, second.size() - 1));  // half a sample is left
  client.update({{"format", {{"type", "audio/pcmu"}}}});
  client.append(std::string(8000, '\x80'));
  client.update({{"format", {{"type", "audio/pcm"}}}});
  client.append(second);
  client.commit();
  EXPECT_NEAR(static_cast<double>(client.turns.at(0).n_samples), 3 * 16000, 3 * kHeldBack);
}

TEST(RealtimeSession, AFormatWithoutSoundHasNoResampler) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  Client client;
  client.events.reserve(8);
  const auto allocations_of_update = [&](const char* type) {
    const Json input = {{"format", {{"type", type}}}};
    const uint64_t before = n_allocations();
    client.update(input);
    return n_allocations() - before;
  };
  client.update({{"format", {{"type", "audio/pcmu"}}}});
  const uint64_t changed = allocations_of_update("audio/pcma");
  const uint64_t unchanged = allocations_of_update("audio/pcma");
  EXPECT_EQ(changed, unchanged);
}

TEST(RealtimeSession, SendsTextsOfATurn) {
  Client client;
  client.session.send_delta("item_1", "to be");
  EXPECT_EQ(client.last().at("delta"), "to be");
  client.session.send_completed("item_1", "to be or not", 1.23456);
  EXPECT_EQ(client.last().at("type"), "conversation.item.input_audio_transcription.completed");
  EXPECT_EQ(client.last().at("transcript"), "to be or not");
  EXPECT_EQ(client.last().at("usage"), Json({{"type", "duration"}, {"seconds", 1.235}}));
  client.session.send_failed("item_1", Error(ErrorKind::kInput, "no sound"));
  EXPECT_EQ(client.last().at("item_id"), "item_1");
  EXPECT_THAT(client.last().at("error").at("message").get<std::string>(), HasSubstr("no sound"));
}

// Values of Python 3.11's audioop at 16 bits: the ends of the scale, and around zero.
TEST(InputAudio, HasTheSamplesOfG711) {
  EXPECT_EQ(mu_law_sample(0x00) * 32768, -32124);
  EXPECT_EQ(mu_law_sample(0x80) * 32768, 32124);
  EXPECT_EQ(mu_law_sample(0xff) * 32768, 0);
  EXPECT_EQ(mu_law_sample(0xfe) * 32768, 8);
  EXPECT_EQ(a_law_sample(0x2a) * 32768, -32256);
  EXPECT_EQ(a_law_sample(0xaa) * 32768, 32256);
  EXPECT_EQ(a_law_sample(0xd5) * 32768, 8);
  EXPECT_EQ(a_law_sample(0x55) * 32768, -8);
  InputAudio audio(InputFormat::kMuLaw);
  EXPECT_NEAR(static_cast<double>(audio.samples(base64(std::string(8000, '\x80'))).size()), 16000,
              kHeldBack);
}

}  // namespace
}  // namespace vesper::realtime_test
