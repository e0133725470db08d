// Lines of text, JSON and token ids that `generate` and `embed` read.
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/embed/input.h"
#include "cli/generate/prompts.h"
#include "error/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

// A file in memory with this content; its path.
std::string memory_file(Bytes content) {
  static const int file = ::memfd_create("lines", MFD_CLOEXEC);
  require(::ftruncate(file, 0) == 0 && ::lseek(file, 0, SEEK_SET) == 0 &&
              ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()),
          "no memory file");
  return "/proc/self/fd/" + std::to_string(file);
}

const TextModel& model() {
  static const TextModel model = [] {
    namespace fs = std::filesystem;
    static const TemporaryFolder folder;
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(fs::path(LANGUAGE_MODELS) / "llama" / name, folder / name);
    }
    fs::copy_file(fs::path(VOCABULARIES) / "gpt2" / "tokenizer.json", folder / "tokenizer.json");
    return TextModel(folder.path(),
                     "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}");
  }();
  return model;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "\"Why?\"\n{\"prompt\": \"Why?\", \"max_tokens\": 3}\n{\"prompt_ids\": [1, 2]}\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", "
      "\"content\": \"b\"}]}\n",
      "{\"text\": \"a line\"}\r\n{\"text\": [1, 2, 3]}\n", "[1, 2,3] 4\n\n5"};
}

void use(Bytes input) {
  GenerateArguments generate;
  generate.input = memory_file(input);
  PromptFile prompts(model(), generate);
  while (const auto prompt = prompts.next()) {
    require(prompt->error.find('\n') == std::string::npos, "expected an error of one line");
  }
  for (const char* key : {"", "text"}) {
    EmbedArguments embed;
    embed.inputs = {generate.input};
    embed.key = key;
    embed.input_ids = true;
    EmbedInput lines(embed);
    try {
      for (std::string line; lines.next(line);) {
        for (const int32_t id : parse_token_ids(line)) require(id >= 0, "a negative id");
      }
    } catch (const Error& error) {
      require(std::string_view(error.what()).find('\n') == std::string_view::npos,
              "expected an error of one line");
    }
  }
}

}  // namespace vesper::fuzz
