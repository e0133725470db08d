#include "cli/generate/options.h"

#include "error/error.h"

namespace vesper {
namespace {

constexpr int64_t kAnyCount = std::numeric_limits<int32_t>::max();

// "15043+1", "15043-0.5", "15043-inf"
std::pair<int32_t, float> parse_bias(const std::string& option, const std::string& text) {
  const std::string expected = "ID+BIAS or ID-BIAS";
  const size_t sign = text.find_first_of("+-");
  if (sign == std::string::npos || sign == 0) throw_usage(option, expected, text);
  const int64_t id = parse_integer(option, text.substr(0, sign), 0, kAnyCount, expected);
  if (text.substr(sign) == "-inf") {
    return {static_cast<int32_t>(id), -std::numeric_limits<float>::infinity()};
  }
  const double bias = parse_number(option, text.substr(sign + 1), 0, 1e6, expected);
  return {static_cast<int32_t>(id), static_cast<float>(text[sign] == '-' ? -bias : bias)};
}

// "FILE" or "FILE=SCALE".
AdapterFile parse_adapter(const std::string& option, const std::string& text) {
  const size_t sign = text.rfind('=');
  std::error_code error;
  if (sign == std::string::npos || std::filesystem::exists(text, error)) return {text};
  const double scale = parse_number(option, text.substr(sign + 1), -1e6, 1e6,
                                    "a file, or a file and a scale such as adapter.gguf=0.5");
  return {text.substr(0, sign), static_cast<float>(scale)};
}

void check(const GenerateArguments& arguments) {
  const auto fail = [](const std::string& message) { throw Error(ErrorKind::kUsage, message); };
  if (arguments.texts.size() > 1) {
    fail("expected one prompt, found " + std::to_string(arguments.texts.size()) +
         " (put it in quotation marks)");
  }
  const bool has_prompt = !arguments.texts.empty() || !arguments.prompt_ids.empty();
  if (arguments.mode != GenerateMode::kAnswer && has_prompt) {
    fail("expected no prompt together with --input or --perplexity");
  }
  if (!arguments.prompt_ids.empty() && !arguments.texts.empty()) {
    fail("expected a prompt or --prompt-ids, found both");
  }
  if (arguments.session.n_slots > 1 && arguments.mode != GenerateMode::kBatch) {
    fail("--batch: expected together with --input");
  }
  if (arguments.system && (arguments.no_chat || !arguments.prompt_ids.empty())) {
    fail("--system is a part of a chat: expected without --no-chat and --prompt-ids");
  }
  const auto reject = [&](std::initializer_list<std::pair<const char*, bool>> options,
                          const char* where) {
    for (const auto& [option, is_given] : options) {
      if (is_given) fail(std::string(option) + ": expected " + where);
    }
  };
  if (arguments.mode != GenerateMode::kAnswer) {
    reject({{"--dump-logits", !arguments.logits_file.empty()},
            {"--prompt-cache", !arguments.prompt_cache.empty()},
            {"--context-shift", arguments.text.context_shift},
            {"--long", arguments.map_reduce}},
           "with a prompt, not with --input or --perplexity");
  }
  if (arguments.mode == GenerateMode::kPerplexity) {
    reject({{"--system", arguments.system.has_value()},
            {"--max-tokens", arguments.text.max_tokens.has_value()},
            {"--logprobs", arguments.logprobs.has_value()},
            {"--print-ids", arguments.print_ids},
            {"--stop", !arguments.text.stops.empty()},
            {"--json-schema, --json, --grammar, --regex", arguments.text.grammar.has_value()}},
           "with something to answer, not with --perplexity");
  }
  check_options(arguments.text, arguments.session);
  if (arguments.mode == GenerateMode::kAnswer && arguments.logprobs && arguments.print_ids) {
    fail("expected one of --logprobs and --print-ids, found both");
  }
}

void add_sampling_options(OptionTable& options, GenerateArguments& arguments) {
  SamplingOptions& sampling = arguments.text.sampling;
  options.section(
      "Sampling",
      "Without these options: as the model's generation_config.json or general.sampling.* "
      "of its GGUF file say, else always the most probable token.");
  options
      .add("--temp, --temperature T", number_option(sampling.temperature, bounds::kTemperature),
           "0: the most probable token; above: random")
      .add_details("Higher values sample improbable tokens more often.");
  options.add(
      "--seed N",
      integer_option(sampling.seed, 0, std::numeric_limits<uint32_t>::max()).with_default("random"),
      "of the sampling noise");
  options.add("--top-k N", integer_option(sampling.top_k, bounds::kTopK),
              "only the N most probable tokens; 0: all");
  options.add("--top-p P", number_option(sampling.top_p, bounds::kProbability),
              "only the most probable tokens, up to P in total");
  options.add_advanced("--min-p P", number_option(sampling.min_p, bounds::kProbability),
                       "only tokens with at least P times the highest probability");
  options
      .add_advanced("--typical P", number_option(sampling.typical_p, bounds::kProbability),
                    "only the tokens nearest to the entropy, up to P in total")
      .sets("typical p");
  options
      .add_advanced("--repeat-penalty X",
                    number_option(sampling.repetition_penalty, bounds::kRepetitionPenalty),
                    "above 1: earlier tokens become less probable")
      .sets("repetition penalty");
  options.add_advanced(
      "--frequency-penalty X",
      number_option(sampling.frequency_penalty, bounds::kPenalty).with_default("0"),
      "subtracted from a token's logit for each earlier occurrence");
  options.add_advanced("--presence-penalty X",
                       number_option(sampling.presence_penalty, bounds::kPenalty).with_default("0"),
                       "subtracted from the logit of every earlier token");
  options.add_advanced("--repeat-last-n N", integer_option(sampling.penalty_window, 0, kAnyCount),
                       "number of last tokens that the penalties use");
  options
      .add_advanced("--beam-size N", integer_option(arguments.session.beam_size, bounds::kBeamSize),
                    "search for the most probable text with N beams; 1: no search")
      .add_details(
          "Slower, and without sampling: the temperature is 0. The answer is printed when it is "
          "complete.");
  options
      .add_advanced("--length-penalty X",
                    number_option(arguments.session.length_penalty, bounds::kTextLengthPenalty),
                    "beams are ranked by log-probability / length^X: above 0 favours long texts")
      .needs("--beam-size");
  OptionValue bias = parsed_option([&](const std::string& option, const std::string& text) {
    arguments.session.logit_bias.push_back(parse_bias(option, text));
  });
  bias.is_repeatable = true;
  options.add_advanced("--logit-bias ID+X", bias,
                       "add X to the logit of a token; ID-X: subtract it");
}

void add_grammar_options(OptionTable& options, GenerateArguments& arguments) {
  const auto set = [&arguments](GrammarNotation notation, const std::string& text = {}) {
    arguments.text.grammar = GrammarOptions{.notation = notation, .text = text};
  };
  options
      .add("--json-schema FILE", file_option(arguments.schema_file),
           "the answer is JSON that fits this schema")
      .sets("JSON schema");
  options.add("--json", flag_option([set] { set(GrammarNotation::kJson); }),
              "the answer is a JSON object or array");
  options.add_advanced("--grammar FILE", file_option(arguments.grammar_file),
                       "the answer is a text of this grammar (GBNF)");
  options.add_advanced("--regex PATTERN",
                       parsed_option([set](const std::string&, const std::string& pattern) {
                         set(GrammarNotation::kRegex, pattern);
                       }),
                       "the answer matches this regular expression as a whole");
  options
      .add_advanced("--grammar-after TEXT", text_option(arguments.grammar_after),
                    "the grammar begins after this text of the answer")
      .add_details("Without it: after the model's thinking, if it thinks, else at once.");
  options.exclude({"--json-schema", "--json", "--grammar", "--regex", "--beam-size"});
}

}  // namespace

OptionTable generate_options(GenerateArguments& arguments) {
  OptionTable options({
      .name = "generate",
      .usages = {"[OPTION]... [PROMPT]"},
      .description =
          "Answers PROMPT with a language model. Text on standard input is the subject of "
          "the prompt, or the prompt if none is given. Without any, on a terminal: a chat (type "
          "/help in it).",
      .examples = {"generate \"Write one sentence about rivers.\"",
                   "transcribe talk.wav | generate \"Summarise this in three points.\""},
  });
  options.section("Prompt");
  options.add_model_option(arguments.model, ModelKind::kLanguage,
                           "a GGUF file, a folder of Hugging Face, or a name");
  options.add("--system TEXT", text_option(arguments.system), "a system message before the prompt");
  options.add("--no-chat", flag_option(arguments.no_chat),
              "continue PROMPT instead of answering it");
  options.add_advanced("--chat-template FILE", file_option(arguments.chat_template),
                       "a chat template that replaces the model's own");
  options.exclude({"--no-chat", "--chat-template"});
  options.add("--input FILE", file_option(arguments.input, true),
              "answer each line: text (.txt) or JSON (.jsonl)");
  options.add("--batch N", integer_option(arguments.session.n_slots, bounds::kSlots),
              "answers at once");
  options
      .add("--long HOW", one_of({"map-reduce"}, [&](size_t) { arguments.map_reduce = true; }),
           "for a text longer than the context")
      .add_details(
          "map-reduce: the prompt is applied to each part of the text, then to the "
          "answers.");
  options.add_advanced("--prompt-ids LIST",
                       parsed_option([&](const std::string& option, const std::string& text) {
                         try {
                           arguments.prompt_ids = parse_token_ids(text);
                         } catch (const Error&) {
                           arguments.prompt_ids.clear();
                         }
                         if (arguments.prompt_ids.empty()) {
                           throw_usage(option, "token ids such as 1,2,3", text);
                         }
                       }),
                       "the prompt as token ids: 1,2,3");
  options.add_advanced("--prompt-cache FILE", file_option(arguments.prompt_cache),
                       "keep the prompt's keys and values for the next run");
  options.section("Answer");
  options.add("-n, --max-tokens N",
              integer_option(arguments.text.max_tokens, bounds::kAnswerTokens),
              "tokens of the answer (default: until it ends)");
  options
      .add("--ctx N",
           integer_option(arguments.session.context, bounds::kContext)
               .with_default("what they need"),
           "tokens of prompt and answer")
      .sets("context");
  OptionValue stop = parsed_option([&](const std::string&, const std::string& text) {
    if (!text.empty()) arguments.text.stops.push_back(text);
  });
  stop.is_repeatable = true;
  options.add("--stop TEXT", stop, "end before this text");
  options.add("--no-think", flag_option(arguments.no_think),
              "answer without thinking first, if the model can do so");
  options
      .add_advanced("--thinking HOW",
                    choice_option(arguments.thinking, {{"show", ShownThinking::kShow},
                                                       {"hide", ShownThinking::kHide},
                                                       {"text", ShownThinking::kText}}),
                    "what a model thinks before it answers")
      .add_details(
          "show: dimmed on a terminal, on standard error, and as \"thinking\" with --input. hide: "
          "nowhere. text: on standard output with its tags, as a part of the answer.");
  add_grammar_options(options, arguments);
  options.add_advanced("--ignore-eos", flag_option(arguments.session.ignore_end),
                       "ignore tokens that end an answer");
  options.add_advanced("--allow-loops", flag_option([&] { arguments.text.end_loops = false; }),
                       "do not end an answer that only repeats itself");
  options.add_advanced("--context-shift", flag_option(arguments.text.context_shift),
                       "if the context is full, drop its older half and continue");
  add_sampling_options(options, arguments);
  options.section("Output");
  options.add("-o, --output FILE", output_option(arguments.output),
              "write there, not to standard output");
  options.add("--stats", flag_option(arguments.stats),
              "times and tokens per second on standard error");
  options
      .add_advanced("--logprobs N", integer_option(arguments.logprobs, bounds::kTopLogprobs),
                    "a line of JSON a token, with N alternatives")
      .add_details("With --input, each line of the output has them as \"logprobs\".");
  options.add_advanced("--print-ids", flag_option(arguments.print_ids),
                       "print token ids instead of text");
  options.add_advanced("--dump-logits FILE", file_option(arguments.logits_file),
                       "write the logits after each token of the prompt, as .npy");
  options
      .add_advanced("--perplexity FILE", file_option(arguments.perplexity_file, true),
                    "print how well the model predicts a text, instead of an answer")
      .add_details("The text is cut into contexts of 512 tokens, or of --ctx.");
  options.exclude({"--input", "--perplexity"});
  options.add("-v, --verbose", flag_option(arguments.verbose), "say what is used");
  options.section("Engine");
  options.add_engine_options(arguments.session.device, arguments.session.compute,
                             arguments.session.threads, arguments.offline);
  options.add_weights_option(arguments.session.weights.type);
  OptionValue adapter = parsed_option([&](const std::string& option, const std::string& text) {
    arguments.session.weights.adapters.push_back(parse_adapter(option, text));
  });
  adapter.is_repeatable = true;
  adapter.completion = Completion::kFile;
  options.add_advanced("--lora FILE[=SCALE]", adapter, "add a LoRA adapter to the weights")
      .add_details(
          "A folder of PEFT or a GGUF file of llama.cpp, made for this model. SCALE, by default 1, "
          "multiplies the change.")
      .sets("adapters");
  options
      .add("--speculate HOW",
           choice_option(arguments.session.speculate,
                         {{"off", Speculate::kOff}, {"ngram", Speculate::kNgram}}),
           "draft tokens to be faster")
      .add_details(
          "Several drafted tokens are checked at once. Not with beams. ngram: what followed the "
          "last words where they stood before, in the prompt or the "
          "answer. For answers that repeat their prompt: corrections, extracts, summaries. Drafts "
          "are left out while they do not pay.");
  options
      .add_advanced("--draft MODEL", text_option(arguments.draft),
                    "a smaller model that drafts tokens")
      .add_details(
          "The answer is the same, sooner if the two models often agree: a small one of the same "
          "family, with the same tokens. Several drafted tokens are checked at once. Drafts are "
          "left out while they do not pay. Not with beams.");
  options.exclude({"--speculate", "--draft", "--beam-size"});
  options.add_kv_type_option(arguments.session.kv_type);
  options.add_positional("PROMPT", arguments.texts);
  return options;
}

std::optional<std::string> parse_generate_options(int argc, const char* const* argv,
                                                  GenerateArguments& arguments) {
  OptionTable options = generate_options(arguments);
  if (auto answer = options.parse(argc, argv)) return answer;
  if (!arguments.input.empty()) arguments.mode = GenerateMode::kBatch;
  if (!arguments.perplexity_file.empty()) arguments.mode = GenerateMode::kPerplexity;
  if (!arguments.schema_file.empty()) {
    arguments.text.grammar = GrammarOptions{.notation = GrammarNotation::kJsonSchema};
  }
  if (!arguments.grammar_file.empty()) arguments.text.grammar = GrammarOptions{};
  if (arguments.grammar_after) {
    if (!arguments.text.grammar) {
      throw Error(ErrorKind::kUsage,
                  "--grammar-after: expected together with --json-schema, --json, --grammar or "
                  "--regex");
    }
    arguments.text.grammar->after = arguments.grammar_after;
  }
  arguments.text.top_logprobs = arguments.logprobs.value_or(0);
  if (arguments.thinking == ShownThinking::kText) arguments.text.thinking = Thinking::kInText;
  check(arguments);
  return std::nullopt;
}

}  // namespace vesper
