// The options of `generate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "session/text_options.h"

namespace vesper {

// What is done with the model.
enum class GenerateMode { kAnswer, kBatch, kPerplexity };  // kAnswer without a prompt: a chat

struct GenerateArguments {
  std::string model = "smollm2-135m";
  bool offline = false, verbose = false;
  TextSessionOptions session;
  TextOptions text;  // of every answer

  GenerateMode mode = GenerateMode::kAnswer;
  std::vector<std::string> texts;     // given as arguments
  std::optional<std::string> system;  // the system message
  bool no_chat = false;               // the text is to be continued
  bool no_think = false;              // what a model thinks before it answers is not shown
  std::string chat_template;          // a file with one; empty: the model's own
  std::vector<int32_t> prompt_ids;    // instead of text
  std::string input;                  // kBatch: prompts a line
  std::string perplexity_file;        // kPerplexity
  std::string logits_file;            // where the prompt's logits go; empty: nowhere
  std::string prompt_cache;           // a file that keeps the prompt's keys and values
  std::string output;                 // a file; empty: standard output

  bool map_reduce = false;           // texts too long for the context go through in parts
  bool print_ids = false;            // token ids, not text
  std::optional<uint32_t> logprobs;  // a line of JSON a token, with so many alternatives
  bool stats = false;
};

// The table of options, which store into `arguments`.
OptionTable generate_options(GenerateArguments& arguments);

// Returns the text to print instead of working, for --help and the like. Throws Error(kUsage).
std::optional<std::string> parse_generate_options(int argc, const char* const* argv,
                                                  GenerateArguments& arguments);

}  // namespace vesper
