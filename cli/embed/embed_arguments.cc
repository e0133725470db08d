#include "cli/embed/embed_arguments.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {
namespace {

// At most 40 lines of 80 columns.
constexpr std::string_view kHelp = R"(Usage: embed [OPTION]... [TEXT]...
Turns texts into vectors. Without TEXT and --input, each line of standard input
is a text.

  -m, --model NAME|PATH  a GGUF file, a folder of Hugging Face, or a name:
                         all-minilm-l6-v2 (default), bge-small-en-v1.5...
      --input FILE       a text a line (.txt), or JSON a line (.jsonl), or -
      --key NAME         lines are JSON: of each, the member of that name (text)
      --input-ids        texts are token ids, as in "101 7592 102"
  -f, --format FORMAT    json (default: an array a text), jsonl (an object a
                         text), npy, f32 (raw), base64 (of f32, a line a text)
  -o, --output FILE      write there, not to standard output
      --search QUERY     print the texts most like QUERY, the best first
      --similarity       print the pairs of texts that are most alike
      --top N            with these two: at most N lines (10)
      --prefix TEXT      put before each text, for models that were trained so:
                         "passage: ", or the name of one of the model's prompts
      --query-prefix TEXT   the same for QUERY: "query: "
      --pooling KIND     mean, cls, last (default: as the model's files say)
      --no-normalize     leave vectors as they are; --normalize: to length 1
      --dimensions N     only the first N numbers (of Matryoshka models)
      --max-tokens N     of a text; what is cut off is reported
      --batch-tokens N   at once
      --device DEVICE    auto (default), cpu, vulkan, vulkan:N
      --compute TYPE     auto (default), f32, f16, bf16, int8
  -t, --threads N        of the CPU (default: as many as it has cores)
      --offline, -v, --verbose, --version, -h, --help

Exit status: 0 done, 2 usage, 3 input, 4 model, 5 device, 6 output.

  embed "a sentence" "another"
  embed --input notes.txt -f npy -o notes.npy
  transcribe talk.wav | embed --search "budget for next year" --top 5
)";

uint32_t parse_count(const std::string& option, const std::string& text, uint32_t most) {
  return static_cast<uint32_t>(parse_integer(option, text, 1, most));
}

EmbedFormat parse_format(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, EmbedFormat>, 5> kFormats = {
      {{"json", EmbedFormat::kJson},
       {"jsonl", EmbedFormat::kJsonl},
       {"npy", EmbedFormat::kNpy},
       {"f32", EmbedFormat::kF32},
       {"base64", EmbedFormat::kBase64}}};
  for (const auto& [name, format] : kFormats) {
    if (text == name) return format;
  }
  throw_usage("--format", "json, jsonl, npy, f32 or base64", text);
}

void check(const EmbedArguments& arguments, bool top_is_given) {
  if (!arguments.texts.empty() && !arguments.inputs.empty()) {
    throw Error(ErrorKind::kUsage, "expected texts as arguments or by --input, found both");
  }
  if (std::count(arguments.inputs.begin(), arguments.inputs.end(), "-") > 1) {
    throw Error(ErrorKind::kUsage, "standard input (-) can be read only once");
  }
  if (std::count(arguments.inputs.begin(), arguments.inputs.end(), "") > 0) {
    throw_usage("--input", "a file", "");
  }
  if (arguments.prefix && arguments.input_ids) {
    throw Error(ErrorKind::kUsage, "--prefix: expected with texts, not with --input-ids");
  }
  if (arguments.query_prefix && arguments.mode != EmbedMode::kSearch) {
    throw Error(ErrorKind::kUsage, "--query-prefix: expected together with --search");
  }
  if (arguments.mode == EmbedMode::kVectors) {
    if (top_is_given) {
      throw Error(ErrorKind::kUsage, "--top: expected together with --search or --similarity");
    }
    return;
  }
  if (arguments.format_is_given && arguments.format != EmbedFormat::kJsonl &&
      arguments.format != EmbedFormat::kJson) {
    throw Error(ErrorKind::kUsage,
                "--format: ranked lines can be text (default), json or jsonl only");
  }
  if (arguments.mode == EmbedMode::kSearch && arguments.input_ids) {
    throw Error(ErrorKind::kUsage, "--search takes texts, not --input-ids");
  }
}

}  // namespace

EmbedCommand parse_embed_arguments(int argc, const char* const* argv) {
  EmbedCommand command;
  EmbedArguments& arguments = command.arguments;
  CommandLine line("embed");
  bool similarity = false, top_is_given = false;
  bool normalize = false, no_normalize = false;
  line.add_question("-h,--help", std::string(kHelp));
  line.add_flag("--offline", arguments.offline);
  line.add_flag("-v,--verbose", arguments.verbose);
  line.add_flag("--input-ids", arguments.input_ids);
  line.add_flag("--similarity", similarity);
  line.add_flag("--normalize", normalize);
  line.add_flag("--no-normalize", no_normalize);
  const auto option = [&](const char* names, std::function<void(const std::string&)> take) {
    line.add_value(names, take);
  };
  option("-m,--model", [&](const std::string& text) { arguments.model = text; });
  line.add_repeated("--input", arguments.inputs);
  option("--key", [&](const std::string& text) {
    if (text.empty()) throw_usage("--key", "the name of a member", text);
    arguments.key = text;
  });
  option("-f,--format", [&](const std::string& text) {
    arguments.format = parse_format(text);
    arguments.format_is_given = true;
  });
  option("-o,--output", [&](const std::string& text) {
    if (text.empty()) throw_usage("--output", "a file", text);
    arguments.output = text == "-" ? "" : text;
  });
  option("--search", [&](const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw_usage("--search", "a text", text);
    }
    arguments.mode = EmbedMode::kSearch;
    arguments.query = text;
  });
  constexpr uint32_t kAny = std::numeric_limits<int32_t>::max();
  option("--top", [&](const std::string& text) {
    arguments.top = parse_count("--top", text, kAny);
    top_is_given = true;
  });
  option("--prefix", [&](const std::string& text) { arguments.prefix = text; });
  option("--query-prefix", [&](const std::string& text) { arguments.query_prefix = text; });
  option("--pooling",
         [&](const std::string& text) { arguments.options.pooling = parse_pooling(text); });
  option("--dimensions", [&](const std::string& text) {
    arguments.options.dimensions = parse_count("--dimensions", text, kAny);
  });
  option("--max-tokens", [&](const std::string& text) {
    arguments.options.max_tokens = parse_count("--max-tokens", text, kAny);
  });
  option("--batch-tokens", [&](const std::string& text) {
    arguments.options.batch_tokens = parse_count("--batch-tokens", text, 1u << 20);
  });
  option("--device", [&](const std::string& text) { arguments.device = text; });
  option("--compute", [&](const std::string& text) { arguments.compute = text; });
  option("-t,--threads", [&](const std::string& text) {
    arguments.threads = parse_count("--threads", text, 1024);
  });
  line.add_texts("texts", arguments.texts);
  command.answer = line.parse(argc, argv);
  if (command.answer) return command;
  if (normalize && no_normalize) {
    throw Error(ErrorKind::kUsage, "expected one of --normalize and --no-normalize, found both");
  }
  if (normalize || no_normalize) arguments.options.normalize = normalize;
  if (similarity && arguments.mode == EmbedMode::kSearch) {
    throw Error(ErrorKind::kUsage, "expected one of --search and --similarity, found both");
  }
  if (similarity) arguments.mode = EmbedMode::kSimilarity;
  parse_compute(arguments.compute);  // before a model is fetched for nothing
  check(arguments, top_is_given);
  return command;
}

}  // namespace vesper
