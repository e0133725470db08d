// The built `generate`, with a tiny model without tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/cli/generate_fixture.h"
#include "tests/session/text/tiny_text_model.h"

namespace vesper::generate_program_test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST_F(GenerateProgram, PrintsHelpOnOneScreen) {
  const ChildResult result = run({"--help"});
  EXPECT_EQ(result.status, 0);
  const auto lines = lines_of(result.out);
  EXPECT_LE(lines.size(), 40u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(run({"--version"}).out, StartsWith("generate "));
  EXPECT_THAT(run({"--help-all"}).out, HasSubstr("--repeat-last-n"));
}

TEST_F(GenerateProgram, ReportsErrors) {
  expect_failure(run({}), 2, "expected a prompt");
  expect_failure(run({"a", "b"}), 2, "expected one prompt, found 2");
  expect_failure(run({"--temp", "hot", "a"}), 2, "--temp");
  expect_failure(run({"--top-p", "1.5", "a"}), 2, "--top-p");
  expect_failure(run({"--long", "squeeze", "a"}), 2, "map-reduce");
  expect_failure(run({"--logit-bias", "7", "a"}), 2, "--logit-bias");
  expect_failure(run({"--batch", "2", "a"}), 2, "--input");
  expect_failure(run({"--context-shift", "--input", "x"}), 2, "--context-shift: expected with a");
  expect_failure(run({"--dump-logits", "x", "--perplexity", "x"}), 2, "--dump-logits: expected");
  expect_failure(run({"--prompt-cache", "x", "--input", "x"}), 2, "--prompt-cache: expected");
  expect_failure(run({"--input", "x", "--perplexity", "x"}), 2, "found both");
  expect_failure(run({"--input", ""}), 2, "--input: expected a file");
  expect_failure(run({"--perplexity", "x", "--logprobs", "1"}), 2, "--logprobs: expected with");
  expect_failure(run({"--no-chat", "--chat-template", "x", "a"}), 2, "found both");
  expect_failure(run({"--dump-logits", "-", "a"}), 2, "--dump-logits: expected the name of a file");
  expect_failure(run({"--logprobs", "1", "--print-ids", "a"}), 2, "found both");
  expect_failure(run({"--beam-size", "17", "a"}), 2, "--beam-size: expected a number from 1 to 16");
  expect_failure(run({"--beam-size", "2", "--temp", "1", "a"}), 2, "--temp: expected 0, or above");
  expect_failure(run({"--beam-size", "2", "--logprobs", "1", "a"}), 2,
                 "--logprobs: expected 0, or more with");
  expect_failure(run({"--beam-size", "2", "--context-shift", "a"}), 2, "--context-shift: expected");
  expect_failure(run({"--length-penalty", "2", "a"}), 2, "--length-penalty: expected together");
  for (const char* list : {"1,,3", "1,2,", ",1", "1 2]", "[1,2", "1;2", "1,-2", "[]", ""}) {
    expect_failure(run({"--prompt-ids", list}), 2, "--prompt-ids: expected token ids such as");
  }
  for (const char* threads : {"0", "1025", "two"}) {
    expect_failure(run({"--threads", threads, "a"}), 2, "--threads: expected a number from 1 to");
  }
  for (const std::vector<std::string>& other :
       std::vector<std::vector<std::string>>{{"--no-chat", "a"}, {"--prompt-ids", "1"}}) {
    std::vector<std::string> arguments = {"--system", "You are a cat."};
    arguments.insert(arguments.end(), other.begin(), other.end());
    expect_failure(run(arguments), 2, "--system is a part of a chat");
  }
  expect_failure(run({"-m", "absent", "a"}), 4, "smollm2-135m");
  // A folder opens like a file, but reads as empty.
  const std::string folder = folder_.path().string();
  expect_failure(tiny({"--input", folder, "--print-ids"}), 3, "found a folder");
  expect_failure(tiny({"--input", "absent.txt", "--print-ids"}), 3, "absent.txt: No such file");
  expect_failure(tiny({"--prompt-ids", "1", "--print-ids", "--logit-bias", "64+1"}), 2,
                 "--logit-bias: expected token ids below 64");
  expect_failure(tiny({"--chat-template", folder, "--prompt-ids", "1", "--print-ids"}), 3,
                 "found a folder");
  // Fails before any computation.
  expect_failure(tiny({"--prompt-cache", folder, "--prompt-ids", "1", "--print-ids", "-n", "2"}), 6,
                 "directory");
  expect_failure(tiny({"--prompt-cache", folder + "/none/kept", "--prompt-ids", "1", "--print-ids",
                       "-n", "2"}),
                 6, "none/kept: No such file");
  expect_failure(tiny({"a"}), 4, "tokenizer");
  expect_failure(tiny({"--prompt-ids", "64", "--print-ids"}), 3, "below 64");
  expect_failure(tiny({"--prompt-ids", "1,2,3,4,5,6", "--print-ids", "--ctx", "4"}), 3,
                 "3 too many");
  const ChildResult long_context =
      tiny({"--prompt-ids", "1,2", "--print-ids", "--batch", "1", "--ctx", "129", "-n", "1"});
  EXPECT_EQ(long_context.status, 0);
  EXPECT_THAT(long_context.err, HasSubstr("up to 128 tokens"));
}

TEST_F(GenerateProgram, ReadsAndPrintsTokenIds) {
  const std::string plain = ids({"-n", "20"});
  EXPECT_EQ(plain, ids({"-n", "20"}));
  EXPECT_EQ(std::count(plain.begin(), plain.end(), ','), 19);
  EXPECT_EQ(ids({"-n", "5"}).substr(0, 5), plain.substr(0, 5));
  for (const char* list : {"1 2 3", "[1, 2, 3]", " 1 , 2 3 "}) {
    const ChildResult other = tiny({"--prompt-ids", list, "--print-ids", "-n", "20"});
    EXPECT_EQ(other.out, plain) << list << other.err;
  }
}

// Any number of threads gives the same tokens; the requested number of threads runs.
TEST_F(GenerateProgram, UsesTheGivenThreads) {
  const std::string plain = ids({"-n", "20", "-t", "1"});
  EXPECT_EQ(ids({"-n", "20", "--threads", "3"}), plain);
  EXPECT_EQ(ids({"-n", "20", "--threads", "3", "-t", "2"}), plain);
#if defined(__linux__)
  // In a process that waits for more prompts.
  for (const int n : {1, 3}) {
    const std::string command = "mkfifo prompts; " GENERATE " -m " + std::string(LANGUAGE_MODELS) +
                                "/qwen3 --device cpu --input - --print-ids -n 2 -t " +
                                std::to_string(n) +
                                " < prompts > answers & pid=$!; exec 3> prompts;"
                                " for i in 1 2 3 4 5 6 7 8; do"
                                " echo '{\"prompt_ids\": [1]}' >&3; done;"
                                " until [ -s answers ] || ! kill -0 $pid; do sleep 0.02; done;"
                                " ls /proc/$pid/task | wc -l; exec 3>&-; wait $pid;"
                                " rm prompts answers";
    const ChildResult result = run_child({"/bin/bash", "-c", command}, options_);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, std::to_string(n) + "\n");
  }
#endif
}

// Each sampling option changes the tokens as documented.
TEST_F(GenerateProgram, SamplesTokensWithEachOption) {
  const std::string greedy = ids({"-n", "20"});
  const std::string drawn = ids({"-n", "20", "--temp", "2", "--seed", "1"});
  EXPECT_NE(drawn, greedy);
  EXPECT_EQ(drawn, ids({"-n", "20", "--temp", "2", "--seed", "1"}));
  EXPECT_EQ(drawn, ids({"-n", "20", "--temperature", "2", "--seed", "1"}));
  EXPECT_NE(drawn, ids({"-n", "20", "--temp", "2", "--seed", "2"}));
  const std::vector<std::vector<std::string>> single = {
      {"--top-k", "1"}, {"--top-p", "0.001"}, {"--top-p", "0"}, {"--min-p", "1"}};
  for (const auto& only_likeliest : single) {
    std::vector<std::string> arguments = {"-n", "20", "--temp", "2"};
    arguments.insert(arguments.end(), only_likeliest.begin(), only_likeliest.end());
    EXPECT_EQ(ids(arguments), greedy) << only_likeliest[0] << " " << only_likeliest[1];
  }
  // The most typical token, for any seed.
  EXPECT_EQ(ids({"-n", "20", "--temp", "2", "--seed", "1", "--typical", "0"}),
            ids({"-n", "20", "--temp", "2", "--seed", "2", "--typical", "0"}));
  EXPECT_NE(ids({"-n", "20", "--temp", "2", "--seed", "1", "--typical", "0.2"}), drawn);
  const std::string first = greedy.substr(0, greedy.find(','));
  EXPECT_THAT(ids({"-n", "20", "--logit-bias", first + "-inf"}),
              testing::Not(HasSubstr(first + ",")));
  EXPECT_EQ(ids({"-n", "3", "--logit-bias", "7+1000"}), "7,7,7\n");
  // A strong penalty prevents repetitions.
  for (const char* penalty : {"--presence-penalty", "--frequency-penalty"}) {
    std::set<std::string> seen;
    std::istringstream tokens(ids({"-n", "20", penalty, "100"}));
    for (std::string id; std::getline(tokens, id, ',');) seen.insert(std::to_string(std::stoi(id)));
    EXPECT_EQ(seen.size(), 20u) << penalty;
  }
  EXPECT_NE(ids({"-n", "20", "--repeat-penalty", "5"}), greedy);
  EXPECT_EQ(ids({"-n", "20", "--repeat-penalty", "5", "--repeat-last-n", "0"}), greedy);
  // Only the last tokens are penalized.
  for (const size_t window : {1, 2, 5}) {
    std::vector<std::string> seen;
    std::istringstream tokens(
        ids({"-n", "20", "--presence-penalty", "100", "--repeat-last-n", std::to_string(window)}));
    for (std::string id; std::getline(tokens, id, ',');)
      seen.push_back(std::to_string(std::stoi(id)));
    bool is_repeated = false;
    for (size_t i = 0; i < seen.size(); ++i) {
      const auto before = std::find(seen.rbegin() + static_cast<std::ptrdiff_t>(seen.size() - i),
                                    seen.rend(), seen[i]);
      if (before == seen.rend()) continue;
      const auto distance =
          before - (seen.rbegin() + static_cast<std::ptrdiff_t>(seen.size() - i)) + 1;
      EXPECT_GT(static_cast<size_t>(distance), window) << "token " << i;
      is_repeated = true;
    }
    EXPECT_TRUE(is_repeated) << window;
  }
}

TEST_F(GenerateProgram, SaysWhereTheSamplingSettingsAreFrom) {
  const std::string model = (folder_ / "model").string();
  std::filesystem::copy(std::string(LANGUAGE_MODELS) + "/qwen3", model);
  write_file(model + "/generation_config.json",
             R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95})");
  const auto said = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"-m", model, "--device", "cpu", "-v", "-n", "4",
                                     "--prompt-ids", "1,2,3", "--print-ids"});
    const ChildResult result = run(options);
    EXPECT_EQ(result.status, 0) << result.err;
    return lines_of(result.err).back();
  };
  EXPECT_THAT(said({}),
              StartsWith("generate: sampling; of generation_config.json: temperature 0.6, "
                         "top-k 20, top-p 0.95; random seed "));
  EXPECT_EQ(
      said({"--temp", "0.7", "--seed", "7", "--min-p", "0.1"}),
      "generate: sampling; given: temperature 0.7, min-p 0.1; of generation_config.json: top-k "
      "20, top-p 0.95; given seed 7");
  EXPECT_EQ(said({"--temp", "0"}), "generate: the most probable token each time");
  EXPECT_EQ(said({"--beam-size", "2"}), "generate: the most probable token each time");
  EXPECT_EQ(said({"--beam-size", "2", "--repeat-penalty", "1.1"}),
            "generate: the most probable token each time; given: repeat-penalty 1.1");
}

TEST_F(GenerateProgram, EndsAnAnswerThatOnlyRepeatsItself) {
  const std::vector<std::string> sevens = {"-n", "1100", "--ctx", "2048", "--logit-bias", "7+1000"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), sevens.begin(), sevens.end());
    return tiny(options);
  };
  const std::vector<std::string> prompt = {"--prompt-ids", "1,2,3", "--print-ids"};
  const ChildResult ended = with(prompt);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '7'), 1024);
  EXPECT_THAT(ended.err, EndsWith("generate: the answer only repeated itself: it was ended "
                                  "(--allow-loops)\n"));
  std::vector<std::string> allowed = prompt;
  allowed.push_back("--allow-loops");
  const ChildResult whole = with(allowed);
  EXPECT_EQ(std::count(whole.out.begin(), whole.out.end(), '7'), 1100);
  EXPECT_THAT(whole.err, Not(HasSubstr("repeated")));
  write_file(folder_ / "prompts.jsonl", "{\"prompt_ids\": [1, 2, 3]}\n");
  const ChildResult batch = with({"--input", "prompts.jsonl", "--print-ids"});
  ASSERT_EQ(batch.status, 0) << batch.err;
  const json answer = json::parse(batch.out);
  EXPECT_EQ(answer["stop"], "loop");
  EXPECT_EQ(answer["tokens"], 1024);
}

TEST_F(GenerateProgram, SearchesWithBeams) {
  const std::string greedy = ids({"-n", "12"});
  EXPECT_EQ(ids({"-n", "12", "--beam-size", "1"}), greedy);
  const std::string found = ids({"-n", "12", "--beam-size", "8"});
  EXPECT_EQ(std::count(found.begin(), found.end(), ','), 11);
  EXPECT_NE(found, greedy);
  EXPECT_EQ(ids({"-n", "12", "--beam-size", "8"}), found);
  // The same for many prompts.
  write_file(folder_ / "prompts.jsonl", "{\"prompt_ids\": [1, 2, 3]}\n{\"prompt_ids\": [4]}\n");
  const ChildResult batch = tiny(
      {"--input", "prompts.jsonl", "--print-ids", "-n", "12", "--batch", "2", "--beam-size", "8"});
  ASSERT_EQ(batch.status, 0) << batch.err;
  std::string list = json::parse(lines_of(batch.out)[0])["ids"].dump();
  EXPECT_EQ(list, "[" + found.substr(0, found.size() - 1) + "]");
}

TEST_F(GenerateProgram, DraftsTokens) {
  const std::vector<std::string> arguments = {"-n", "60", "--allow-loops"};
  const std::string plain = ids(arguments);
  std::vector<std::string> drafting = arguments;
  drafting.insert(drafting.end(), {"--speculate", "ngram"});
  EXPECT_EQ(ids(drafting), plain);
  drafting.push_back("--stats");
  drafting.insert(drafting.end(), {"--prompt-ids", "1,2,3", "--print-ids"});
  EXPECT_THAT(tiny(drafting).err, HasSubstr("tokens were drafted"));
  expect_failure(run({"--speculate", "ngram", "--beam-size", "2", "a"}), 2, "--speculate");
}

TEST_F(GenerateProgram, DraftsTokensOfAModel) {
  const std::string model = (folder_.path() / "model").string();
  write_tiny_text_weights(model);
  write_letter_tokenizer(model);
  std::vector<std::string> arguments = {"-m", model, "--temperature", "1",  "--seed", "3",
                                        "-n", "40",  "--allow-loops", "abc"};
  const ChildResult plain = run(arguments);
  ASSERT_EQ(plain.status, 0) << plain.err;
  arguments.insert(arguments.end(), {"--draft", model, "--stats"});
  const ChildResult drafted = run(arguments);
  EXPECT_EQ(drafted.out, plain.out);
  EXPECT_THAT(drafted.err, HasSubstr("tokens were drafted"));
  expect_failure(run({"--draft", model, "--beam-size", "2", "a"}), 2, "--draft");
  expect_failure(run({"--draft", model, "--speculate", "ngram", "a"}), 2, "--draft");
  expect_failure(run({"-m", model, "--draft", "absent", "a"}), 4, "absent");
  const std::string without = (folder_.path() / "without").string();
  write_tiny_text_weights(without);
  expect_failure(run({"-m", model, "--draft", without, "a"}), 4, "tokenizer");
  write_letter_tokenizer(without);
  std::string text = read_file(without + "/tokenizer.json");
  text.replace(text.find("\"b\":6"), 5, "\"*\":6");
  write_file(without + "/tokenizer.json", text);
  expect_failure(run({"-m", model, "--draft", without, "a"}), 2,
                 "--draft: expected a model with the same tokens");
}

// Before the model is looked for.
TEST_F(GenerateProgram, NamesThePlaceOfAnErrorInAGrammar) {
  write_file(folder_ / "bad.gbnf", "root ::= word\nword ::= [a-z\n");
  expect_failure(run({"-m", "absent", "--grammar", "bad.gbnf", "a"}), 2,
                 "bad.gbnf: grammar: line 3, column 1");
  write_file(folder_ / "bad.json", "{\"properties\": {\"a\": {\"type\": \"gift\"}}}");
  expect_failure(run({"-m", "absent", "--json-schema", "bad.json", "a"}), 2,
                 "bad.json: JSON schema: at #/properties/a/type");
  expect_failure(run({"-m", "absent", "--regex", "(a", "a"}), 2, "--regex");
  expect_failure(run({"-m", "absent", "--grammar", "absent.gbnf", "a"}), 3, "absent.gbnf");
  expect_failure(run({"--json", "--regex", "a", "a"}), 2, "--json and --regex");
  expect_failure(run({"--json", "--beam-size", "2", "a"}), 2, "--json and --beam-size");
  expect_failure(run({"--grammar-after", "x", "a"}), 2, "--grammar-after");
  expect_failure(run({"--json", "--perplexity", "-"}), 2, "--json");
}

TEST_F(GenerateProgram, ShiftsAFullContext) {
  const std::vector<std::string> arguments = {"--ctx", "16", "-n", "40"};
  const std::string cut = ids(arguments);
  EXPECT_EQ(std::count(cut.begin(), cut.end(), ','), 12);
  std::vector<std::string> shifting = arguments;
  shifting.push_back("--context-shift");
  const std::string whole = ids(shifting);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), ','), 39);
  EXPECT_THAT(whole, StartsWith(cut.substr(0, cut.size() - 1)));
}

TEST_F(GenerateProgram, DumpsLogitsForNumPy) {
  const ChildResult result =
      tiny({"--prompt-ids", "1,2,3", "--print-ids", "--dump-logits", "logits.npy"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string file = read_file(folder_ / "logits.npy");
  EXPECT_THAT(file, HasSubstr("'shape': (3, 64)"));
  EXPECT_EQ(file.size() % 64, 0u);
  EXPECT_GE(file.size(), 3 * 64 * sizeof(float) + 64);
  // Without an answer no tokenizer is needed.
  const ChildResult alone = tiny({"--prompt-ids", "1,2,3", "--dump-logits", "alone.npy"});
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, IsEmpty());
  EXPECT_EQ(read_file(folder_ / "alone.npy"), file);
}

// Root may replace a device by a file: `-o /dev/null`.
TEST_F(GenerateProgram, WritesToANamedPipe) {
  const ChildResult result = run_child(
      {"/bin/sh", "-c",
       "mkfifo pipe; timeout 5 cat pipe > got & " GENERATE " -m " + std::string(LANGUAGE_MODELS) +
           "/qwen3 --device cpu --prompt-ids 1,2,3 --print-ids -n 4 -o pipe; wait; test -p pipe"},
      options_);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(read_file(folder_ / "got")).size(), 1u);
  EXPECT_THAT(names_in(folder_.path()), testing::ElementsAre("got", "pipe"));
}

// An endless text that is interrupted: the text so far is kept, also in a file, and a note
// reports it.
TEST_F(GenerateProgram, KeepsTextWhenInterrupted) {
  for (const bool to_file : {false, true}) {
    std::vector<std::string> arguments = {"--ctx",        "16",    "--context-shift",
                                          "--prompt-ids", "1,2,3", "--print-ids"};
    const std::string start = ids({"--ctx", "16", "--context-shift", "-n", "100"});
    if (to_file) {
      arguments.insert(arguments.end(), {"-o", "answer.txt"});
    } else {
      options_.stdout_path = (folder_ / "answer.txt").string();
    }
    Child child(tiny_command(arguments), options_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto grown = [&] {
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        if (entry.file_size() > start.size()) return true;
      }
      return false;
    };
    while (!grown() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    child.send(SIGINT);
    const ChildResult result = child.wait();
    options_.stdout_path.clear();
    EXPECT_EQ(result.status, 128 + SIGINT);
    EXPECT_EQ(result.err, "generate: interrupted: the answer was cut\n");
    EXPECT_THAT(names_in(folder_.path()), testing::ElementsAre("answer.txt"));
    const std::string text = read_file(folder_ / "answer.txt");
    EXPECT_THAT(text, StartsWith(start.substr(0, start.size() - 1) + ","));
    EXPECT_THAT(text, testing::MatchesRegex("[0-9,]*[0-9]\n"));
    std::filesystem::remove(folder_ / "answer.txt");
  }
}

TEST_F(GenerateProgram, SavesAndRestoresAPrompt) {
  const auto again = [&] {
    return tiny({"--prompt-ids", "1,2,3,4,5,6,7,8", "--print-ids", "-n", "8", "--stats",
                 "--prompt-cache", "kept"});
  };
  const ChildResult first = again(), second = again();
  EXPECT_EQ(first.out, second.out);
  EXPECT_THAT(first.err, testing::Not(HasSubstr("in the cache")));
  EXPECT_THAT(second.err, HasSubstr("7 tokens were in the cache"));
  write_file(folder_ / "kept", "something else");
  expect_failure(again(), 3, "kept");
}

TEST_F(GenerateProgram, ChangesTheWeights) {
  const std::string adapter = std::string(ADAPTERS) + "/qwen3";
  const std::string plain = ids({"-n", "20"}), adapted = ids({"-n", "20", "--lora", adapter});
  EXPECT_NE(adapted, plain);
  EXPECT_EQ(ids({"-n", "20", "--lora", adapter + "=1"}), adapted);
  EXPECT_EQ(ids({"-n", "20", "--lora", adapter + "=0"}), plain);
  EXPECT_NE(ids({"-n", "20", "--lora", adapter + "=0.25"}), adapted);
  const auto logprobs = [&](const std::string& type) {
    return tiny({"--prompt-ids", "1,2,3", "-n", "2", "--logprobs", "2", "--weights", type}).out;
  };
  EXPECT_NE(logprobs("q4_0"), logprobs("f32"));
  // A prompt of other weights is not reused.
  EXPECT_EQ(ids({"-n", "2", "--prompt-cache", "kept"}), ids({"-n", "2", "--prompt-cache", "kept"}));
  expect_failure(tiny({"--prompt-ids", "1,2,3", "--print-ids", "-n", "2", "--prompt-cache", "kept",
                       "--lora", adapter}),
                 3, "kept: it was saved with another model");
  expect_failure(tiny({"--prompt-ids", "1", "--lora", adapter + "=much"}), 2,
                 "--lora: expected a file, or a file and a scale");
  expect_failure(tiny({"--prompt-ids", "1", "--print-ids", "--lora", folder_.file("none")}), 4,
                 "none");
  expect_failure(tiny({"--prompt-ids", "1", "--weights", "q9_z"}), 2,
                 "--weights: expected one of f32, f16");
}

TEST_F(GenerateProgram, AnswersManyPromptsInOrder) {
  std::string prompts;
  for (int i = 1; i <= 9; ++i) {
    prompts += json{{"prompt_ids", {i, 2 * i, 3}}, {"max_tokens", 3 * (i % 3) + 2}}.dump() + "\n";
  }
  write_file(folder_ / "prompts.jsonl", prompts);
  const auto answers = [&](const char* batch) {
    const ChildResult result = tiny({"--input", "prompts.jsonl", "--batch", batch, "--print-ids",
                                     "--stats", "--temp", "1", "--seed", "5"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string one = answers("1");
  EXPECT_EQ(answers("4"), one);
  const auto lines = lines_of(one);
  ASSERT_EQ(lines.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    const json line = json::parse(lines[i]);
    EXPECT_EQ(line["index"], i);
    EXPECT_EQ(line["tokens"], 3 * ((i + 1) % 3) + 2);
    EXPECT_EQ(line["stop"], "limit");
  }
}

// Each invalid line has its own error, and the other lines are answered.
TEST_F(GenerateProgram, ContinuesAfterAnInvalidPrompt) {
  write_file(folder_ / "prompts.jsonl",
             "{\"prompt_ids\": [1]}\n"
             "{\"prompt\": 7}\n"
             "\n"
             "{\"prompt_ids\": [1, 2\n"
             "{\"prompt_ids\": [2]}\r\n"
             "{\"prompt_ids\": [64]}\n"
             "{\"prompt_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}\n"
             "{\"prompt_ids\": [3], \"max_tokens\": 0}\n"
             "{\"prompt_ids\": []}\n"
             "\xff\n"
             "{\"prompt_ids\": [3]}");
  const std::vector<std::pair<size_t, std::string>> wrong = {
      {2, "expected a text, or an object with prompt"},
      {4, "expected JSON"},
      {6, "expected token ids below 64"},
      {7, "1 too many"},
      {8, "expected max_tokens to be a count"},
      {9, "at least one token"},
      {10, "expected JSON"}};
  for (const char* batch : {"1", "4"}) {
    const ChildResult result = tiny({"--input", "prompts.jsonl", "--print-ids", "-n", "2", "--ctx",
                                     "8", "--batch", batch, "-o", "answers.jsonl"});
    EXPECT_EQ(result.status, 3);
    const auto errors = lines_of(result.err);
    ASSERT_EQ(errors.size(), wrong.size()) << result.err;
    const auto lines = lines_of(read_file(folder_ / "answers.jsonl"));
    ASSERT_EQ(lines.size(), 10u);
    size_t n_wrong = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      const json line = json::parse(lines[i]);
      EXPECT_EQ(line["index"], i);
      const bool is_right = i == 0 || i == 3 || i == 9;
      EXPECT_EQ(line.contains("ids"), is_right) << lines[i];
      EXPECT_EQ(line.contains("error"), !is_right) << lines[i];
      if (is_right || n_wrong == wrong.size()) continue;
      const auto& [number, what] = wrong[n_wrong];
      EXPECT_EQ(line["error"]["line"], number);
      EXPECT_THAT(line["error"]["message"], HasSubstr(what));
      EXPECT_THAT(errors[n_wrong],
                  StartsWith("generate: prompts.jsonl:" + std::to_string(number) + ": "));
      EXPECT_THAT(errors[n_wrong], HasSubstr(what));
      ++n_wrong;
    }
    EXPECT_EQ(n_wrong, wrong.size());
  }
  write_file(folder_ / "prompts.jsonl", "no\n");
  const ChildResult none = tiny({"--input", "prompts.jsonl", "--print-ids", "-n", "2"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.out, StartsWith("{\"index\":0,\"error\":{"));
  const ChildResult closed = run_child(
      {"/bin/sh", "-c",
       GENERATE " -m " + std::string(LANGUAGE_MODELS) + "/qwen3 --input - --print-ids <&-"},
      options_);
  expect_failure(closed, 3, "stdin: Bad file descriptor");
}

// The format of OpenAI's chat completions; answers equal those without log-probabilities.
TEST_F(GenerateProgram, GivesLogprobsInABatch) {
  std::string prompts;
  for (int i = 1; i <= 5; ++i) {
    prompts += json{{"prompt_ids", {i, 2 * i}}, {"max_tokens", 2 + i % 3}}.dump() + "\n";
  }
  write_file(folder_ / "prompts.jsonl", prompts);
  const std::vector<std::string> arguments = {"--input", "prompts.jsonl", "--batch", "2",
                                              "--print-ids"};
  const auto answers = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    const ChildResult result = tiny(all);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<json> lines;
    for (const std::string& line : lines_of(result.out)) lines.push_back(json::parse(line));
    EXPECT_EQ(lines.size(), 5u);
    lines.resize(5);
    return lines;
  };
  const auto plain = answers({}), three = answers({"--logprobs", "3"}),
             none = answers({"--logprobs", "0"});
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(plain[i].contains("logprobs"));
    EXPECT_EQ(three[i]["ids"], plain[i]["ids"]);
    EXPECT_EQ(none[i]["ids"], plain[i]["ids"]);
    const json& content = three[i]["logprobs"]["content"];
    ASSERT_EQ(content.size(), plain[i]["ids"].size());
    for (size_t t = 0; t < content.size(); ++t) {
      EXPECT_EQ(content[t]["id"], plain[i]["ids"][t]);
      EXPECT_LE(content[t]["logprob"], 0);
      const json& top = content[t]["top_logprobs"];
      ASSERT_EQ(top.size(), 3u);
      EXPECT_EQ(top[0]["id"], content[t]["id"]);  // the sampled token is the most probable one
      EXPECT_NEAR(top[0]["logprob"], content[t]["logprob"], 1e-4);
      EXPECT_GE(top[0]["logprob"], top[1]["logprob"]);
      EXPECT_GE(top[1]["logprob"], top[2]["logprob"]);
      json without = content[t];
      without["top_logprobs"] = json::array();
      EXPECT_EQ(none[i]["logprobs"]["content"][t], without);
    }
  }
}
}  // namespace
}  // namespace vesper::generate_program_test
