// The built `generate` with SmolLM2 from scripts/fetch-models.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/generate_fixture.h"
#include "tests/fetched_model.h"

namespace vesper::generate_text_test {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class GenerateText : public GenerateProgram {
 protected:
  void SetUp() override {
    GenerateProgram::SetUp();
    fetched_model("smollm2-135m");
  }
  ChildResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-m", "smollm2-135m"});
    return GenerateProgram::run(arguments);
  }
};

// Only SmolLM2 is installed, and nothing can be fetched.
TEST_F(GenerateText, SaysOnceThatItsModelIsALesserOne) {
  const std::filesystem::path models = folder_ / "models";
  std::filesystem::create_directory(models);
  std::filesystem::create_symlink(fetched_model("smollm2-135m"), models / "smollm2-135m");
  options_.environment["VESPER_MODELS"] = models;
  options_.environment["XDG_CACHE_HOME"] = folder_ / "cache";
  const ChildResult answer = GenerateProgram::run({"--offline", "-n", "4", "Hi"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_THAT(answer.out, Not(IsEmpty()));
  EXPECT_THAT(answer.err, StartsWith("generate: answering with smollm2-135m, a lesser model: "));
  EXPECT_EQ(lines_of(answer.err).size(), 1u) << answer.err;
  std::filesystem::remove(models / "smollm2-135m");
  expect_failure(GenerateProgram::run({"--offline", "Hi"}), 4, "--offline: model \"qwen3-");
}

// Under the file name of qwen3-0.6b another model serves as the default, and is sampled as Qwen3's
// publisher says.
TEST_F(GenerateText, TakesTheInstalledDefaultWithItsSampling) {
  const std::filesystem::path models = folder_ / "models";
  std::filesystem::create_directory(models);
  std::filesystem::create_symlink(fetched_model("smollm2-135m") / "SmolLM2-135M-Instruct.Q4_1.gguf",
                                  models / "Qwen3-0.6B-Q8_0.gguf");
  options_.environment["VESPER_MODELS"] = models;
  options_.environment["XDG_CACHE_HOME"] = folder_ / "cache";
  const ChildResult answer =
      GenerateProgram::run({"--offline", "-v", "--seed", "3", "-n", "4", "Hi"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_THAT(answer.err, Not(HasSubstr("lesser")));
  EXPECT_EQ(
      lines_of(answer.err).back(),
      "generate: sampling; of generation_config.json of qwen3-0.6b: temperature 0.6, top-k 20, "
      "top-p 0.95; given seed 3");
}

TEST_F(GenerateText, AnswersAPromptAboutStandardInput) {
  const std::string alone = run({"-n", "12", "--no-chat", "The capital of France is"}).out;
  EXPECT_THAT(alone, HasSubstr("Paris"));
  options_.standard_input = "The merchant Anna Krull sold apples in Lisbon for forty years.\n";
  const std::string about = run({"-n", "30", "Repeat the following text word for word."}).out;
  EXPECT_THAT(about, HasSubstr("Lisbon"));
}

// A text of Debian. llama-perplexity (llama.cpp 0.7.0 of Debian) gives 18.3914 with its defaults,
// including contexts of 512.
TEST_F(GenerateText, HasThePerplexityOfLlamaCpp) {
  const std::string text = "/usr/share/common-licenses/GPL-3";
  ASSERT_EQ(std::filesystem::file_size(text), 35149u) << "another version of the text";
  const ChildResult result = run({"--device", "cpu", "--perplexity", text});
  EXPECT_EQ(result.status, 0) << result.err;
  ASSERT_THAT(result.out, StartsWith("perplexity "));
  expect_failure(run({"--device", "cpu", "--perplexity", "/usr"}), 3, "found a folder");
  EXPECT_NEAR(std::stod(result.out.substr(11)), 18.3914, 0.005 * 18.3914);
  EXPECT_THAT(result.out, HasSubstr("14 contexts of 512"));
}

TEST_F(GenerateText, ReportsTheComputeFormat) {
  const auto used = [&](const char* compute) {
    const ChildResult result =
        run({"--device", "cpu", "-v", "--compute", compute, "-n", "1", "--no-chat", "Hi"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  options_.environment["VESPER_CPU_TARGET"] = "generic";
  EXPECT_THAT(used("auto"), HasSubstr("), f32, context of"));
#if defined(__x86_64__)
  options_.environment["VESPER_CPU_TARGET"] = "avx512_bf16";  // all instructions except tiles
  EXPECT_THAT(used("auto"), HasSubstr("), int8, context of"));
  EXPECT_THAT(used("bf16"), HasSubstr("), f32, context of"));
#endif
}

// The template places the system message, and the answer follows.
TEST_F(GenerateText, UsesASystemMessage) {
  write_file(folder_ / "shows.jinja",
             "{%- for message in messages -%}\n"
             "{%- if message['role'] == 'system' and message['content'] != 'You are a cat.' -%}\n"
             "{{- raise_exception('another system message') -}}\n{%- endif -%}\n{%- endfor -%}\n"
             "{%- if messages[0]['role'] != 'system' -%}\n"
             "{{- raise_exception('no system message') -}}\n{%- endif -%}\n"
             "{{- messages[-1]['content'] -}}\n");
  const std::vector<std::string> arguments = {"-n", "2", "--chat-template", "shows.jinja"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return run(more);
  };
  expect_failure(with({"Hi"}), 3, "no system message");
  expect_failure(with({"--system", "", "Hi"}), 3, "another system message");
  EXPECT_EQ(with({"--system", "You are a cat.", "Hi"}).status, 0);
  // Before the messages of a batch, except those with their own.
  write_file(folder_ / "chats.jsonl",
             json{{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}.dump() + "\n" +
                 json{{"messages",
                       {{{"role", "system"}, {"content", "You are a dog."}},
                        {{"role", "user"}, {"content", "Hi"}}}}}
                     .dump() +
                 "\n\"Hi\"\n");
  const ChildResult batch = with({"--system", "You are a cat.", "--input", "chats.jsonl"});
  EXPECT_EQ(batch.status, 3);
  EXPECT_THAT(batch.err, HasSubstr("chats.jsonl:2: "));
  EXPECT_EQ(lines_of(batch.err).size(), 1u) << batch.err;
  // A real model follows it.
  const auto asked = [&](const std::string& system) {
    return run({"-n", "24", "--system", system, "What is your name?"}).out;
  };
  EXPECT_THAT(asked("Your name is Zorblax."), HasSubstr("Zorblax"));
  EXPECT_THAT(asked("You are a helpful assistant."), Not(HasSubstr("Zorblax")));
}

TEST_F(GenerateText, EndsBeforeAStopText) {
  const std::string whole = run({"-n", "30", "--no-chat", "One, two, three, four,"}).out;
  EXPECT_THAT(whole, HasSubstr("six"));
  const std::string cut =
      run({"-n", "30", "--no-chat", "--stop", "six", "One, two, three, four,"}).out;
  EXPECT_EQ(cut, whole.substr(0, whole.find("six")) + "\n");
}

TEST_F(GenerateText, RefusesOrSplitsALongText) {
  for (int i = 0; i < 60; ++i) {
    options_.standard_input += "On day " + std::to_string(i) + " the merchant sold apples.\n";
  }
  const std::vector<std::string> arguments = {"--ctx", "384", "-n", "24",
                                              "Summarise this in one sentence."};
  const ChildResult too_long = run(arguments);
  expect_failure(too_long, 3, "too many");
  std::vector<std::string> in_parts = arguments;
  in_parts.insert(in_parts.end(), {"--long", "map-reduce"});
  const ChildResult result = run(in_parts);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("apples"));
}

// The transcript of recordings of Debian's pocketsphinx-testdata, through a pipe.
TEST_F(GenerateText, SummarizesATranscript) {
  fetched_model("base");
  // In f32, whose texts do not depend on the CPU's instructions.
  const std::string transcribe = TRANSCRIBE
      " -m base --offline --device cpu --compute f32 "
      "/usr/share/pocketsphinx/test/data/librivox/*.wav";
  const auto pipe = [&](const std::string& with) {
    return run_child({"/bin/bash", "-o", "pipefail", "-c", transcribe + " | " GENERATE " " + with},
                     options_);
  };
  const ChildResult heard = run_child({"/bin/sh", "-c", transcribe}, options_);
  ASSERT_EQ(heard.status, 0) << heard.err;
  ASSERT_THAT(heard.out, HasSubstr("Dashwood"));
  const ChildResult answer = pipe("-m smollm2-135m --compute f32 -n 80 'Summarise this.'");
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.err, Not(HasSubstr("generate:")));
  // The answer mentions the people in the recordings, and is shorter than the transcript.
  EXPECT_THAT(answer.out, AnyOf(HasSubstr("Dashwood"), HasSubstr("Norland"), HasSubstr("sister")));
  EXPECT_LT(answer.out.size(), heard.out.size());

  const ChildResult too_long = pipe("-m smollm2-135m --ctx 112 -n 16 'Summarise this.'");
  EXPECT_EQ(too_long.status, 3);
  EXPECT_THAT(too_long.err, HasSubstr("generate: the text has "));
  EXPECT_THAT(too_long.err, HasSubstr(" too many\n"));
  EXPECT_THAT(too_long.out, IsEmpty());
  const ChildResult in_parts =
      pipe("-m smollm2-135m --ctx 112 -n 16 --long map-reduce 'Summarise this.'");
  EXPECT_EQ(in_parts.status, 0) << in_parts.err;
  EXPECT_THAT(in_parts.out, Not(IsEmpty()));
}

TEST_F(GenerateText, DisablesOrOmitsThinking) {
  write_file(folder_ / "asks.jinja",
             "{%- if enable_thinking is not defined or enable_thinking -%}\n"
             "{{- raise_exception('it would think') -}}\n{%- endif -%}\n"
             "<|im_start|>user\n{{ messages[-1].content }}<|im_end|>\n<|im_start|>assistant\n");
  const std::vector<std::string> arguments = {"-n", "4", "--chat-template", "asks.jinja", "Hi"};
  expect_failure(run(arguments), 3, "it would think");
  std::vector<std::string> without = arguments;
  without.push_back("--no-think");
  EXPECT_EQ(run(without).status, 0);
  // The template starts the thinking: everything before </think> is thinking.
  write_file(folder_ / "begins.jinja", "{{ messages[-1].content }}<think>\n");
  const ChildResult thought =
      run({"-n", "4", "--chat-template", "begins.jinja", "--no-think", "Hi"});
  EXPECT_EQ(thought.status, 0) << thought.err;
  EXPECT_EQ(thought.out, "\n");
  // Without the option too: only --thinking text makes it a part of the answer.
  const std::vector<std::string> begins = {"-n", "4", "--chat-template", "begins.jinja", "Hi"};
  const auto thinking = [&](std::vector<std::string> options) {
    options.insert(options.end(), begins.begin(), begins.end());
    return run(options);
  };
  EXPECT_EQ(thinking({}).out, "\n");
  EXPECT_THAT(thinking({}).err, HasSubstr("still thinking when the answer ended"));
  EXPECT_EQ(thinking({"--thinking", "hide"}).out, "\n");
  EXPECT_GT(thinking({"--thinking", "text"}).out.size(), 4u);
  // The same for many prompts, and for the last answer of a long text in parts.
  write_file(folder_ / "prompts.txt", "Hi\n");
  const ChildResult batch =
      run({"-n", "4", "--chat-template", "begins.jinja", "--no-think", "--input", "prompts.txt"});
  EXPECT_EQ(batch.status, 0) << batch.err;
  EXPECT_EQ(json::parse(batch.out)["text"], "");
  EXPECT_NE(json::parse(batch.out)["thinking"], "");
  for (int i = 0; i < 100; ++i) options_.standard_input += "one two three.\n";
  const ChildResult parts = run({"-n", "4", "--ctx", "256", "--long", "map-reduce",
                                 "--chat-template", "begins.jinja", "--no-think", "Hi"});
  EXPECT_EQ(parts.status, 0) << parts.err;
  EXPECT_EQ(parts.out, "\n");
}

TEST_F(GenerateText, SeparatesLogprobsFromText) {
  const ChildResult result = run({"-n", "3", "--logprobs", "2", "--no-chat", "One two three"});
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) {
    const json token = json::parse(line);
    EXPECT_LE(token["logprob"], 0);
    ASSERT_EQ(token["top"].size(), 2u);
    EXPECT_EQ(token["top"][0]["id"], token["id"]);
    EXPECT_NEAR(token["top"][0]["logprob"], token["logprob"], 1e-3);
  }
  // The same in a batch.
  write_file(folder_ / "prompts.txt", "One two three\n");
  const ChildResult batch =
      run({"-n", "3", "--logprobs", "2", "--no-chat", "--input", "prompts.txt"});
  ASSERT_EQ(batch.status, 0) << batch.err;
  const json answer = json::parse(batch.out);
  std::string text;
  ASSERT_EQ(answer["logprobs"]["content"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json token = json::parse(lines[i]);
    const json& same = answer["logprobs"]["content"][i];
    EXPECT_EQ(same["token"], token["text"]);
    for (const json& byte : same["bytes"]) text += static_cast<char>(byte.get<int>());
    ASSERT_EQ(same["top_logprobs"].size(), 2u);
    EXPECT_EQ(same["top_logprobs"][1]["token"], token["top"][1]["text"]);
    EXPECT_NEAR(same["top_logprobs"][1]["logprob"], token["top"][1]["logprob"], 1e-3);
  }
  EXPECT_EQ(answer["text"], text);
}

// The tokens of the text that is printed without --logprobs: neither the one that ends the answer
// nor those of a stop text.
TEST_F(GenerateText, GivesLogprobsOfTheText) {
  const auto tokens_of = [](const json& tokens, const char* key) {
    std::string text;
    for (const json& token : tokens) text += token[key].get<std::string>();
    return text;
  };
  const std::vector<std::vector<std::string>> questions = {
      {"-n", "60", "What is the capital of France? Answer in one word."},
      {"-n", "30", "--no-chat", "--stop", ", five", "One, two, three, four,"},
      {"-n", "30", "--no-chat", "--stop", "ive, six", "One, two, three, four,"}};
  for (const auto& question : questions) {
    const std::string text = run(question).out;
    auto with = question;
    with.insert(with.end(), {"--logprobs", "0"});
    json tokens = json::array();
    for (const std::string& line : lines_of(run(with).out)) tokens.push_back(json::parse(line));
    ASSERT_FALSE(tokens.empty()) << text;
    // The last token may contain the beginning of the stop text.
    const std::string all = tokens_of(tokens, "text");
    EXPECT_THAT(all, StartsWith(text.substr(0, text.size() - 1)));
    tokens.erase(tokens.size() - 1);
    EXPECT_LT(tokens_of(tokens, "text").size(), text.size() - 1);

    write_file(folder_ / "prompts.txt", question.back() + "\n");
    with.back() = "0";
    with.erase(std::find(with.begin(), with.end(), question.back()));
    with.insert(with.end(), {"--input", "prompts.txt"});
    const json answer = json::parse(run(with).out);
    EXPECT_EQ(answer["text"].get<std::string>() + "\n", text);
    EXPECT_EQ(tokens_of(answer["logprobs"]["content"], "token"), all);
  }
}

}  // namespace
}  // namespace vesper::generate_text_test
