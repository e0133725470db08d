#include "cli/embed/options.h"

#include <algorithm>

#include "error/error.h"
#include "session/bounds.h"

namespace vesper {
namespace {

constexpr uint32_t kAnyCount = std::numeric_limits<int32_t>::max();

void check(const EmbedArguments& arguments) {
  const auto fail = [](const std::string& message) { throw Error(ErrorKind::kUsage, message); };
  if (!arguments.texts.empty() && !arguments.inputs.empty()) {
    fail("expected texts as arguments or by --input, found both");
  }
  if (std::count(arguments.inputs.begin(), arguments.inputs.end(), "-") > 1) {
    fail("standard input (-) can be read only once");
  }
  if (std::count(arguments.inputs.begin(), arguments.inputs.end(), "") > 0) {
    throw_usage("--input", "a file", "");
  }
  if (arguments.prefix && arguments.input_ids) {
    fail("--prefix: expected with texts, not with --input-ids");
  }
  if (arguments.mode == EmbedMode::kVectors) return;
  if (arguments.format && arguments.format != EmbedFormat::kJsonl &&
      arguments.format != EmbedFormat::kJson) {
    fail("--format: ranked lines can be text (default), json or jsonl only");
  }
  if (arguments.mode != EmbedMode::kSimilarity && arguments.input_ids) {
    fail("--search and --rerank take texts, not --input-ids");
  }
}

// A mode with a query.
OptionValue query_option(EmbedArguments& arguments, EmbedMode mode) {
  return parsed_option([&arguments, mode](const std::string& option, const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw_usage(option, "a text", text);
    }
    arguments.mode = mode;
    arguments.query = text;
  });
}

}  // namespace

OptionTable embed_options(EmbedArguments& arguments) {
  OptionTable options({
      .name = "embed",
      .usages = {"[OPTION]... [TEXT]..."},
      .description = "Turns texts into vectors. Without TEXT and --input, each line of standard "
                     "input is a text.",
      .examples = {"embed \"a sentence\" \"another\"",
                   "embed --input notes.txt -f npy -o notes.npy",
                   "transcribe talk.wav | embed --search \"budget for next year\" --top 5"},
  });
  options.section("Input");
  options.add_model_option(arguments.model, ModelKind::kTextEncoder,
                           "a GGUF file, a folder of Hugging Face, or a name");
  OptionValue inputs = repeated_option(arguments.inputs);
  inputs.completion = Completion::kFile;
  options.add("--input FILE", inputs, "a text a line (.txt), or JSON a line (.jsonl), or -");
  OptionValue key = parsed_option([&](const std::string& option, const std::string& text) {
    if (text.empty()) throw_usage(option, "the name of a member", text);
    arguments.key = text;
  });
  options
      .add("--key NAME", key.with_default("text"),
           "each line is a JSON object; the text is this member")
      .add_details("The default is for .jsonl files; the lines of other input are texts.");
  options.add("--input-ids", flag_option(arguments.input_ids),
              "texts are token ids, as in \"101 7592 102\"");
  options.add("--prefix TEXT", text_option(arguments.prefix),
              "put before each text: \"passage: \", or the name of one of the model's prompts");
  options.add("--max-tokens N", integer_option(arguments.session.embedder.max_tokens, 1, kAnyCount),
              "tokens of a text; longer texts are cut, which is reported");
  options.section("Vectors");
  options.add("--pooling KIND", parsed_option([&](const std::string&, const std::string& text) {
                                  arguments.session.embedder.pooling = parse_pooling(text);
                                }).with_default("as the model's files say"),
              "mean, cls, last");
  options.add("--normalize", flag_option([&] { arguments.session.embedder.normalize = true; }),
              "scale vectors to length 1");
  options.add("--no-normalize", flag_option([&] { arguments.session.embedder.normalize = false; }),
              "do not");
  options.exclude({"--normalize", "--no-normalize"});
  options.add("--dimensions N", integer_option(arguments.session.embedder.dimensions, 1, kAnyCount),
              "only the first N numbers (of Matryoshka models)");
  options.add_advanced(
      "--batch-tokens N",
      integer_option(arguments.session.embedder.batch_tokens, bounds::kBatchTokens),
      "tokens that are computed at once (default: what suits the device)");
  options.section("Search");
  options.add("--search QUERY", query_option(arguments, EmbedMode::kSearch),
              "print the texts most like QUERY, the best first");
  options
      .add("--query-prefix TEXT", text_option(arguments.query_prefix),
           "put before QUERY: \"query: \"")
      .needs("--search");
  options
      .add("--rerank QUERY", query_option(arguments, EmbedMode::kRerank),
           "print the texts that answer QUERY best, by a reranker")
      .needs("--model")
      .add_details(
          "Slower and more accurate than --search. The model reads QUERY and a text together: a "
          "cross-encoder such as "
          "bge-reranker or ms-marco-MiniLM, or a Qwen3-Reranker.");
  options
      .add_advanced("--instruct TEXT",
                    parsed_option([&](const std::string& option, const std::string& text) {
                      if (text.empty()) throw_usage(option, "a text", text);
                      arguments.session.instruction = text;
                    }).with_default("to search the web"),
                    "the task of a Qwen3-Reranker, with --rerank")
      .needs("--rerank");
  options.add("--similarity", flag_option([&] { arguments.mode = EmbedMode::kSimilarity; }),
              "print the pairs of texts that are most alike");
  options.exclude({"--search", "--rerank", "--similarity"});
  for (const char* name :
       {"--prefix", "--pooling", "--normalize", "--no-normalize", "--dimensions"}) {
    options.exclude({"--rerank", name});
  }
  options.add("--top N", integer_option(arguments.top, 1, kAnyCount),
              "at most N lines of a ranking");
  options.section("Output");
  options
      .add("-f, --format FORMAT",
           choice_option(arguments.format, {{"json", EmbedFormat::kJson},
                                            {"jsonl", EmbedFormat::kJsonl},
                                            {"npy", EmbedFormat::kNpy},
                                            {"f32", EmbedFormat::kF32},
                                            {"base64", EmbedFormat::kBase64}})
               .with_default("json"),
           "of vectors")
      .add_details(
          "json: an array a line. jsonl: an object a line. npy: a NumPy file. f32: numbers without "
          "anything between them. base64: these numbers, a text a line.");
  options.add("-o, --output FILE", output_option(arguments.output),
              "write there, not to standard output");
  options.add("-v, --verbose", flag_option(arguments.verbose), "say what is used");
  options.section("Engine");
  options.add_engine_options(arguments.session.device, arguments.session.compute,
                             arguments.session.threads, arguments.offline);
  options.add_weights_option(arguments.session.weights.type);
  options.add_positional("TEXT", arguments.texts);
  return options;
}

std::optional<std::string> parse_embed_options(int argc, const char* const* argv,
                                               EmbedArguments& arguments) {
  OptionTable options = embed_options(arguments);
  if (auto answer = options.parse(argc, argv)) return answer;
  check(arguments);
  if (options.is_given("--top") && arguments.mode == EmbedMode::kVectors) {
    throw Error(ErrorKind::kUsage,
                "--top: expected together with --search, --rerank or --similarity");
  }
  arguments.session.is_reranker = arguments.mode == EmbedMode::kRerank;
  return std::nullopt;
}

}  // namespace vesper
