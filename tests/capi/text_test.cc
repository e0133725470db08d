// Text and embeddings through the C API, with tiny models: the results of the programs, and what
// each option does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vesper.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/text_client.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/session/text/tiny_text_model.h"

namespace vesper::capi_text_test {
namespace {

using testing::HasSubstr;
using Arguments = std::vector<std::string>;

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  vesper_end end = VESPER_END_MODEL;
  uint64_t n_reused = 0;
};

Answer taken(vesper_answer* answer) {
  Answer copy{vesper_answer_text(answer),
              {},
              vesper_answer_end(answer),
              vesper_answer_statistics(answer).n_reused};
  const int32_t* ids = vesper_answer_tokens(answer);
  copy.ids.assign(ids, ids + vesper_answer_n_tokens(answer));
  vesper_answer_free(answer);
  return copy;
}

class CText : public testing::Test {
 protected:
  CText() {
    write_tiny_text_weights(model_path_);
    write_letter_tokenizer(model_path_);
    vesper_language_model_options_init(&options_, sizeof options_);
    options_.load.device = "cpu";
    options_.load.compute = "f32";
    options_.load.threads = 1;
    options_.kv_type = "f32";
    vesper_generate_options_init(&generate_, sizeof generate_);
    generate_.max_tokens = 24;
    generate_.no_reuse = 1;
  }
  ~CText() override { vesper_language_model_close(model_); }

  vesper_language_model* open() {
    vesper_language_model_close(model_);
    EXPECT_EQ(vesper_language_model_open(model_path_.c_str(), &options_, &model_), VESPER_OK)
        << vesper_last_error();
    return model_;
  }
  Answer generate(const vesper_prompt& prompt) {
    vesper_answer* answer = nullptr;
    EXPECT_EQ(vesper_generate(model_, &prompt, &generate_, &answer), VESPER_OK)
        << vesper_last_error();
    return answer ? taken(answer) : Answer{};
  }
  Answer generate(const char* text = "abc") { return generate(prompt_of(text)); }
  static vesper_prompt prompt_of(const char* text) { return {text, nullptr, 0, nullptr, 0}; }

  ChildResult program(Arguments arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {GENERATE, "-m", model_path_, "--device", "cpu",
                                         "--compute", "f32", "--kv-type", "f32"});
    ChildOptions child;
    child.folder = folder_.path();
    child.standard_input = input;
    ChildResult result = run_child(arguments, child);
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  }
  // What `generate` prints for an answer.
  static std::string printed(const Answer& answer) {
    return answer.text + (answer.text.ends_with('\n') ? "" : "\n");
  }

  TemporaryFolder folder_;
  const std::string model_path_ = folder_.file("model");
  vesper_language_model_options options_;
  vesper_generate_options generate_;
  vesper_language_model* model_ = nullptr;
};

TEST_F(CText, WorksFromC) {
  const std::string encoder = folder_.file("bert");
  std::filesystem::create_directories(encoder);
  TinyBert().write(encoder);
  EXPECT_STREQ(
      text_client_first_wrong_result(model_path_.c_str(), encoder.c_str(), folder_.path().c_str()),
      nullptr)
      << vesper_last_error() << " (" << vesper_last_error_setting() << ")";
}

// Each option gives what the program gives, and another answer than without it.
TEST_F(CText, HasTheOptionsOfTheProgram) {
  struct Case {
    const char* name;
    std::function<void(vesper_generate_options&)> set;
    Arguments arguments;
  };
  const std::vector<Case> cases = {
      {"seed", [](auto& o) { o.seed = 8; }, {"--seed", "8"}},
      {"temperature", [](auto& o) { o.temperature = 0.3; }, {"--temp", "0.3"}},
      {"top_k", [](auto& o) { o.top_k = 2; }, {"--top-k", "2"}},
      {"top_p", [](auto& o) { o.top_p = 0.1; }, {"--top-p", "0.1"}},
      {"min_p", [](auto& o) { o.min_p = 0.9; }, {"--min-p", "0.9"}},
      {"typical_p", [](auto& o) { o.typical_p = 0.1; }, {"--typical", "0.1"}},
      // Negative ones make earlier tokens more probable.
      {"frequency_penalty",
       [](auto& o) { o.frequency_penalty = -20; },
       {"--frequency-penalty", "-20"}},
      {"presence_penalty",
       [](auto& o) { o.presence_penalty = -20; },
       {"--presence-penalty", "-20"}},
      {"penalty_window",
       [](auto& o) {
         o.presence_penalty = -20;
         o.penalty_window = 2;
       },
       {"--presence-penalty", "-20", "--repeat-last-n", "2"}},
      {"repetition_penalty",
       [](auto& o) { o.repetition_penalty = 50; },
       {"--repeat-penalty", "50"}},
      {"max_tokens", [](auto& o) { o.max_tokens = 7; }, {"-n", "7"}},
  };
  open();
  generate_.temperature = 2;
  generate_.seed = 7;
  const vesper_generate_options base = generate_;
  const Arguments command = {"--no-chat", "abc", "--temp", "2", "--seed", "7", "-n", "24"};
  const Answer plain = generate();
  EXPECT_EQ(program(command).out, printed(plain));
  std::vector<std::string> texts = {plain.text};
  for (const Case& option : cases) {
    SCOPED_TRACE(option.name);
    generate_ = base;
    option.set(generate_);
    const Answer answer = generate();
    EXPECT_THAT(texts, testing::Not(testing::Contains(answer.text)));
    texts.push_back(answer.text);
    // An option that is given twice counts the last time: those of the case.
    Arguments arguments = {"--no-chat", "abc"};
    for (size_t i = 2; i < command.size(); i += 2) {
      if (std::ranges::find(option.arguments, command[i]) == option.arguments.end()) {
        arguments.insert(arguments.end(), {command[i], command[i + 1]});
      }
    }
    arguments.insert(arguments.end(), option.arguments.begin(), option.arguments.end());
    EXPECT_EQ(program(arguments).out, printed(answer));
  }
  generate_ = base;
  const std::string first = plain.text.substr(3, 1);
  const char* stop = first.c_str();
  generate_.stops = &stop;
  generate_.n_stops = 1;
  const Answer stopped = generate();
  EXPECT_EQ(stopped.end, VESPER_END_STOP);
  EXPECT_EQ(stopped.text, plain.text.substr(0, plain.text.find(first)));
}

TEST_F(CText, NeitherRepeatsNgramsNorEndsEarlyIfAsked) {
  open();
  generate_.max_tokens = 100;
  generate_.allow_loops = 1;
  generate_.no_repeat_ngram_size = 1;
  const Answer unlike = generate();
  std::vector<int32_t> ids = unlike.ids;
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  EXPECT_EQ(generate("abc").text, unlike.text);
  options_.ignore_end = 1;
  const vesper_logit_bias bias[] = {{0, 1000.0f}, {5, 100.0f}};
  options_.logit_bias = bias;
  options_.n_logit_bias = 2;
  open();
  generate_.no_repeat_ngram_size = 0;
  generate_.max_tokens = 10;
  EXPECT_EQ(generate().text, "aaaaaaaaaa");
  options_.ignore_end = 0;
  open();
  const Answer ended = generate();
  EXPECT_EQ(ended.text, "");
  EXPECT_EQ(ended.end, VESPER_END_MODEL);
}

TEST_F(CText, EndsALoopUnlessAllowed) {
  const vesper_logit_bias bias = {5, 100.0f};
  options_.logit_bias = &bias;
  options_.n_logit_bias = 1;
  options_.context = 2048;
  open();
  generate_.max_tokens = 1500;
  const Answer looped = generate();
  EXPECT_EQ(looped.end, VESPER_END_LOOP);
  EXPECT_LT(looped.ids.size(), 1500u);
  generate_.allow_loops = 1;
  const Answer whole = generate();
  EXPECT_EQ(whole.end, VESPER_END_LIMIT);
  EXPECT_EQ(whole.ids.size(), 1500u);
}

TEST_F(CText, SearchesWithBeamsAndItsLengthPenaltyAsTheProgram) {
  options_.beam_size = 4;
  open();
  EXPECT_EQ(program({"--no-chat", "abc", "-n", "24", "--beam-size", "4"}).out, printed(generate()));
  options_.length_penalty = -3;
  open();
  EXPECT_EQ(
      program({"--no-chat", "abc", "-n", "24", "--beam-size", "4", "--length-penalty", "-3"}).out,
      printed(generate()));
}

TEST_F(CText, AnswersMessagesAndTokensAsTheProgram) {
  open();
  const vesper_message messages[] = {{"system", "b"}, {"user", "hello"}};
  const vesper_prompt chat{nullptr, messages, 2, nullptr, 0};
  const Answer answer = generate(chat);
  EXPECT_EQ(program({"--system", "b", "hello", "-n", "24"}).out, printed(answer));
  generate_.no_thinking = 1;
  const Answer unthinking = generate(chat);
  EXPECT_NE(unthinking.text, answer.text);
  EXPECT_EQ(program({"--system", "b", "hello", "-n", "24", "--no-think"}).out, printed(unthinking));
  const std::vector<int32_t> ids = {5, 6, 7};
  EXPECT_EQ(generate({nullptr, nullptr, 0, ids.data(), ids.size()}).text, generate("abc").text);
  options_.chat_template = "{{ messages[-1].content }}";
  open();
  EXPECT_EQ(generate(chat).text, generate("hello").text);
}

TEST_F(CText, SeparatesThinkingUnlessAsked) {
  // <think>a</think>b: the bias makes the model say its tokens in this order.
  options_.chat_template = "{{ messages[-1].content }}<think>";
  const vesper_logit_bias bias = {3, 100.0f};
  options_.logit_bias = &bias;
  options_.n_logit_bias = 1;
  open();
  generate_.max_tokens = 3;
  const vesper_message message = {"user", "a"};
  const vesper_prompt prompt{nullptr, &message, 1, nullptr, 0};
  EXPECT_EQ(generate(prompt).text, "</think></think>");
  generate_.separate_thinking = 0;
  EXPECT_EQ(generate(prompt).text, "</think></think></think>");
}

TEST_F(CText, ListsLogprobsAsTheProgram) {
  open();
  write_file(folder_.file("prompts.txt"), "abc\n");
  const auto line = nlohmann::json::parse(
      program({"--no-chat", "--input", "prompts.txt", "-n", "5", "--logprobs", "2"}).out);
  generate_.max_tokens = 5;
  generate_.top_logprobs = 2;
  const vesper_prompt prompt = prompt_of("abc");
  vesper_answer* answer = nullptr;
  ASSERT_EQ(vesper_generate(model_, &prompt, &generate_, &answer), VESPER_OK);
  char* json = nullptr;
  ASSERT_EQ(vesper_answer_logprobs_json(answer, &json), VESPER_OK);
  EXPECT_EQ(line["logprobs"].dump(), nlohmann::json::parse(json).dump());
  EXPECT_EQ(line["text"], vesper_answer_text(answer));
  vesper_string_free(json);
  vesper_answer_free(answer);
}

TEST_F(CText, SamplesAsTheFilesOfTheModelRecommend) {
  write_file(folder_.file("model/generation_config.json"),
             R"({"do_sample": true, "temperature": 1.5, "top_k": 30, "top_p": 0.75})");
  open();
  vesper_generate_options found;
  ASSERT_EQ(vesper_generate_options_init_for(model_, &found, sizeof found), VESPER_OK);
  EXPECT_EQ(found.temperature, 1.5);
  EXPECT_EQ(found.top_k, 30u);
  EXPECT_EQ(found.top_p, 0.75);
  EXPECT_EQ(found.repetition_penalty, 1);
  EXPECT_LT(found.seed, 0);
  generate_.seed = 5;
  const Answer sampled = generate();
  EXPECT_EQ(program({"--no-chat", "abc", "-n", "24", "--seed", "5"}).out, printed(sampled));
  found.seed = 5;
  found.max_tokens = 24;
  generate_ = found;
  EXPECT_EQ(generate().text, sampled.text);
  // A random seed, which the answer states.
  generate_.seed = -1;
  const vesper_prompt prompt = prompt_of("abc");
  vesper_answer* answer = nullptr;
  ASSERT_EQ(vesper_generate(model_, &prompt, &generate_, &answer), VESPER_OK);
  generate_.seed = vesper_answer_seed(answer);
  generate_.no_reuse = 1;
  EXPECT_EQ(generate().text, vesper_answer_text(answer));
  vesper_answer_free(answer);
}

TEST_F(CText, AnswersManyAsSingly) {
  options_.batch_size = 3;
  open();
  const char* texts[] = {"abc", "hello", "x", "some words", "abc", "?", "zz"};
  std::vector<vesper_prompt> prompts;
  std::vector<vesper_generate_options> each;
  std::vector<std::string> expected;
  generate_.temperature = 1;
  for (const char* text : texts) {
    generate_.seed = static_cast<int64_t>(expected.size());
    generate_.max_tokens = 10 + static_cast<uint32_t>(expected.size());
    prompts.push_back(prompt_of(text));
    each.push_back(generate_);
    expected.push_back(generate(text).text);
  }
  const int32_t beyond = 1000;
  prompts.push_back({nullptr, nullptr, 0, &beyond, 1});
  each.push_back(generate_);
  expected.emplace_back("error 3");
  std::vector<std::string> found(expected.size());
  const vesper_on_answer take = [](size_t i, vesper_answer* answer, vesper_status status,
                                   const char* message, void* user) {
    auto& list = *static_cast<std::vector<std::string>*>(user);
    list[i] = answer ? taken(answer).text : "error " + std::to_string(status);
    EXPECT_EQ(*message == '\0', status == VESPER_OK);
    return 0;
  };
  ASSERT_EQ(vesper_generate_many(model_, prompts.data(), prompts.size(), each.data(), each.size(),
                                 take, &found),
            VESPER_OK);
  EXPECT_EQ(found, expected);
  // One for all: as the lines of the program, whose equal prompts have different seeds.
  std::string lines;
  for (const char* text : texts) lines += std::string(text) + "\n";
  write_file(folder_.file("prompts.txt"), lines);
  generate_.seed = 3;
  generate_.max_tokens = 12;
  ASSERT_EQ(vesper_generate_many(model_, prompts.data(), 7, &generate_, 1, take, &found),
            VESPER_OK);
  const auto out = lines_of(
      program({"--no-chat", "--input", "prompts.txt", "-n", "12", "--temp", "1", "--seed", "3"})
          .out);
  ASSERT_EQ(out.size(), 7u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(nlohmann::json::parse(out[i])["text"], found[i]);
}

TEST_F(CText, PassesTextOnAsItIsGenerated) {
  open();
  struct Heard {
    std::string text;
    size_t n_calls = 0, n_allowed = SIZE_MAX;
  } heard;
  generate_.user = &heard;
  generate_.on_text = [](const char* text, void* user) {
    auto& all = *static_cast<Heard*>(user);
    all.text += text;
    return ++all.n_calls >= all.n_allowed ? 1 : 0;
  };
  const Answer whole = generate();
  EXPECT_EQ(heard.text, whole.text);
  EXPECT_GT(heard.n_calls, 1u);
  heard = {"", 0, 1};
  const Answer cut = generate();
  EXPECT_EQ(cut.end, VESPER_END_CANCELLED);
  EXPECT_EQ(cut.text, heard.text);
  EXPECT_LT(cut.text.size(), whole.text.size());
}

// Also under the thread sanitizer.
using ThreadsOfTheCApiForText = CText;

TEST_F(ThreadsOfTheCApiForText, CancelAtAnyTime) {
  options_.ignore_end = 1;
  open();
  generate_.max_tokens = 0;
  generate_.allow_loops = 1;
  generate_.context_shift = 1;  // without end
  vesper_cancellation* cancellation = nullptr;
  ASSERT_EQ(vesper_cancellation_new(&cancellation), VESPER_OK);
  generate_.cancellation = cancellation;
  for (int i = 0; i < 100; ++i) {
    vesper_cancellation_reset(cancellation);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * i));
      vesper_cancellation_request(cancellation);
    });
    const Answer answer = generate();
    other.join();
    ASSERT_EQ(answer.end, VESPER_END_CANCELLED);
  }
  vesper_cancellation_free(cancellation);
  generate_.cancellation = nullptr;
  generate_.max_tokens = 5;
  EXPECT_EQ(generate().end, VESPER_END_LIMIT);
  generate_.context_shift = 0;
  generate_.max_tokens = 0;
  EXPECT_EQ(generate().end, VESPER_END_CONTEXT);
}

TEST_F(CText, KeepsTheKeysAndValuesOfAPromptInAFile) {
  open();
  generate_.no_reuse = 0;
  const std::string path = folder_.file("prompt");
  const char* text = "a long enough prompt to be reused in another process";
  const Answer first = generate(text);
  EXPECT_EQ(first.n_reused, 0u);
  EXPECT_GT(generate(text).n_reused, 10u);
  ASSERT_EQ(vesper_language_model_save_prompt(model_, path.c_str()), VESPER_OK);
  open();
  ASSERT_EQ(vesper_language_model_restore_prompt(model_, path.c_str()), VESPER_OK);
  const Answer again = generate(text);
  EXPECT_GT(again.n_reused, 10u);
  EXPECT_EQ(again.text, first.text);
  generate_.no_reuse = 1;
  EXPECT_EQ(generate(text).n_reused, 0u);
}

TEST_F(CText, MeasuresPerplexityAndLongTextsAsTheProgram) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "some words, ";
  write_file(folder_.file("text"), text);
  options_.context = 96;
  open();
  vesper_perplexity_result found;
  ASSERT_EQ(vesper_perplexity(model_, text.c_str(), nullptr, &found), VESPER_OK);
  char line[160];
  std::snprintf(line, sizeof line, "perplexity %.4f +/- %.5f (%d tokens of %d contexts of 96)\n",
                found.value, found.deviation, static_cast<int>(found.n_tokens),
                static_cast<int>(found.n_contexts));
  EXPECT_EQ(program({"--perplexity", "text", "--ctx", "96"}).out, line);
  generate_.max_tokens = 12;
  vesper_answer* answer = nullptr;
  ASSERT_EQ(vesper_generate_long(model_, "s", "sum up", text.c_str(), &generate_, &answer),
            VESPER_OK)
      << vesper_last_error();
  EXPECT_EQ(
      program({"--ctx", "96", "-n", "12", "--long", "map-reduce", "--system", "s", "sum up"}, text)
          .out,
      printed(taken(answer)));
}

TEST_F(CText, ChatsMessageByMessage) {
  options_.context = 96;
  open();
  vesper_chat* chat = nullptr;
  generate_.max_tokens = 6;
  generate_.temperature = 1;
  generate_.seed = 4;
  ASSERT_EQ(vesper_chat_open(model_, nullptr, &generate_, &chat), VESPER_OK);
  vesper_answer* answer = nullptr;
  ASSERT_EQ(vesper_chat_say(chat, "hello", &answer), VESPER_OK);
  const Answer first = taken(answer);
  const vesper_message message = {"user", "hello"};
  EXPECT_EQ(generate({nullptr, &message, 1, nullptr, 0}).text, first.text);
  ASSERT_EQ(vesper_chat_regenerate(chat, &answer), VESPER_OK);
  const Answer second = taken(answer);
  EXPECT_NE(second.text, first.text);
  // A message that is too long changes nothing.
  const std::string too_long(200, 'a');
  EXPECT_EQ(vesper_chat_say(chat, too_long.c_str(), &answer), VESPER_ERROR_INPUT);
  char* json = nullptr;
  ASSERT_EQ(vesper_chat_messages(chat, &json), VESPER_OK);
  const auto messages = nlohmann::json::parse(json);
  vesper_string_free(json);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "hello");
  EXPECT_EQ(messages[1]["content"], second.text);
  // A chat whose model was closed says so.
  vesper_language_model_close(model_);
  model_ = nullptr;
  EXPECT_EQ(vesper_chat_say(chat, "hello", &answer), VESPER_ERROR_USAGE);
  EXPECT_THAT(vesper_last_error(), HasSubstr("expected a language model that is open"));
  vesper_chat_close(chat);
}

TEST_F(CText, HasTheTokenizerOfEveryKindOfModel) {
  const std::string bert = folder_.file("bert"), whisper = folder_.file("whisper");
  std::filesystem::create_directories(bert);
  TinyBert().write(bert);
  test::write_files(test::TinyWhisper().ctranslate2(DType::kF32), whisper);
  struct Case {
    std::string model, text;
    size_t n_special;  // around the text
  };
  for (const auto& [model, text, n_special] :
       {Case{model_path_, "some words", 0}, Case{bert, "the cat", 2}, Case{whisper, "words", 0}}) {
    SCOPED_TRACE(model);
    vesper_tokenizer* tokenizer = nullptr;
    ASSERT_EQ(vesper_tokenizer_open(model.c_str(), nullptr, &tokenizer), VESPER_OK)
        << vesper_last_error();
    int32_t* plain = nullptr;
    int32_t* special = nullptr;
    size_t n_plain = 0, n = 0;
    char* decoded = nullptr;
    ASSERT_EQ(vesper_tokenizer_encode(tokenizer, text.data(), text.size(), 0, 0, &plain, &n_plain),
              VESPER_OK);
    ASSERT_EQ(vesper_tokenizer_encode(tokenizer, text.data(), text.size(), 0, 1, &special, &n),
              VESPER_OK);
    EXPECT_EQ(n, n_plain + n_special);
    ASSERT_EQ(vesper_tokenizer_decode(tokenizer, special, n, 0, &decoded), VESPER_OK)
        << vesper_last_error();
    EXPECT_EQ(decoded, text);
    EXPECT_GT(vesper_tokenizer_n_vocab(tokenizer), 30u);
    vesper_string_free(decoded);
    vesper_tokens_free(plain);
    vesper_tokens_free(special);
    vesper_tokenizer_close(tokenizer);
  }
}

TEST_F(ThreadsOfTheCApiForText, AreEightAtOnce) {
  open();
  const std::string expected = generate().text;
  std::vector<std::thread> threads;
  std::atomic<int> n_equal = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      vesper_language_model* model = nullptr;
      if (vesper_language_model_open(model_path_.c_str(), &options_, &model) != VESPER_OK) return;
      const vesper_prompt prompt = prompt_of("abc");
      for (int k = 0; k < 3; ++k) {
        vesper_answer* answer = nullptr;
        if (vesper_generate(model, &prompt, &generate_, &answer) != VESPER_OK) return;
        if (taken(answer).text == expected) ++n_equal;
      }
      vesper_language_model_close(model);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_equal, 24);
}

TEST_F(CText, RefusesTwoCallsAtOnce) {
  open();
  generate_.user = model_;
  generate_.on_text = [](const char*, void* user) {
    const vesper_prompt prompt = prompt_of("abc");
    vesper_answer* answer = nullptr;
    EXPECT_EQ(vesper_generate(static_cast<vesper_language_model*>(user), &prompt, nullptr, &answer),
              VESPER_ERROR_USAGE);
    return 1;
  };
  EXPECT_EQ(generate().end, VESPER_END_CANCELLED);
}

// The leak sanitizer looks at the end.
TEST_F(CText, IsOpenedAndClosedManyTimes) {
#ifdef VESPER_ADDRESS_SANITIZED
  constexpr int kTimes = 1000;
#else
  constexpr int kTimes = 20;
#endif
  const std::string bert = folder_.file("bert");
  std::filesystem::create_directories(bert);
  TinyBert().write(bert);
  vesper_embedder_options embedding;
  vesper_embedder_options_init(&embedding, sizeof embedding);
  embedding.load = options_.load;
  for (int i = 0; i < kTimes; ++i) {
    vesper_chat* chat = nullptr;
    vesper_tokenizer* tokenizer = nullptr;
    vesper_embedder* embedder = nullptr;
    ASSERT_EQ(vesper_chat_open(open(), "s", &generate_, &chat), VESPER_OK);
    ASSERT_EQ(vesper_tokenizer_open(model_path_.c_str(), nullptr, &tokenizer), VESPER_OK);
    ASSERT_EQ(vesper_embedder_open(bert.c_str(), &embedding, &embedder), VESPER_OK);
    vesper_chat_close(chat);
    vesper_tokenizer_close(tokenizer);
    vesper_embedder_close(embedder);
  }
}

}  // namespace
}  // namespace vesper::capi_text_test
