#include "cli/generate/generate_arguments.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>

#include "cli/embed/embed_input.h"
#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {
namespace {

// At most 40 lines of 80 columns.
constexpr std::string_view kHelp = R"(Usage: generate [OPTION]... [PROMPT]
Answers PROMPT with a language model. Text on standard input is what the prompt
is about, or the prompt itself where there is none. Without any, on a terminal:
a chat (type /help in it).

  -m, --model NAME|PATH  a GGUF file, a folder of Hugging Face, or a name:
                         smollm2-135m (default), qwen3-0.6b, llama-3.2-1b...
  -n, --max-tokens N     tokens of the answer (default: until it ends)
      --ctx N            tokens of prompt and answer (default: what they need)
      --system TEXT      what the model is told before the prompt
      --no-chat          continue PROMPT instead of answering it; --no-think:
                         leave out what a model thinks before it answers
      --long map-reduce  a text too long for the context goes through in parts
      --input FILE       a prompt a line (.txt), or JSON a line (.jsonl); so
                         are answers; --batch N: so many at once
  -o, --output FILE      write there, not to standard output
Choice of tokens:
      --temp T           0 (default): the likeliest; above: drawn, and --seed N
      --top-k N, --top-p P, --min-p P, --typical P    leave out the unlikely
      --repeat-penalty X, --frequency-penalty X, --presence-penalty X
                         against repetition within --repeat-last-n N (64) tokens
      --logit-bias ID+X  add X to the logit of a token (ID-X; may be repeated)
      --stop TEXT        end before this text (may be repeated)
      --ignore-eos       go on where it would end; --context-shift: for ever
In and out:
      --stats            times and tokens per second on standard error
      --logprobs N       a line of JSON a token, with N alternatives (0: none);
                         with --input "logprobs" in each answer's line
      --prompt-ids LIST, --print-ids    token ids instead of text: 1,2,3
      --dump-logits FILE.npy            the logits after each of the prompt
      --perplexity FILE  how well the model foresees a text, by contexts of 512
      --prompt-cache FILE   keep what was computed of the prompt for next time
      --chat-template FILE  one that is not the model's own
      --kv-type f16|f32, --compute TYPE, --device NAME, -t/--threads N
      --offline          never fetch a model
  -v, --verbose          say what is used;  --version;  -h, --help

  transcribe talk.wav | generate "Summarise this in three points."
)";

uint32_t parse_count(const std::string& option, const std::string& text, uint32_t least,
                     uint32_t most) {
  return static_cast<uint32_t>(parse_integer(option, text, least, most));
}

float parse_part(const std::string& option, const std::string& text) {
  return static_cast<float>(parse_number(option, text, 0, 1, "a number from 0 to 1"));
}

// "15043+1", "15043-0.5", "15043-inf"
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const std::string option = "--logit-bias", expected = "ID+BIAS or ID-BIAS";
  const size_t sign = text.find_first_of("+-");
  if (sign == std::string::npos || sign == 0) throw_usage(option, expected, text);
  const int64_t id =
      parse_integer(option, text.substr(0, sign), 0, std::numeric_limits<int32_t>::max(), expected);
  if (text.substr(sign) == "-inf") {
    return {static_cast<int32_t>(id), -std::numeric_limits<float>::infinity()};
  }
  const double bias = parse_number(option, text.substr(sign + 1), 0, 1e6, expected);
  return {static_cast<int32_t>(id), static_cast<float>(text[sign] == '-' ? -bias : bias)};
}

void check(GenerateArguments& arguments) {
  const auto fail = [](const std::string& message) { throw Error(ErrorKind::kUsage, message); };
  if (arguments.texts.size() > 1) {
    fail("expected one prompt, found " + std::to_string(arguments.texts.size()) +
         " (put it in quotation marks)");
  }
  if (!arguments.input.empty() && !arguments.perplexity_file.empty()) {
    fail("expected one of --input and --perplexity, found both");
  }
  const bool has_prompt = !arguments.texts.empty() || !arguments.prompt_ids.empty();
  if (arguments.mode != GenerateMode::kAnswer && has_prompt) {
    fail("expected no prompt together with --input or --perplexity");
  }
  if (!arguments.prompt_ids.empty() && !arguments.texts.empty()) {
    fail("expected a prompt or --prompt-ids, found both");
  }
  if (arguments.system && (arguments.no_chat || !arguments.prompt_ids.empty())) {
    fail("--system is a part of a chat: expected without --no-chat and --prompt-ids");
  }
  if (arguments.batch > 1 && arguments.mode != GenerateMode::kBatch) {
    fail("--batch: expected together with --input");
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
            {"--context-shift", arguments.context_shift},
            {"--long", arguments.map_reduce}},
           "with a prompt, not with --input or --perplexity");
  }
  if (arguments.mode == GenerateMode::kPerplexity) {
    reject({{"--system", arguments.system.has_value()},
            {"--max-tokens", arguments.max_new.has_value()},
            {"--logprobs", arguments.n_logprobs.has_value()},
            {"--print-ids", arguments.print_ids},
            {"--stop", !arguments.stops.empty()}},
           "with something to answer, not with --perplexity");
  }
  if (arguments.no_chat && !arguments.chat_template.empty()) {
    fail("expected one of --no-chat and --chat-template, found both");
  }
  if (arguments.mode == GenerateMode::kAnswer && arguments.n_logprobs && arguments.print_ids) {
    fail("expected one of --logprobs and --print-ids, found both");
  }
}

}  // namespace

GenerateCommand parse_generate_arguments(int argc, const char* const* argv) {
  GenerateCommand command;
  GenerateArguments& arguments = command.arguments;
  Sampling& sampling = arguments.sampling;
  CommandLine line("generate");
  std::vector<std::string> biases;
  line.add_question("-h,--help,--help-all", std::string(kHelp));
  line.add_flag("--offline", arguments.offline);
  line.add_flag("-v,--verbose", arguments.verbose);
  line.add_flag("--no-chat", arguments.no_chat);
  line.add_flag("--no-think", arguments.no_think);
  line.add_flag("--ignore-eos", arguments.ignore_end);
  line.add_flag("--context-shift", arguments.context_shift);
  line.add_flag("--print-ids", arguments.print_ids);
  line.add_flag("--stats", arguments.stats);
  constexpr uint32_t kAny = std::numeric_limits<int32_t>::max();
  const auto option = [&](const char* names, std::function<void(const std::string&)> take) {
    line.add_value(names, take);
  };
  const auto count = [&](const char* names, const char* name, uint32_t least, uint32_t most,
                         auto& to) {
    option(names, [=, &to](const std::string& text) { to = parse_count(name, text, least, most); });
  };
  const auto text_of = [&](const char* names, const char* name, std::string& to) {
    option(names, [=, &to](const std::string& text) {
      if (text.empty()) throw_usage(name, "a file", text);
      to = text;
    });
  };
  const auto number = [&](const char* name, double low, double high, const char* expected,
                          float& to) {
    option(name, [=, &to](const std::string& text) {
      to = static_cast<float>(parse_number(name, text, low, high, expected));
    });
  };
  option("-m,--model", [&](const std::string& text) { arguments.model = text; });
  count("-n,--max-tokens", "--max-tokens", 1, kAny, arguments.max_new);
  count("--ctx", "--ctx", 2, 1u << 24, arguments.n_ctx);
  count("--batch", "--batch", 1, 1024, arguments.batch);
  option("--system", [&](const std::string& text) { arguments.system = text; });
  text_of("--chat-template", "--chat-template", arguments.chat_template);
  for (const auto& [name, to] : {std::pair("--dump-logits", &arguments.logits_file),
                                 {"--prompt-cache", &arguments.prompt_cache}}) {
    option(name, [name = name, to = to](const std::string& text) {
      if (text.empty() || text == "-") throw_usage(name, "the name of a file", text);
      *to = text;
    });
  }
  option("-o,--output", [&](const std::string& text) {
    if (text.empty()) throw_usage("--output", "a file", text);
    arguments.output = text == "-" ? "" : text;
  });
  text_of("--input", "--input", arguments.input);
  text_of("--perplexity", "--perplexity", arguments.perplexity_file);
  option("--prompt-ids", [&](const std::string& text) {
    try {
      arguments.prompt_ids = parse_token_ids(text);
    } catch (const Error&) {
      arguments.prompt_ids.clear();
    }
    if (arguments.prompt_ids.empty()) throw_usage("--prompt-ids", "token ids such as 1,2,3", text);
  });
  option("--long", [&](const std::string& text) {
    parse_choice("--long", text, {"map-reduce"});
    arguments.map_reduce = true;
  });
  option("--temp,--temperature", [&](const std::string& text) {
    sampling.temperature =
        static_cast<float>(parse_number("--temp", text, 0, 100, "a number from 0 to 100"));
  });
  count("--top-k", "--top-k", 0, kAny, sampling.top_k);
  for (const auto& [name, to] : {std::pair("--top-p", &sampling.top_p),
                                 {"--min-p", &sampling.min_p},
                                 {"--typical", &sampling.typical_p}}) {
    option(name, [name = name, to = to](const std::string& text) { *to = parse_part(name, text); });
  }
  number("--repeat-penalty", 0.01, 100, "a number from 0.01 to 100", sampling.repetition_penalty);
  number("--frequency-penalty", -100, 100, "a number from -100 to 100", sampling.frequency_penalty);
  number("--presence-penalty", -100, 100, "a number from -100 to 100", sampling.presence_penalty);
  count("--repeat-last-n", "--repeat-last-n", 0, kAny, sampling.penalty_window);
  option("--seed", [&](const std::string& text) {
    sampling.seed = static_cast<uint32_t>(
        parse_integer("--seed", text, 0, std::numeric_limits<uint32_t>::max()));
  });
  line.add_repeated("--logit-bias", biases);
  line.add_repeated("--stop", arguments.stops);
  count("--logprobs", "--logprobs", 0, 1000, arguments.n_logprobs);
  option("--kv-type", [&](const std::string& text) {
    arguments.kv_dtype =
        parse_choice("--kv-type", text, {"f16", "f32"}) == "f32" ? DType::kF32 : DType::kF16;
  });
  option("--device", [&](const std::string& text) { arguments.device = text; });
  option("--compute", [&](const std::string& text) { arguments.compute = text; });
  count("-t,--threads", "--threads", 1, 1024, arguments.threads);
  line.add_texts("texts", arguments.texts);
  command.answer = line.parse(argc, argv);
  if (command.answer) return command;
  for (const std::string& bias : biases) arguments.bias.push_back(parse_bias(bias));
  std::erase(arguments.stops, "");
  parse_compute(arguments.compute);  // before a model is fetched for nothing
  if (!arguments.input.empty()) arguments.mode = GenerateMode::kBatch;
  if (!arguments.perplexity_file.empty()) arguments.mode = GenerateMode::kPerplexity;
  check(arguments);
  return command;
}

}  // namespace vesper
