// TextSession and its helpers, with a tiny random model and a vocabulary of letters.
#include "session/text/text_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "session/text/conversation.h"
#include "session/text/long_text.h"
#include "tests/session/text/tiny_text_fixture.h"

namespace vesper::tiny_text_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(TinyText, AnswersTokenIdsWithoutATokenizer) {
  TextSession& session = open(/*has_tokenizer=*/false);
  const TextAnswer answer = session.answer({{1, 2, 3}, limit(20)});
  EXPECT_EQ(answer.tokens.size(), 20u);
  EXPECT_EQ(answer.n_in_text, 20u);
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.end, AnswerEnd::kLimit);
  EXPECT_EQ(ids_of(session.answer({{1, 2, 3}, limit(20)})), ids_of(answer));
  EXPECT_EQ(session.model().tokenizer(), nullptr);
  EXPECT_THROW(session.model().text_ids("a"), Error);
  TextOptions stops = limit(2);
  stops.stops = {"a"};
  EXPECT_THROW(session.answer({{1}, stops}), Error);
  // To the end of its context of 128 tokens, unless it may drop the older half.
  EXPECT_EQ(session.context(), 128u);
  EXPECT_EQ(session.answer({{1, 2, 3}}).end, AnswerEnd::kContext);
  TextOptions shifting = limit(200);
  shifting.context_shift = true;
  EXPECT_EQ(session.answer({{1, 2, 3}, shifting}).tokens.size(), 200u);
}

TEST_F(TinyText, KeepsTheFirstTokenOfTextsWhenTheContextShifts) {
  begins_ = options_.ignore_end = true;
  TextSession& session = open();
  Ids all = session.model().text_ids("abc");
  ASSERT_EQ(all, (Ids{1, 5, 6, 7}));
  TextOptions shifting = limit(124 + 6);
  shifting.context_shift = true;
  const Ids answer = ids_of(session.answer({all, shifting}));
  ASSERT_EQ(answer.size(), 130u);
  // The context of 128 tokens drops the older half of all but the first one.
  all.insert(all.end(), answer.begin(), answer.begin() + 124);
  Ids kept = {1};
  kept.insert(kept.end(), all.begin() + 1 + 64, all.end());
  EXPECT_EQ(ids_of(session.answer({kept, limit(6)})), Ids(answer.end() - 6, answer.end()));
}

TEST_F(TinyText, StreamsTheTextThatItReturns) {
  TextSession& session = open();
  std::string streamed;
  size_t n_tokens = 0, n_in_text = 0;
  TextEvents events;
  events.on_text = [&](std::string_view text) { streamed += text; };
  events.on_tokens = [&](std::span<const TokenLogprob> tokens, size_t n) {
    EXPECT_GE(tokens.size(), n_tokens);
    EXPECT_GE(n, n_in_text);
    n_tokens = tokens.size();
    n_in_text = n;
  };
  const TextAnswer answer = session.answer({session.model().text_ids("abc"), limit(30)}, events);
  EXPECT_FALSE(answer.text.empty());
  EXPECT_EQ(streamed, answer.text);
  EXPECT_EQ(n_tokens, answer.tokens.size());
  EXPECT_EQ(n_in_text, answer.n_in_text);
  EXPECT_EQ(answer.statistics.n_answer, answer.tokens.size());
  EXPECT_EQ(answer.statistics.n_prompt, 3u);
}

TEST_F(TinyText, EndsBeforeAStopText) {
  options_.logit_bias = {{2, -INFINITY}, {3, -INFINITY}};  // tokens of one letter only
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abc");
  const TextAnswer whole = session.answer({prompt, limit(30)});
  ASSERT_GT(whole.text.size(), 8u);
  TextOptions stopped = limit(30);
  stopped.stops = {whole.text.substr(5, 3)};
  const TextAnswer answer = session.answer({prompt, stopped});
  EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stopped.stops[0])));
  EXPECT_EQ(answer.end, AnswerEnd::kStop);
  EXPECT_LT(answer.n_in_text, answer.tokens.size());
  EXPECT_EQ(end_name(answer.end), "stop");
}

TEST_F(TinyText, CanBeCancelledAndUsedAgain) {
  TextSession& session = open();
  const TextRequest request{session.model().text_ids("abc"), limit(100)};
  const TextAnswer whole = session.answer(request);
  TextEvents events;
  events.is_cancelled = [] { return true; };
  const TextAnswer cut = session.answer(request, events);
  EXPECT_EQ(cut.end, AnswerEnd::kCancelled);
  EXPECT_LT(cut.tokens.size(), whole.tokens.size());
  EXPECT_THAT(whole.text, StartsWith(cut.text));
  // Exceptions of callbacks are rethrown.
  events.is_cancelled = [] { return false; };
  events.on_text = [](std::string_view) { throw std::logic_error("enough"); };
  EXPECT_THROW(session.answer(request, events), std::logic_error);
  EXPECT_EQ(session.answer(request).text, whole.text);
}

// A prompt of 1500 tokens is computed in passes of 512, 512 and 475 tokens.
TEST_F(TinyText, CanBeCancelledWithinAPromptAndContinuesThereLater) {
  std::string config = read_file(folder_.path() / "config.json");
  const std::string limit_of_model = "\"max_position_embeddings\": 128";
  ASSERT_NE(config.find(limit_of_model), std::string::npos);
  config.replace(config.find(limit_of_model), limit_of_model.size(),
                 "\"max_position_embeddings\": 2048");
  write_file(folder_.path() / "config.json", config);
  options_.n_slots = 2;
  TextSession& session = open();
  Ids prompt(1500);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(5 + i * i % 58);
  TextRequest request{prompt, limit(20)};
  request.options.reuse_prompt = false;
  const TextAnswer whole = session.answer(request);
  ASSERT_EQ(whole.tokens.size(), 20u);

  request.options.reuse_prompt = true;
  const TextRequest other{{7, 8, 9}, limit(20)};
  const Ids of_other = ids_of(session.answer(other));
  for (const int n_passes : {1, 2}) {
    SCOPED_TRACE(n_passes);
    // Nothing of this prompt is cached.
    TextRequest fresh{prompt, limit(20)};
    fresh.prompt[0] = 60 + n_passes;
    int n_calls = 0;
    std::optional<TextAnswer> cut, beside;
    std::vector<TextJob> jobs;
    jobs.push_back({.request = fresh,
                    .events = {.is_cancelled = [&] { return ++n_calls == n_passes; }},
                    .on_done = [&](TextAnswer answer) { cut = std::move(answer); }});
    jobs.push_back(
        {.request = other, .on_done = [&](TextAnswer answer) { beside = std::move(answer); }});
    size_t n_given = 0;
    session.answer_many([&](bool) -> std::optional<TextJob> {
      if (n_given == jobs.size()) return std::nullopt;
      return jobs[n_given++];
    });
    ASSERT_TRUE(cut && beside);
    EXPECT_EQ(n_calls, n_passes);
    EXPECT_EQ(cut->end, AnswerEnd::kCancelled);
    EXPECT_TRUE(cut->tokens.empty());
    EXPECT_EQ(ids_of(*beside), of_other);
    const TextAnswer again = session.answer(fresh);
    EXPECT_EQ(again.statistics.n_reused, 512u * static_cast<uint32_t>(n_passes));
    fresh.options.reuse_prompt = false;
    EXPECT_EQ(ids_of(again), ids_of(session.answer(fresh)));
  }
  // An exception within a prompt leaves a session that can be used.
  TextEvents events;
  events.is_cancelled = []() -> bool { throw std::logic_error("enough"); };
  EXPECT_THROW(session.answer(request, events), std::logic_error);
  EXPECT_EQ(ids_of(session.answer(request)), ids_of(whole));
}

TEST_F(TinyText, AnswersEachOfManyJobsAsAlone) {
  options_.n_slots = 3;
  TextSession& session = open();
  std::vector<TextRequest> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back({Ids(static_cast<size_t>(i + 1), 5 + i), limit(4 + i % 3)});
    requests.back().options.reuse_prompt = false;
    requests.back().options.sampling = {.temperature = 1, .seed = seed_of_prompt(7, i)};
  }
  requests[3].prompt = {1000};  // not in the vocabulary
  std::vector<std::string> texts(requests.size()), errors(requests.size());
  size_t n_given = 0;
  const TextStatistics totals = session.answer_many([&](bool is_idle) -> std::optional<TextJob> {
    // Some come later, while others are running.
    if (n_given == requests.size() || (n_given == 2 && !is_idle)) return std::nullopt;
    const size_t i = n_given++;
    TextJob job{.request = requests[i]};
    job.on_done = [&, i](const TextAnswer& answer) { texts[i] = answer.text; };
    job.on_failure = [&, i](const std::exception& error) { errors[i] = error.what(); };
    return job;
  });
  uint64_t n_answer = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i == 3) {
      EXPECT_THAT(errors[i], HasSubstr("below 64"));
      continue;
    }
    EXPECT_EQ(errors[i], "");
    const TextAnswer alone = session.answer(requests[i]);
    EXPECT_EQ(texts[i], alone.text) << i;
    n_answer += alone.tokens.size();
  }
  EXPECT_EQ(totals.n_answer, n_answer);
}

TEST_F(TinyText, ReusesKeysAndValuesByDefault) {
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abcdefgh");
  TextOptions options = limit(4);
  EXPECT_EQ(session.answer({prompt, options}).statistics.n_reused, 0u);
  EXPECT_EQ(session.answer({prompt, options}).statistics.n_reused, 7u);
  const std::vector<std::byte> kept = session.save_prompt();
  options.reuse_prompt = false;
  EXPECT_EQ(session.answer({prompt, options}).statistics.n_reused, 0u);
  TextSession& other = open();
  other.restore_prompt(kept);
  EXPECT_EQ(other.answer({prompt, limit(4)}).statistics.n_reused, 7u);
  EXPECT_THROW(other.restore_prompt(std::vector<std::byte>(100)), Error);
}

TEST_F(TinyText, KeepsThatThereIsNoPromptYet) {
  const std::vector<std::byte> kept = open().save_prompt();
  TextSession& session = open();
  const Ids prompt = session.model().text_ids("abcdefgh");
  session.answer({prompt, limit(4)});
  session.restore_prompt(kept);
  EXPECT_EQ(session.answer({prompt, limit(4)}).statistics.n_reused, 0u);
}

TEST_F(TinyText, FindsTheSlotWithACachedConversation) {
  options_.n_slots = 2;
  TextSession& session = open();
  const Ids one = {5, 6, 7, 8, 9, 10}, other = {5, 20, 21, 22, 23, 24};
  session.answer({one, limit(2)});
  EXPECT_EQ(session.answer({other, limit(2)}).statistics.n_reused, 0u);
  EXPECT_EQ(session.answer({one, limit(2)}).statistics.n_reused, 5u);
  EXPECT_EQ(session.answer({other, limit(2)}).statistics.n_reused, 5u);
  // A third prompt gets the least recently used slot.
  session.answer({{30, 31, 32}, limit(2)});
  EXPECT_EQ(session.answer({other, limit(2)}).statistics.n_reused, 5u);
  EXPECT_EQ(session.answer({one, limit(2)}).statistics.n_reused, 0u);
}

// Each new one moves to the first slot.
TEST_F(TinyText, KeepsAsManyConversationsAsItHasSlots) {
  options_.n_slots = 3;
  TextSession& session = open();
  const std::vector<Ids> prompts = {
      {5, 6, 7, 8, 9, 10}, {5, 20, 21, 22, 23, 24}, {5, 11, 12, 13, 14, 15}};
  for (const uint32_t n_reused : {0u, 5u, 5u}) {
    for (const Ids& prompt : prompts) {
      EXPECT_EQ(session.answer({prompt, limit(2)}).statistics.n_reused, n_reused);
    }
  }
}

TEST_F(TinyText, SharesTheBeginningOfAPromptBetweenAnswers) {
  options_.n_slots = 3;
  options_.may_differ_with_others = true;
  Ids prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.push_back(5 + i % 20);
  const std::string alone = open().answer({prompt, limit(4)}).text;
  TextSession& session = open();
  std::vector<TextAnswer> answers;
  std::vector<Ids> prompts = {prompt, prompt, prompt};
  prompts[1].back() = 6;  // another question
  prompts[2][2] = 20;     // less than a page is equal
  session.answer_many([&](bool) -> std::optional<TextJob> {
    if (prompts.empty()) return std::nullopt;
    TextJob job{.request = {prompts.front(), limit(4)}};
    prompts.erase(prompts.begin());
    job.on_done = [&](TextAnswer answer) { answers.push_back(std::move(answer)); };
    return job;
  });
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].text, alone);
  EXPECT_EQ(answers[0].statistics.n_reused, 0u);
  EXPECT_EQ(answers[1].statistics.n_reused, 39u);
  EXPECT_EQ(answers[2].statistics.n_reused, 0u);
  // What was copied gives the same answer; the slot that had another prompt gets the whole one.
  answers.clear();
  prompts = {prompt, prompt, prompt};
  session.answer_many([&](bool) -> std::optional<TextJob> {
    if (prompts.empty()) return std::nullopt;
    TextJob job{.request = {prompts.front(), limit(4)}};
    prompts.erase(prompts.begin());
    job.on_done = [&](TextAnswer answer) { answers.push_back(std::move(answer)); };
    return job;
  });
  for (const TextAnswer& answer : answers) {
    EXPECT_EQ(answer.text, alone);
    EXPECT_EQ(answer.statistics.n_reused, 39u);
  }
}

TEST_F(TinyText, ListsAlternativesOfEachToken) {
  TextSession& session = open();
  TextOptions options = limit(6);
  options.top_logprobs = 3;
  const TextAnswer answer = session.answer({{5, 6}, options});
  ASSERT_EQ(answer.tokens.size(), 6u);
  for (const TokenLogprob& token : answer.tokens) {
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_EQ(token.top[0].first, token.id);
    EXPECT_NEAR(token.top[0].second, token.logprob, 1e-4);
    EXPECT_GE(token.top[0].second, token.top[1].second);
  }
}

TEST_F(TinyText, BiasesAndIgnoresTokens) {
  options_.logit_bias = {{0, 1000.0f}};
  EXPECT_EQ(open().answer({{5, 6}, limit(6)}).end, AnswerEnd::kEnd);
  EXPECT_EQ(session_->answer({{5, 6}, limit(6)}).text, "");
  options_.ignore_end = true;
  EXPECT_EQ(open().answer({{5, 6}, limit(6)}).end, AnswerEnd::kLimit);
  options_.logit_bias = {{5, 1000.0f}};
  EXPECT_EQ(open().answer({{5, 6}, limit(6)}).text, "aaaaaa");
  options_.logit_bias = {{5, 600.0f}, {6, 1000.0f}, {5, 600.0f}};
  EXPECT_EQ(open().answer({{5, 6}, limit(6)}).text, "aaaaaa") << "biases of one token add up";
  options_.logit_bias = {{64, 1.0f}};
  EXPECT_EQ(setting_of([&] { open(); }), "logit bias");
}

TEST_F(TinyText, SeparatesThinking) {
  options_.logit_bias = {{5, 1000.0f}};
  TextSession& session = open();
  TextOptions options = limit(4);
  const Ids thinking = {1, 5, 2};  // ends with <think>
  options.thinking = Thinking::kInText;
  EXPECT_EQ(session.answer({thinking, options}).text, "aaaa");
  options.thinking = Thinking::kSeparate;
  std::string thought;
  TextEvents events;
  events.on_thinking = [&](std::string_view text) { thought += text; };
  const TextAnswer answer = session.answer({thinking, options}, events);
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.thinking, "aaaa");
  EXPECT_EQ(thought, "aaaa");
  const std::vector<ChatMessage> chat = {{"user", "ab"}};
  EXPECT_EQ(session.model().chat_ids(chat), (Ids{1, 5, 6, 1}));
  EXPECT_EQ(session.model().chat_ids(chat, /*thinks=*/false), (Ids{1, 5, 6, 1, 2, 3}));
}

// With tokens of messages on channels in the place of the special tokens.
TEST_F(TinyText, SeparatesChannels) {
  write_letter_tokenizer(folder_.path());
  const auto file = folder_ / "tokenizer.json";
  std::string tokenizer = read_file(file);
  const std::pair<std::string, std::string> tokens[] = {{"<end>", "<|return|>"},
                                                        {"<user>", "<|start|>"},
                                                        {"<think>", "<|channel|>"},
                                                        {"</think>", "<|message|>"}};
  for (const auto& [from, to] : tokens) {
    for (size_t at; (at = tokenizer.find(from)) != std::string::npos;) {
      tokenizer.replace(at, from.size(), to);
    }
  }
  write_file(file, tokenizer);
  write_file(folder_ / "tokenizer_config.json", R"({"eos_token": "<|return|>"})");
  Ids message = {1};  // <|start|>assistant
  for (const char c : std::string("assistant")) message.push_back(5 + (c - 'a'));
  TextOptions options = limit(3);
  options_.logit_bias = {{5, 1000.0f}};
  EXPECT_EQ(open(false).answer({message, options}).text, "aaa") << "no message";
  EXPECT_TRUE(session_->model().has_channels());
  EXPECT_TRUE(session_->model().begins_message(message));
  EXPECT_FALSE(session_->model().begins_message(Ids{1, 5}));
  options_.logit_bias = {{1, 1000.0f}};
  EXPECT_EQ(open(false).answer({message, options}).text, "");
  options.thinking = Thinking::kInText;
  EXPECT_EQ(session_->answer({message, options}).text, "<|start|><|start|><|start|>");
}

TEST_F(TinyText, EndsALoop) {
  options_.logit_bias = {{5, 1000.0f}};  // only "a"
  TextOptions options = limit(400);
  options.context_shift = true;
  const auto answer_of = [&] { return open().answer({{5, 6}, options}); };
  const TextAnswer answer = answer_of();
  EXPECT_EQ(answer.end, AnswerEnd::kLoop);
  EXPECT_EQ(end_name(answer.end), "loop");
  EXPECT_EQ(answer.text, std::string(256, 'a'));
  EXPECT_EQ(answer.n_in_text, 256u);
  EXPECT_TRUE(session_->answer({{5, 6}, limit(4)}).end == AnswerEnd::kLimit);  // usable
  options.end_loops = false;
  EXPECT_EQ(answer_of().end, AnswerEnd::kLimit);
  options.end_loops = true;
  options_.ignore_end = true;
  EXPECT_EQ(answer_of().end, AnswerEnd::kLimit);
}

TEST_F(TinyText, SamplesAsTheModelSaysUnlessGiven) {
  const Ids prompt = {5, 6, 7};
  const Ids greedy = ids_of(open().answer({prompt, limit(20)}));
  write_file(folder_ / "generation_config.json",
             R"({"do_sample": true, "temperature": 50, "top_k": 30})");
  TextSession& session = open();
  EXPECT_EQ(session.model().sampling_defaults().source, "generation_config.json");
  const TextAnswer drawn = session.answer({prompt, limit(20)});
  EXPECT_EQ(drawn.sampling.temperature, 50);
  EXPECT_EQ(drawn.sampling.top_k, 30u);
  EXPECT_NE(ids_of(drawn), greedy);
  // The seed is random, and gives the same answer again.
  EXPECT_NE(session.answer({prompt, limit(20)}).sampling.seed, drawn.sampling.seed);
  TextOptions options = limit(20);
  options.sampling.seed = drawn.sampling.seed;
  EXPECT_EQ(ids_of(session.answer({prompt, options})), ids_of(drawn));
  options.sampling.temperature = 0;
  EXPECT_EQ(ids_of(session.answer({prompt, options})), greedy);
  options.sampling = {.top_k = 1};
  const TextAnswer one = session.answer({prompt, options});
  EXPECT_EQ(ids_of(one), greedy);
  EXPECT_EQ(one.sampling.temperature, 50);
  // Beam search does not sample.
  options_.beam_size = 2;
  EXPECT_EQ(open().answer({prompt, limit(4)}).sampling.temperature, 0);
}

TEST_F(TinyText, RefusesTheSamplingOfTheModelWithoutFilters) {
  write_file(folder_ / "generation_config.json", R"({"do_sample": true})");
  options_.allows_filters = false;
  EXPECT_EQ(setting_of([&] { open().answer({{5}, limit(1)}); }), "filters");
}

TEST_F(TinyText, FindsAMoreProbableTextWithBeams) {
  const auto logprob_of = [&](const Ids& prompt, const Ids& answer) {
    Ids all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    double sum = 0;
    size_t at = 0;
    session_->logits(all, [&](const float* rows, uint32_t n) {
      for (uint32_t r = 0; r < n; ++r, ++at) {
        if (at + 1 < prompt.size() || at + 1 >= all.size()) continue;
        std::vector<float> row(rows + r * 64, rows + (r + 1) * 64);
        row[0] = -INFINITY;  // ignore_end
        for (const auto& [id, logprob] : likeliest_tokens(row, 64)) {
          if (id == all[at + 1]) sum += logprob;
        }
      }
    });
    return sum;
  };
  const Ids prompt = {5, 6, 7};
  options_.ignore_end = true;
  const Ids greedy = ids_of(open().answer({prompt, limit(12)}));
  options_.beam_size = 4;
  const TextAnswer answer = open().answer({prompt, limit(12)});
  EXPECT_EQ(answer.end, AnswerEnd::kLimit);
  ASSERT_EQ(answer.tokens.size(), 12u);
  EXPECT_EQ(answer.text, session_->model().tokenizer()->decode(ids_of(answer)));
  const double logprob = logprob_of(prompt, ids_of(answer));
  EXPECT_GE(logprob, logprob_of(prompt, greedy) - 1e-4);
  double sum = 0;
  for (const TokenLogprob& token : answer.tokens) sum += token.logprob;
  EXPECT_NEAR(sum, logprob, 1e-3);
  TextSession& session = *session_;
  const auto setting = [&](const TextOptions& options) {
    return setting_of([&] { session.answer({prompt, options}); });
  };
  EXPECT_EQ(setting({.sampling = {.temperature = 1}}), "temperature");
  EXPECT_EQ(setting({.top_logprobs = 1}), "logprobs");
  EXPECT_EQ(setting({.context_shift = true}), "context shift");
  options_.beam_size = 1000;
  EXPECT_EQ(setting_of([&] { open(); }), "beam size");
}

// A small penalty prefers short texts, a large one long texts: sums of log-probabilities are
// negative.
TEST_F(TinyText, RanksBeamsByTheLengthPenalty) {
  options_.beam_size = 8;
  options_.logit_bias = {{0, 5.0f}};  // <end>, so that some texts end before the limit
  const auto length = [&](float penalty) {
    options_.length_penalty = penalty;
    return open().answer({{5, 6, 7}, limit(12)}).tokens.size();
  };
  const size_t shortest = length(-100), longest = length(100);
  EXPECT_LT(shortest, longest);
  EXPECT_EQ(length(0), shortest);  // without a penalty, each token costs
}

TEST_F(TinyText, NamesInvalidSettings) {
  options_.allows_filters = options_.allows_penalties = false;
  TextSession& session = open();
  const auto setting = [&](const TextOptions& options) {
    return setting_of([&] { session.answer({{5}, options}); });
  };
  EXPECT_EQ(setting({.max_tokens = 0}), "max tokens");
  EXPECT_EQ(setting({.top_logprobs = 1001}), "logprobs");
  EXPECT_EQ(setting({.sampling = {.temperature = -1}}), "temperature");
  EXPECT_EQ(setting({.sampling = {.top_p = 1.5f}}), "top p");
  EXPECT_EQ(setting({.sampling = {.temperature = NAN}}), "temperature");
  EXPECT_EQ(setting({.sampling = {.temperature = 1, .top_k = 4}}), "filters");
  EXPECT_EQ(setting({.sampling = {.presence_penalty = 1}}), "penalties");
  EXPECT_EQ(setting({.stops = {""}}), "stop");
  EXPECT_THROW(session.answer({{}, {}}), Error);
  EXPECT_THROW(session.answer({Ids(128, 5), {}}), Error);
  EXPECT_THROW(session.perplexity(Ids(127, 5)), Error);
  EXPECT_GT(session.perplexity(Ids(256, 5)).value, 1);
  EXPECT_EQ(session.perplexity(Ids(256, 5)).n_tokens, 2u * 63);
}

TEST_F(TinyText, NamesInvalidSettingsOfASession) {
  const auto setting = [&](const TextSessionOptions& options) {
    return setting_of([&] { options_ = options, open(); });
  };
  EXPECT_EQ(setting({.threads = 1025}), "threads");
  EXPECT_EQ(setting({.context = 1}), "context");
  EXPECT_EQ(setting({.n_slots = 0}), "slots");
  EXPECT_EQ(setting({.beam_size = 0}), "beam size");
  EXPECT_EQ(setting({.length_penalty = 101}), "length penalty");
  EXPECT_EQ(setting({.logit_bias = {{5, NAN}}}), "logit bias");
}

TEST_F(TinyText, DropsTheOldestMessagesOfAConversation) {
  options_.ignore_end = true;
  options_.context = 64;
  TextSession& session = open();
  Conversation conversation(session, limit(8));
  bool has_forgotten = false;
  conversation.on_forget = [&] { has_forgotten = true; };
  const TextAnswer first = conversation.say("hello");
  ASSERT_EQ(conversation.messages().size(), 2u);
  EXPECT_EQ(conversation.messages()[1].content, first.text);
  // Only the new part of the next prompt is computed.
  EXPECT_GT(conversation.say("and").statistics.n_reused, 6u);
  for (int i = 0; i < 3; ++i) conversation.say("go on please");
  EXPECT_TRUE(has_forgotten);
  EXPECT_LT(conversation.messages().size(), 10u);
  const auto before = conversation.messages();
  has_forgotten = false;
  EXPECT_EQ(setting_of([&] { conversation.say(std::string(100, 'a')); }), "context");
  EXPECT_FALSE(has_forgotten) << "a message that fits in no context costs no other message";
  ASSERT_EQ(conversation.messages().size(), before.size());
  EXPECT_EQ(conversation.messages().back().role, "assistant");
  EXPECT_EQ(conversation.messages().back().content, before.back().content);
  conversation.set_messages({});
  EXPECT_THROW(conversation.regenerate(), Error);
  conversation.set_messages({{"user", "hello"}});
  EXPECT_EQ(conversation.regenerate().text, first.text);  // greedy: the seed changes nothing
}

TEST_F(TinyText, AnswersAgainWithAnotherSeed) {
  TextSession& session = open();
  TextOptions options = limit(12);
  options.sampling = {.temperature = 1, .seed = 3};
  Conversation conversation(session, options);
  const TextAnswer first = conversation.say("hello");
  const TextAnswer second = conversation.regenerate();
  EXPECT_NE(second.text, first.text);
  ASSERT_EQ(conversation.messages().size(), 2u);
  EXPECT_EQ(conversation.messages()[1].content, second.text);
}

TEST_F(TinyText, ContinuesTextWithoutAChatTemplate) {
  has_template_ = false;
  TextSession& session = open();
  EXPECT_FALSE(session.model().has_chat_template());
  const std::vector<ChatMessage> chat = {{"user", "ab"}};
  EXPECT_EQ(setting_of([&] { session.model().chat_ids(chat); }), "chat template");
  EXPECT_EQ(setting_of([&] { Conversation(session, {}); }), "chat template");
  EXPECT_THAT(session.model().text_ids("ab"), ElementsAre(5, 6));
}

TEST_F(TinyText, SplitsALongText) {
  TextSession& session = open();
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a b c. ";
  std::vector<std::string> parts;
  const auto prompt_of = [&](const std::string& part) {
    parts.push_back(part);
    return session.model().text_ids("sum up " + part);
  };
  const Ids prompt = map_reduced_prompt(session, limit(8), text, prompt_of);
  EXPECT_LE(prompt.size() + 8, 128u);
  EXPECT_GT(parts.size(), 4u);
  EXPECT_EQ(map_reduced_prompt(session, limit(8), "short", prompt_of),
            session.model().text_ids("sum up short"));
  const auto long_prompt = [&](const std::string& part) {
    return session.model().text_ids(std::string(120, 'a') + part);
  };
  EXPECT_EQ(setting_of([&] { map_reduced_prompt(session, limit(8), text, long_prompt); }),
            "context");
}

}  // namespace
}  // namespace vesper::tiny_text_test
