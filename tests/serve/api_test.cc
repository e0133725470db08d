// The API over tiny models with random weights: routes, fields, errors, shapes of answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "error/error.h"
#include "serve/api/request_fields.h"
#include "serve/server/server.h"
#include "shaders/kernel_params.h"
#include "tests/audio/made_recordings.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/serve/loopback_client.h"
#include "tests/session/text/tiny_text_model.h"
#include "tests/vad/silero_file.h"

namespace vesper::api_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// A model that knows the characters of JSON, and whose template has tools as Qwen's.
void write_tool_model(const std::filesystem::path& folder) {
  write_tiny_text_weights(folder);
  write_letter_tokenizer(folder);
  Json tokenizer = Json::parse(read_file(folder / "tokenizer.json"));
  Json& vocabulary = tokenizer["model"]["vocab"];
  char letter = 'A';
  for (const char character : std::string_view("{}\"[]_<>/0123456789")) {
    vocabulary[std::string(1, character)] = vocabulary[std::string(1, letter)];
    vocabulary.erase(std::string(1, letter++));
  }
  write_file(folder / "tokenizer.json", tokenizer.dump());
  Json config = Json::parse(read_file(folder / "tokenizer_config.json"));
  config["chat_template"] =
      "{% if tools %}{% for tool in tools %}{{ tool.function.name }}{% endfor %}{% endif %}"
      "{% for message in messages %}<user>{{ message.content }}"
      "{{ message.thinking if message.thinking else '' }}{% if message.tool_calls %}"
      "{% for call in message.tool_calls %}<tool_call>{{ call.function.name }}</tool_call>"
      "{% endfor %}{% endif %}{% endfor %}<user>";
  write_file(folder / "tokenizer_config.json", config.dump());
}

// The models, loaded once.
class Models {
 public:
  Models() {
    const std::filesystem::path chat = folder_.path() / "chat", bert = folder_.path() / "bert",
                                speech = folder_.path() / "speech";
    write_tiny_text_weights(chat);
    write_letter_tokenizer(chat);
    write_tool_model(folder_.path() / "tools");
    std::filesystem::create_directories(bert);
    TinyBert().write(bert);
    std::filesystem::create_directories(speech);
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 50;  // a window is a second
    tiny.n_text_ctx = 160;
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF32), speech);
    RegistryOptions options;
    options.text = {.device = "cpu", .compute = "f32", .threads = 1, .n_slots = 2};
    write_silero_of_speech(folder_ / "silero.safetensors");
    options.speech = {.device = "cpu",
                      .compute = "f32",
                      .threads = 1,
                      .batch_size = 2,
                      .vad_model = folder_ / "silero.safetensors"};
    options.embedding = {.device = "cpu", .compute = "f32", .threads = 1};
    registry.emplace(options);
    registry->add("chat", chat);
    registry->add("tools", folder_.path() / "tools");
    registry->add("bert", bert);
    registry->add("speech", speech);
  }

  std::optional<ModelRegistry> registry;

 private:
  TemporaryFolder folder_;
};

class Api : public testing::Test {
 protected:
  static void SetUpTestSuite() { models_.emplace(); }
  static void TearDownTestSuite() { models_.reset(); }

  void SetUp() override { start({}); }
  void TearDown() override { stop(); }

  void start(ServerOptions options) {
    options.port = 0;
    server_.emplace(*models_->registry, options);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }

  HttpReply get(const std::string& path, const std::string& headers = "") {
    return request(server_->port(), "GET", path, "", headers);
  }
  HttpReply post(const std::string& path, const Json& body, const std::string& headers = "") {
    return request(server_->port(), "POST", path, body.dump(), headers);
  }
  Json answer(const std::string& path, const Json& body) {
    const HttpReply reply = post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body, nullptr, false);
  }
  double metric(const std::string& name, const std::string& model = "chat") {
    const std::string text = get("/metrics").body;
    const size_t at = text.find("\n" + name + "{model=\"" + model + "\"} ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0 : std::stod(text.substr(text.find(' ', at + 1)));
  }
  // The fields of an error.
  Json error(const HttpReply& reply, int status) {
    EXPECT_EQ(reply.status, status) << reply.body;
    return Json::parse(reply.body).at("error");
  }
  void expect_wrong_field(const std::string& path, const Json& body, const std::string& field) {
    const Json found = error(post(path, body), 400);
    EXPECT_EQ(found.at("param"), field) << found;
    EXPECT_THAT(found.at("message").get<std::string>(), HasSubstr(field));
    EXPECT_EQ(found.at("type"), "invalid_request_error");
  }
  static std::vector<Json> events_of(const std::string& body) {
    std::vector<Json> events;
    for (const std::string& line : lines_of(body)) {
      if (line.starts_with("data: {")) events.push_back(Json::parse(line.substr(6)));
    }
    return events;
  }
  static Json chat(Json further = Json::object()) {
    Json body = {{"model", "chat"},
                 {"messages", {{{"role", "user"}, {"content", "abc"}}}},
                 {"max_tokens", 6},
                 {"temperature", 0}};
    body.update(further);
    return body;
  }
  HttpReply upload(const std::string& path,
                   const std::vector<std::pair<std::string, std::string>>& fields) {
    std::string body;
    for (const auto& [name, value] : fields) {
      body +=
          "--cut\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
    }
    body += "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" +
            wav_bytes(std::vector<int16_t>(16000, 1000), 1, 16000) + "\r\n--cut--\r\n";
    return request(server_->port(), "POST", path, body,
                   "Content-Type: multipart/form-data; boundary=cut\r\n");
  }

  static std::optional<Models> models_;
  std::optional<Server> server_;
  std::thread thread_;
};
std::optional<Models> Api::models_;

TEST_F(Api, ListsModelsAndHealth) {
  const Json list = Json::parse(get("/v1/models").body);
  ASSERT_EQ(list.at("data").size(), 4u);
  EXPECT_EQ(list["data"][0]["id"], "speech");
  EXPECT_EQ(list["data"][1]["kind"], "language");
  EXPECT_NEAR(list["data"][1]["created"].get<double>(), static_cast<double>(time(nullptr)), 600);
  EXPECT_EQ(Json::parse(get("/v1/models/bert").body)["id"], "bert");
  EXPECT_EQ(error(get("/v1/models/other"), 404)["code"], "model_not_found");
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(error(get("/v2"), 404)["code"], "unknown_url");
  const HttpReply wrong = get("/v1/embeddings");
  EXPECT_EQ(error(wrong, 405)["code"], "wrong_method");
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(error(request(server_->port(), "POST", "/health/live"), 405)["code"], "wrong_method");
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("vesper_requests_total{route=\"/v1/models\",status=\"200\"} 1"));
}

TEST_F(Api, DescribesItsRoutes) {
  const Json paths = Json::parse(get("/openapi.json").body).at("paths");
  std::vector<std::string> described, answered;
  for (const auto& [path, methods] : paths.items()) {
    for (const auto& [method, operation] : methods.items()) {
      described.push_back((method == "get" ? "GET " : "POST ") + path);
    }
  }
  for (const auto& [method, path] : Server::routes()) {
    // OpenAPI cannot describe a WebSocket.
    if (path != "/v1/audio/stream" && path != "/v1/realtime")
      answered.push_back(std::string(method) + " " + std::string(path));
  }
  EXPECT_THAT(answered, testing::UnorderedElementsAreArray(described));
}

TEST(ApiDescription, HoldsTheParsersToTheirSchemas) {
  const auto body = nlohmann::ordered_json::parse(R"({"content": "a"})");
  RequestFields fields(body, "TokenizeRequest", "");
  EXPECT_EQ(fields.text("content"), "a");
  EXPECT_THROW(fields.text("other"), Error);     // read, but not described
  EXPECT_THROW(fields.check_all_used(), Error);  // "model" is described, but not read
}

TEST(ApiDescription, AKeywordMayBeOfAnAlternative) {
  const ObjectSchema schema("EmbeddingRequest");
  EXPECT_EQ(schema.keyword("dimensions", "minimum"), 1);
  EXPECT_EQ(schema.keyword("input", "maxItems"), 2048);
  EXPECT_THROW(schema.keyword("input", "maximum"), Error);
}

TEST(ApiDescription, HasNoMoreBiasesThanTheEngine) {
  EXPECT_EQ(ObjectSchema("ChatRequest").keyword("logit_bias", "maxProperties"), kMostBias);
}

TEST_F(Api, TakesAsManyEntriesAsDescribed) {
  const auto most = [](const char* schema, const char* field, const char* word) {
    return ObjectSchema(schema).keyword(field, word).get<size_t>();
  };
  const auto expect_limit = [&](const std::string& path, const std::string& field, size_t limit,
                                const std::function<Json(size_t)>& body_of) {
    const HttpReply whole = post(path, body_of(limit));
    EXPECT_THAT(whole.body, testing::Not(HasSubstr("at most"))) << field;
    expect_wrong_field(path, body_of(limit + 1), field);
    EXPECT_THAT(post(path, body_of(limit + 1)).body,
                HasSubstr("at most " + std::to_string(limit) + " "));
  };
  const std::string chats = "/v1/chat/completions";
  expect_limit(chats, "stop", most("ChatRequest", "stop", "maxItems"), [](size_t n) {
    return chat({{"stop", std::vector<std::string>(n, "x")}});
  });
  expect_limit(chats, "logit_bias", most("ChatRequest", "logit_bias", "maxProperties"),
               [](size_t n) {
                 Json biases = Json::object();
                 for (size_t i = 0; i < n; ++i) biases[std::to_string(i)] = 1;
                 return chat({{"logit_bias", biases}});
               });
  expect_limit(chats, "tools", most("ChatRequest", "tools", "maxItems"), [](size_t n) {
    Json tools = Json::array();
    for (size_t i = 0; i < n; ++i) {
      tools.push_back({{"type", "function"}, {"function", {{"name", "f" + std::to_string(i)}}}});
    }
    return chat({{"tools", tools}, {"tool_choice", "none"}});
  });
  expect_limit("/v1/embeddings", "input", most("EmbeddingRequest", "input", "maxItems"),
               [](size_t n) {
                 return Json{{"input", std::vector<std::string>(n, "a")}};
               });
  expect_limit(
      "/v1/completions", "prompt", most("CompletionRequest", "prompt", "maxItems"), [](size_t n) {
        return Json{
            {"model", "chat"}, {"prompt", std::vector<std::string>(n, "a")}, {"max_tokens", 1}};
      });
}

TEST_F(Api, AnswersAChat) {
  const Json reply = answer("/v1/chat/completions", chat({{"n", 2}}));
  EXPECT_EQ(reply["object"], "chat.completion");
  ASSERT_EQ(reply["choices"].size(), 2u);
  EXPECT_EQ(reply["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(reply["choices"][0]["message"], reply["choices"][1]["message"]);  // greedy
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 5);                              // <user> a b c <user>
  EXPECT_EQ(reply["usage"]["completion_tokens"], 12);
}

TEST_F(Api, StreamsTheSameAnswer) {
  const Json whole = answer("/v1/chat/completions", chat());
  const HttpReply reply =
      post("/v1/chat/completions",
           chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  const std::vector<Json> events = events_of(reply.body);
  ASSERT_GE(events.size(), 3u);
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    if (event["choices"].empty()) continue;
    text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 6);
}

TEST_F(Api, StreamsTheProbabilitiesOfATokenWithItsText) {
  const std::vector<Json> events =
      events_of(post("/v1/chat/completions", chat({{"stream", true}, {"logprobs", true}})).body);
  size_t n_tokens = 0;
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    const std::string text = choice["delta"].value("content", "");
    std::string of_tokens;
    if (choice["logprobs"].is_object()) {
      for (const Json& token : choice["logprobs"]["content"]) {
        of_tokens += token["token"].get<std::string>();
        ++n_tokens;
      }
    }
    EXPECT_EQ(text, of_tokens) << event;
  }
  EXPECT_EQ(n_tokens, 6u);
}

TEST_F(Api, CountsTokensStepsAndTime) {
  const double tokens = metric("vesper_answer_tokens_total"), steps = metric("vesper_steps_total"),
               busy = metric("vesper_busy_seconds_total");
  answer("/v1/chat/completions", chat({{"n", 2}}));
  EXPECT_EQ(metric("vesper_answer_tokens_total"), tokens + 12);
  EXPECT_GE(metric("vesper_steps_total"), steps + 6);
  EXPECT_LE(metric("vesper_steps_total"), steps + 12);
  EXPECT_GT(metric("vesper_busy_seconds_total"), busy);
  EXPECT_GT(metric("vesper_model_memory_bytes"), 10000);
}

// A temperature of 1: one attempt at the random text of a tiny model, instead of six.
TEST_F(Api, CountsWindowsThatAreDecodedTogether) {
  const char* rounds = "vesper_speech_rounds_total";
  const char* windows = "vesper_speech_round_windows_total";
  const auto transcribe = [&](const std::vector<std::pair<std::string, std::string>>& fields) {
    EXPECT_EQ(upload("/v1/audio/transcriptions", fields).status, 200);
  };
  for (const bool is_chunked : {false, true}) {
    const double n_rounds = metric(rounds, "speech"), n_windows = metric(windows, "speech");
    std::vector<std::pair<std::string, std::string>> fields = {{"temperature", "1"}};
    if (is_chunked) fields.emplace_back("chunking_strategy", "auto");
    transcribe(fields);
    EXPECT_GT(metric(rounds, "speech"), n_rounds);
    // One recording of one window.
    EXPECT_EQ(metric(windows, "speech") - n_windows, metric(rounds, "speech") - n_rounds);
  }
}

TEST_F(Api, AnswersCompletionsOfTextsAndTokens) {
  const Json reply = answer("/v1/completions", {{"model", "chat"},
                                                {"prompt", {"abc", "d"}},
                                                {"max_tokens", 3},
                                                {"temperature", 0},
                                                {"logprobs", 2}});
  ASSERT_EQ(reply["choices"].size(), 2u);
  EXPECT_EQ(reply["choices"][1]["index"], 1);
  EXPECT_EQ(reply["choices"][0]["logprobs"]["tokens"].size(), 3u);
  Json ids = answer("/tokenize", {{"model", "chat"}, {"content", "abc"}});
  EXPECT_EQ(ids["tokens"], Json({5, 6, 7}));
  ids["model"] = "chat";
  EXPECT_EQ(answer("/detokenize", ids)["content"], "abc");
  const Json by_ids =
      answer("/v1/completions",
             {{"model", "chat"}, {"prompt", ids["tokens"]}, {"max_tokens", 3}, {"temperature", 0}});
  EXPECT_EQ(by_ids["choices"][0]["text"], reply["choices"][0]["text"]);
}

TEST_F(Api, TakesTheEndsOfARange) {
  for (const double penalty : {0.01, 100.0})
    answer("/v1/chat/completions", chat({{"repeat_penalty", penalty}}));
  for (const int bias : {-100, 100})
    answer("/v1/chat/completions", chat({{"logit_bias", {{"5", bias}}}}));
  for (const int64_t seed : {INT64_MIN, INT64_MAX})
    answer("/v1/chat/completions", chat({{"seed", seed}}));
}

TEST_F(Api, RefusesWhatItCannotHonour) {
  expect_wrong_field("/v1/chat/completions", chat({{"functions", Json::array()}}), "functions");
  expect_wrong_field("/v1/chat/completions", chat({{"temperature", 9}}), "temperature");
  expect_wrong_field("/v1/chat/completions", chat({{"response_format", {{"type", "xml"}}}}),
                     "response_format.type");
  expect_wrong_field("/v1/chat/completions", chat({{"max_tokens", 0}}), "max_tokens");
  expect_wrong_field("/v1/chat/completions", chat({{"messages", Json::array()}}), "messages");
  expect_wrong_field("/v1/chat/completions", chat({{"messages", {{{"role", "user"}}}}}),
                     "messages[0].content");
  expect_wrong_field("/v1/chat/completions", chat({{"stream_options", Json::object()}}),
                     "stream_options");
  EXPECT_THAT(
      error(post("/v1/embeddings", {{"input", {1, 99999}}}), 400)["message"].get<std::string>(),
      HasSubstr("99999"));
  expect_wrong_field("/v1/embeddings", {{"input", "a"}, {"dimensions", 65}}, "dimensions");
  expect_wrong_field("/v1/embeddings", {{"input", {1, -1}}}, "input");
  expect_wrong_field("/v1/embeddings", {{"input", {1, uint64_t{1} << 31}}}, "input");
  expect_wrong_field("/v1/embeddings", {{"input", {1, UINT64_MAX}}}, "input");
  expect_wrong_field("/v1/chat/completions", chat({{"logit_bias", {{"5", 100.5}}}}), "logit_bias");
  expect_wrong_field("/v1/chat/completions", chat({{"logit_bias", {{"5", "1"}}}}), "logit_bias");
  expect_wrong_field("/v1/chat/completions", chat({{"seed", INT64_MAX * 2.0}}), "seed");
  EXPECT_EQ(error(post("/v1/chat/completions", chat({{"model", "bert"}})), 404)["param"], "model");
  const HttpReply garbage = request(server_->port(), "POST", "/v1/chat/completions", "{\"a\":");
  EXPECT_THAT(error(garbage, 400)["message"].get<std::string>(), HasSubstr("JSON"));
  const HttpReply deep =
      request(server_->port(), "POST", "/v1/chat/completions", std::string(100000, '['));
  EXPECT_THAT(error(deep, 400)["message"].get<std::string>(), HasSubstr("64 levels"));
}

TEST_F(Api, HoldsACallToItsSchema) {
  const auto function = [](const char* name, Json properties) {
    return Json{{"type", "function"},
                {"function",
                 {{"name", name},
                  {"parameters",
                   {{"type", "object"},
                    {"properties", std::move(properties)},
                    {"required", {"city"}},
                    {"additionalProperties", false},
                    {"$defs", {{"city", {{"enum", {"rome", "oslo"}}}}}}}}}}};
  };
  Json body = chat({{"model", "tools"},
                    {"max_tokens", 100},
                    {"logit_bias", {{"2", -100}}},
                    {"tool_choice", "required"},
                    {"tools",
                     {function("weather", {{"city", {{"$ref", "#/$defs/city"}}}}),
                      function("time", {{"city", {{"$ref", "#/$defs/city"}}}})}}});
  const auto expect_call = [](const Json& call) {
    EXPECT_EQ(call["type"], "function");
    EXPECT_THAT(call["function"]["name"], testing::AnyOf(Json("weather"), Json("time")));
    const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
    EXPECT_THAT(arguments["city"], testing::AnyOf(Json("rome"), Json("oslo")));
  };
  const Json choice = answer("/v1/chat/completions", body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
  ASSERT_TRUE(choice["message"].contains("tool_calls"));
  expect_call(choice["message"]["tool_calls"][0]);

  body["stream"] = true;
  Json calls;
  for (const Json& event : events_of(post("/v1/chat/completions", body).body)) {
    if (event["choices"][0]["delta"].contains("tool_calls"))
      calls = event["choices"][0]["delta"]["tool_calls"];
  }
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]["index"], 0);
  expect_call(calls[0]);

  body["stream"] = false;
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "time"}}}};
  const Json named = answer("/v1/chat/completions", body)["choices"][0]["message"];
  EXPECT_EQ(named["tool_calls"][0]["function"]["name"], "time");

  // The call goes back to the model with its result.
  body["tool_choice"] = "none";
  body["max_tokens"] = 3;
  body["messages"].push_back(named);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", named["tool_calls"][0]["id"]}, {"content", "noon"}});
  const Json reply = answer("/v1/chat/completions", body);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  // So does the thinking before a call without text, for templates that show it.
  const auto tokens_with_thinking = [&](const char* content) {
    Json with = body;
    Json& call = with["messages"][with["messages"].size() - 2];
    call["content"] = content;
    call["reasoning_content"] = "abcd";
    return answer("/v1/chat/completions", with)["usage"]["prompt_tokens"].get<int>() -
           static_cast<int>(std::string_view(content).size());
  };
  EXPECT_EQ(tokens_with_thinking(""), reply["usage"]["prompt_tokens"].get<int>() + 4);
  EXPECT_EQ(tokens_with_thinking("e"), reply["usage"]["prompt_tokens"].get<int>());
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "other"}}}};
  expect_wrong_field("/v1/chat/completions", body, "tool_choice.function.name");
  body["model"] = "chat";
  body["tool_choice"] = "auto";
  expect_wrong_field("/v1/chat/completions", body, "tools");
}

TEST_F(Api, EmbedsTexts) {
  const Json reply = answer("/v1/embeddings", {{"model", "bert"}, {"input", {"the", "of"}}});
  ASSERT_EQ(reply["data"].size(), 2u);
  EXPECT_EQ(reply["data"][1]["index"], 1);
  EXPECT_EQ(reply["data"][0]["embedding"].size(), 64u);
  EXPECT_EQ(answer("/v1/embeddings", {{"input", "of"}})["data"][0]["embedding"],
            reply["data"][1]["embedding"]);
  const Json text = answer("/v1/embeddings", {{"input", "of"}, {"encoding_format", "base64"}});
  EXPECT_EQ(text["data"][0]["embedding"].get<std::string>().size(), (64 * 4 + 2) / 3 * 4);
  EXPECT_EQ(
      answer("/v1/embeddings", {{"input", "of"}, {"dimensions", 8}})["data"][0]["embedding"].size(),
      8u);
}

TEST_F(Api, TranscribesAnUpload) {
  const HttpReply plain = upload("/v1/audio/transcriptions",
                                 {{"model", "speech"}, {"language", "en"}, {"temperature", "0"}});
  ASSERT_EQ(plain.status, 200) << plain.body;
  EXPECT_TRUE(Json::parse(plain.body).at("text").is_string());
  EXPECT_EQ(Json::parse(plain.body).at("usage").at("seconds"), 1);
  const Json verbose = Json::parse(
      upload("/v1/audio/transcriptions",
             {{"response_format", "verbose_json"}, {"language", "en"}, {"temperature", "1"}})
          .body);
  EXPECT_EQ(verbose.at("duration"), 1.0);
  EXPECT_EQ(verbose.at("language"), "english");
  EXPECT_TRUE(verbose.at("segments").is_array());
  EXPECT_THAT(
      upload("/v1/audio/translations", {{"response_format", "vtt"}, {"temperature", "1"}}).body,
      testing::StartsWith("WEBVTT"));
  const HttpReply stream = upload("/v1/audio/transcriptions",
                                  {{"stream", "true"}, {"language", "en"}, {"temperature", "1"}});
  EXPECT_EQ(events_of(stream.body).back()["type"], "transcript.text.done");
  EXPECT_EQ(error(upload("/v1/audio/transcriptions", {{"response_format", "docx"}}), 400)["param"],
            "response_format");
  EXPECT_EQ(error(upload("/v1/audio/transcriptions", {{"language", "xx"}}), 400)["type"],
            "invalid_request_error");
  EXPECT_EQ(error(upload("/v1/audio/transcriptions", {{"colour", "red"}}), 400)["param"], "colour");
  EXPECT_EQ(error(post("/v1/audio/transcriptions", Json::object()), 400)["type"],
            "invalid_request_error");
}

TEST_F(Api, RefusesOtherSitesAndUnknownHosts) {
  EXPECT_EQ(error(get("/v1/models", "Origin: https://evil.example\r\n"), 403)["code"],
            "origin_not_allowed");
  LoopbackClient client(server_->port());
  client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(error(client.read_reply(), 403)["code"], "host_not_allowed");
  const HttpReply same = get("/v1/models", "Origin: http://localhost\r\n");
  EXPECT_EQ(same.status, 200);
  EXPECT_FALSE(same.headers.contains("access-control-allow-origin"));

  stop();
  start({.origins = {"https://chat.example"}});
  const HttpReply listed =
      request(server_->port(), "OPTIONS", "/v1/chat/completions", "",
              "Origin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_EQ(listed.status, 204);
  EXPECT_EQ(listed.headers.at("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(listed.headers.at("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_FALSE(listed.headers.contains("content-length"));
}

TEST_F(Api, AsksForAKey) {
  stop();
  const TemporaryFolder folder;
  // The digest of "sk-one".
  write_file(folder.path() / "keys",
             "ann 456f1612bd25c6c8455039437bf441f43aa3b7d1c0b0047c712d5036dfebef0d per-minute=2\n");
  start({.keys_file = folder.path() / "keys"});
  const HttpReply without = get("/v1/models");
  EXPECT_EQ(error(without, 401)["code"], "invalid_api_key");
  EXPECT_EQ(without.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer sk-two\r\n").status, 401);
  EXPECT_EQ(get("/v1/models", "Authorization: bearer sk-one\r\n").status, 200);
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer sk-one\r\n").status, 200);
  const HttpReply third = get("/v1/models", "Authorization: Bearer sk-one\r\n");
  EXPECT_EQ(error(third, 429)["code"], "rate_limit_exceeded");
  EXPECT_GE(std::stoi(third.headers.at("retry-after")), 1);
}

TEST_F(Api, ALargeBodyIsRefused) {
  stop();
  ServerOptions options;
  options.api.max_json_bytes = 100;
  options.api.max_upload_bytes = 100;
  start(options);
  EXPECT_EQ(error(post("/v1/completions", {{"prompt", std::string(200, 'a')}}), 413)["type"],
            "invalid_request_error");
  EXPECT_EQ(upload("/v1/audio/transcriptions", {}).status, 413);
}

}  // namespace
}  // namespace vesper::api_test
