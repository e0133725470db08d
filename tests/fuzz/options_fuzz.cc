// Command lines of the programs, one argument per line. The first byte says which program.
#include <sstream>

#include "cli/embed/options.h"
#include "cli/generate/options.h"
#include "cli/inspect/options.h"
#include "cli/transcribe/options.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  return {
      "0\n--input\nnotes.txt\n-f\nnpy\n--prefix=query\n--device\ncpu\n--threads\n4\n",
      "0\n--search\nq\n--top=3\n--input-ids\n",
      "1\n--prompt-ids\n[1, "
      "2,3]\n--logit-bias\n15043-inf\n--logit-bias=2+0.5\n--temperature\n0.7\n",
      "1\n-n\n10\n--beam-size\n4\n--length-penalty\n1.5\n--ctx\n512\n--top-k=40\n",
      "2\n--tensors\n--filter\n*.weight\n--json\nmodel.gguf\n",
      "3\n-l\nde\n--vad\n--word-timestamps\n--clip-timestamps\n0,10.5,20\n-f\nsrt,json\na.wav\n",
      "3\n--suppress-tokens\n-1,50257\n--temperature\n0.2\n--best-of\n3\n--stream=0.5\n-\n"};
}

void use(Bytes input) {
  std::istringstream lines{std::string(text_of(input))};
  std::vector<std::string> arguments;
  for (std::string line; std::getline(lines, line);) {
    arguments.push_back(line.substr(0, line.find('\0')));
  }
  if (arguments.empty()) return;
  const char program = arguments[0].empty() ? '0' : arguments[0][0];
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  switch (program) {
    case '0': {
      EmbedArguments parsed;
      parse_embed_options(argc, argv.data(), parsed);
      break;
    }
    case '1': {
      GenerateArguments parsed;
      parse_generate_options(argc, argv.data(), parsed);
      break;
    }
    case '2': {
      InspectArguments parsed;
      parse_inspect_options(argc, argv.data(), parsed);
      break;
    }
    default: {
      TranscribeArguments parsed;
      parse_transcribe_options(argc, argv.data(), parsed);
    }
  }
}

}  // namespace vesper::fuzz
