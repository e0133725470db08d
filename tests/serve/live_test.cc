// Live captions by WebSocket, over a tiny model with random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "serve/server/server.h"
#include "tests/audio/made_recordings.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/serve/base64.h"
#include "tests/serve/loopback_client.h"
#include "tests/temporary_folder.h"

namespace vesper::live_test {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using Json = nlohmann::json;
using testing::HasSubstr;

class Models {
 public:
  Models() {
    const std::filesystem::path speech = folder_.path() / "speech";
    std::filesystem::create_directories(speech);
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), speech);
    RegistryOptions options;
    options.speech = {.device = "cpu", .compute = "f32", .threads = 1};
    registry.emplace(options);
    registry->add("speech", speech);
  }
  std::optional<ModelRegistry> registry;

 private:
  TemporaryFolder folder_;
};

// A client that fails with the error of the connection.
class Client {
 public:
  Client(uint16_t port, const std::string& header = "", const std::string& value = "",
         const std::string& path = "/v1/audio/stream")
      : stream_(io_) {
    beast::get_lowest_layer(stream_).connect({asio::ip::make_address("127.0.0.1"), port});
    if (!header.empty()) {
      stream_.set_option(websocket::stream_base::decorator(
          [header, value](websocket::request_type& request) { request.set(header, value); }));
    }
    stream_.handshake(response, "127.0.0.1:" + std::to_string(port), path, error);
  }

  void text(const Json& message) {
    stream_.text(true);
    stream_.write(asio::buffer(message.dump()), error);
  }
  void audio(const std::string& bytes) {
    stream_.binary(true);
    stream_.write(asio::buffer(bytes), error);
  }
  // The messages up to the end of the connection.
  std::vector<Json> read_all() {
    std::vector<Json> messages;
    for (;;) {
      beast::flat_buffer buffer;
      stream_.read(buffer, error);
      if (error) return messages;
      messages.push_back(Json::parse(beast::buffers_to_string(buffer.data())));
    }
  }
  Json read() {
    beast::flat_buffer buffer;
    stream_.read(buffer, error);
    return error ? Json() : Json::parse(beast::buffers_to_string(buffer.data()));
  }
  int close_code() const { return stream_.reason().code; }
  void leave() { beast::get_lowest_layer(stream_).close(); }

  beast::error_code error;
  websocket::response_type response;

 private:
  asio::io_context io_;
  websocket::stream<asio::ip::tcp::socket> stream_;
};

class RealtimeClient : public Client {
 public:
  explicit RealtimeClient(uint16_t port)
      : Client(port, "", "", "/v1/realtime?intent=transcription") {}

  // `bytes`: 16-bit samples at 24 kHz.
  void append(const std::string& bytes) {
    text({{"type", "input_audio_buffer.append"}, {"audio", base64(bytes)}});
  }
  void commit() { text({{"type", "input_audio_buffer.commit"}}); }
};

class Live : public testing::Test {
 protected:
  static void SetUpTestSuite() { models_.emplace(); }
  static void TearDownTestSuite() { models_.reset(); }
  // A slow build does not make its clients idle.
  void SetUp() override { start({.live = {.idle = std::chrono::minutes(10)}}); }
  void TearDown() override { stop(); }

  void start(ServerOptions options) {
    stop();
    options.port = 0;
    server_.emplace(*models_->registry, options);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  uint16_t port() const { return server_->port(); }

  // 16-bit samples of noise.
  static std::string pcm16(double seconds) {
    std::string bytes;
    for (const float sample : noise(0.3f, static_cast<size_t>(seconds * 16000), 1)) {
      const auto value = static_cast<int16_t>(sample * 32767);
      bytes += static_cast<char>(value & 0xff);
      bytes += static_cast<char>(value >> 8);
    }
    return bytes;
  }
  // The status of a refused upgrade.
  int upgrade_with(const std::string& header) {
    return request(port(), "GET", "/v1/audio/stream", "", kWebSocketHeaders + header).status;
  }
  static Json last_of(const std::vector<Json>& messages) {
    return messages.empty() ? Json() : messages.back();
  }
  static void expect_error(Client& client, const std::string& text) {
    const Json last = last_of(client.read_all());
    ASSERT_EQ(last.value("type", ""), "error") << last;
    EXPECT_THAT(last.at("error").at("message").get<std::string>(), HasSubstr(text));
  }

  static inline std::optional<Models> models_;
  std::optional<Server> server_;
  std::thread thread_;
};

TEST_F(Live, CaptionsComeWhileAudioIsSentAndAtTheEnd) {
  Client client(port());
  client.text({{"model", "speech"}, {"language", "en"}, {"format", "pcm16"}, {"step", 0.5}});
  EXPECT_EQ(client.read(), Json({{"type", "ready"}, {"model", "speech"}}));
  const std::string bytes = pcm16(5.25);
  client.audio(bytes.substr(0, 120001));  // ends inside a sample
  const Json early = client.read();
  EXPECT_THAT(early.at("type"), testing::AnyOf("partial", "final"));
  EXPECT_GT(early.at("received_s"), 0.4);
  client.audio(bytes.substr(120001));
  client.text({{"type", "end"}});
  const std::vector<Json> messages = client.read_all();
  std::string finals;
  for (const Json& message : messages) {
    if (message.at("type") != "final" && message.at("type") != "partial") continue;
    std::string text;
    for (const Json& word : message.at("words")) {
      text += word.at("word").get<std::string>();
      EXPECT_LE(word.at("start"), word.at("end"));
    }
    if (message.at("type") == "final") finals += text;
  }
  const Json done = last_of(messages);
  EXPECT_EQ(done.at("type"), "done");
  EXPECT_EQ(done.at("duration"), 5.25);
  EXPECT_EQ(done.at("language"), "en");
  EXPECT_EQ(client.close_code(), 1000);
}

TEST_F(Live, FloatsAndOtherRatesHaveTheSameDuration) {
  Client client(port());
  client.text({{"format", "f32"}, {"sample_rate", 48000}, {"channels", 2}, {"language", "en"}});
  const std::vector<float> samples = noise(0.3f, 48000 * 2 * 2, 1);
  const std::string bytes(reinterpret_cast<const char*>(samples.data()),
                          samples.size() * sizeof(float));
  for (size_t at = 0; at < bytes.size(); at += 65536) client.audio(bytes.substr(at, 65536));
  client.text({{"type", "end"}});
  EXPECT_EQ(last_of(client.read_all()).at("duration"), 2.0);
}

TEST_F(Live, ContainersOfBrowsersAreDecodedWhileTheyCome) {
  if (std::system("ffmpeg -version > /dev/null 2>&1") != 0) GTEST_SKIP() << "ffmpeg is not there";
  const TemporaryFolder folder;
  for (const std::string format : {"webm", "ogg"}) {
    const std::string path = folder.path() / ("talk." + format);
    const std::string command =
        "ffmpeg -v error -f lavfi -i anoisesrc=d=6:a=0.3 -c:a libopus " + path;
    ASSERT_EQ(std::system(command.c_str()), 0);
    Client client(port());
    client.text({{"format", format}, {"language", "en"}, {"step", 0.5}});
    EXPECT_EQ(client.read().at("type"), "ready");
    client.audio(bytes_of(path));
    EXPECT_THAT(client.read().at("type"), testing::AnyOf("partial", "final"))
        << "before the end of the stream";
    client.text({{"type", "end"}});
    EXPECT_NEAR(last_of(client.read_all()).at("duration").get<double>(), 6, 0.1) << format;
  }
}

TEST_F(Live, TheFirstMessageDescribesTheAudio) {
  const std::vector<std::pair<Json, std::string>> wrong = {
      {{{"format", "mp3"}}, "format: expected pcm16, f32, webm or ogg"},
      {{{"model", "none"}}, "model: expected"},
      {{{"sample_rate", 10}}, "sample_rate: expected an integer from 1000"},
      {{{"format", "webm"}, {"channels", 2}}, "channels"},
      {{{"step", 0.01}}, "step: expected"},
      {{{"language", "xx"}}, "language"},
      {{{"colour", "red"}}, "colour"},
      {Json::array(), "expected"},
  };
  for (const auto& [first, message] : wrong) {
    Client client(port());
    client.text(first);
    client.audio(pcm16(0.2));
    client.text({{"type", "end"}});
    expect_error(client, message);
  }
  Client early(port());
  early.audio(pcm16(0.1));
  expect_error(early, "expected a JSON text before the audio");
}

TEST_F(Live, AfterTheEndComesNothing) {
  for (const bool is_audio : {true, false}) {
    Client client(port());
    client.text({{"language", "en"}});
    client.audio(pcm16(0.2));
    client.text({{"type", is_audio ? "end" : "stop"}});
    if (is_audio) client.audio(pcm16(0.2));
    expect_error(client, is_audio ? "no audio after" : "type");
  }
}

TEST_F(Live, OtherSitesAndOtherMethodsAreRefused) {
  EXPECT_EQ(upgrade_with("Origin: https://elsewhere.example\r\n"), 403);
  Client own(port(), "Origin", "http://127.0.0.1:" + std::to_string(port()));
  EXPECT_EQ(own.response.result_int(), 101);
  EXPECT_EQ(request(port(), "GET", "/v1/audio/stream").status, 426);
  EXPECT_EQ(request(port(), "POST", "/v1/audio/stream").status, 405);
  EXPECT_EQ(upgrade_with("Sec-WebSocket-Key: short\r\n"), 400);
}

TEST_F(Live, TheKeyMayBeAProtocol) {
  const TemporaryFolder folder;
  // SHA-256 of "secret".
  std::ofstream(folder.path() / "keys")
      << "me 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n";
  start({.keys_file = folder.path() / "keys"});
  const std::string header = "Sec-WebSocket-Protocol";
  EXPECT_EQ(upgrade_with(""), 401);
  EXPECT_EQ(upgrade_with(header + ": vesper, openai-insecure-api-key.wrong\r\n"), 401);
  const Client client(port(), header, "vesper, openai-insecure-api-key.secret");
  EXPECT_EQ(client.response.result_int(), 101);
  EXPECT_EQ(client.response[header], "vesper");
}

TEST_F(Live, StreamsHaveALimitAndEndWithTheirClients) {
  start({.n_live_streams = 1});
  Client first(port());
  first.text({{"language", "en"}});
  EXPECT_EQ(first.read().at("type"), "ready");
  {
    Client second(port());
    second.text({{"language", "en"}});
    expect_error(second, "serves 1 at once");
  }
  first.leave();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::string type; type != "ready";) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the stream of a client that left";
    Client next(port());
    next.text({{"language", "en"}});
    type = next.read().value("type", "");
  }
}

TEST_F(Live, RealtimeTurnsAreTranscribedInOrder) {
  RealtimeClient client(port());
  EXPECT_EQ(client.read().at("type"), "session.created");
  for (int turn = 0; turn < 3; ++turn) {
    client.append(pcm16(1.5));
    client.append(pcm16(1));
    client.commit();
  }
  std::vector<std::string> committed, completed;
  std::map<std::string, std::string> deltas;
  while (completed.size() < 3) {
    const Json event = client.read();
    ASSERT_FALSE(event.is_null());
    const std::string type = event.at("type");
    if (type == "input_audio_buffer.committed") committed.push_back(event.at("item_id"));
    if (type.ends_with("transcription.delta")) {
      deltas[event.at("item_id")] += event.at("delta").get<std::string>();
    }
    if (!type.ends_with("transcription.completed")) continue;
    completed.push_back(event.at("item_id"));
    EXPECT_EQ(event.at("transcript"), deltas[completed.back()]);
    EXPECT_NEAR(event.at("usage").at("seconds").get<double>(), 2.5 * 2 / 3, 0.02);
  }
  EXPECT_EQ(completed, committed);
}

TEST_F(Live, RealtimeAudioIsDecodedBeforeItIsCommitted) {
  RealtimeClient client(port());
  client.append(pcm16(9));
  std::string type;
  while (!type.ends_with("transcription.delta")) {
    const Json event = client.read();
    ASSERT_FALSE(event.is_null());
    type = event.at("type");
  }
}

TEST_F(Live, AServerThatStopsEndsTheTurnOfARealtimeClient) {
  RealtimeClient client(port());
  client.append(pcm16(3));
  client.text({{"type", "none"}});
  while (client.read().at("type") != "error") {
  }  // the audio has arrived
  server_->stop();
  EXPECT_EQ(last_of(client.read_all()).at("type"),
            "conversation.item.input_audio_transcription.completed");
  EXPECT_EQ(client.close_code(), 1001);
}

TEST_F(Live, ARealtimeClientThatLeavesGivesItsStreamBack) {
  start({.n_live_streams = 1});
  RealtimeClient first(port());
  first.append(pcm16(5));
  first.leave();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::optional<Client> next;
  for (std::string type; type != "ready";) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    next.emplace(port());
    next->text({{"language", "en"}});
    type = next->read().value("type", "");
  }
  // Without a stream, each turn fails by itself.
  RealtimeClient second(port());
  second.append(pcm16(1));
  Json event = Json::object();
  while (event.value("type", "") != "conversation.item.input_audio_transcription.failed") {
    event = second.read();
    ASSERT_FALSE(event.is_null());
  }
  EXPECT_EQ(event.at("error").at("code"), "too_many_streams");
}

TEST_F(Live, RealtimeRequestsThatAreNoTranscriptionAreRefused) {
  const auto status = [&](const std::string& query, const std::string& headers) {
    return request(port(), "GET", "/v1/realtime" + query, "", headers).status;
  };
  EXPECT_EQ(status("?model=speech", kWebSocketHeaders), 400);
  EXPECT_EQ(status("?intent=transcription&model=none", kWebSocketHeaders), 404);
  EXPECT_EQ(status("?intent=transcription", ""), 426);
  RealtimeClient binary(port());
  binary.audio("audio");
  binary.read_all();
  EXPECT_EQ(binary.close_code(), 1008);
}

TEST_F(Live, MessagesHaveALimit) {
  start({.live = {.max_message_bytes = 1000}});
  Client client(port());
  client.text({{"language", "en"}});
  client.audio(std::string(1001, '\0'));
  client.read_all();
  EXPECT_EQ(client.close_code(), 1009);
}

TEST_F(Live, MessagesHaveARate) {
  start({.realtime = {.messages_per_s = 10}});
  RealtimeClient client(port());
  EXPECT_EQ(client.read().at("type"), "session.created");
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kMessages = 12;
  for (int i = 0; i < kMessages; ++i) client.text({{"type", "none"}});
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(client.read().at("type"), "error");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(950));
}

TEST_F(Live, AClientThatDoesNotReadIsDisconnected) {
  start({.live = {.max_unsent_bytes = 10}});
  Client client(port());
  client.text({{"language", "en"}});
  EXPECT_EQ(client.read(), Json()) << "the first message is above the limit";
}

TEST_F(Live, AnIdleStreamEndsWithWhatWasHeard) {
  start({.live = {.idle = std::chrono::milliseconds(1000)}});
  Client silent(port()), client(port());
  client.text({{"language", "en"}});
  client.audio(pcm16(1));
  EXPECT_EQ(last_of(client.read_all()).at("type"), "done");
  EXPECT_EQ(silent.read(), Json());
  EXPECT_EQ(silent.close_code(), 1001);
}

TEST_F(Live, AServerThatStopsFinishesTheStream) {
  Client client(port());
  client.text({{"language", "en"}});
  EXPECT_EQ(client.read().at("type"), "ready");
  client.audio(pcm16(5));
  EXPECT_NE(client.read(), Json());  // the audio has arrived
  server_->stop();
  const Json done = last_of(client.read_all());
  EXPECT_EQ(done.at("type"), "done");
  EXPECT_EQ(done.at("duration"), 5.0);
}

}  // namespace
}  // namespace vesper::live_test
