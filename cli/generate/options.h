// The options of `generate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "session/models/known_models.h"
#include "session/text/text_options.h"

namespace vesper {

// Use of the model.
enum class GenerateMode { kAnswer, kBatch, kPerplexity };  // kAnswer without a prompt: a chat

// Thinking: for the user of a terminal, for nobody, or as a part of the answer, with its tags.
enum class ShownThinking { kShow, kHide, kText };

struct GenerateArguments {
  std::string model = std::string(kDefaultModel);
  std::string draft;  // a model; empty: none
  bool offline = false, verbose = false;
  TextSessionOptions session;
  TextOptions text;  // for every answer

  GenerateMode mode = GenerateMode::kAnswer;
  std::vector<std::string> texts;     // given as arguments
  std::optional<std::string> system;  // the system message
  bool no_chat = false;               // continue the text
  bool no_think = false;              // answer without thinking
  ShownThinking thinking = ShownThinking::kShow;
  std::string schema_file, grammar_file;  // the text of TextOptions::grammar, unless both are empty
  std::optional<std::string> grammar_after;
  std::string chat_template;        // a file; empty: the model's template
  std::vector<int32_t> prompt_ids;  // instead of text
  std::string input;                // kBatch: one prompt per line
  std::string perplexity_file;      // kPerplexity
  std::string logits_file;          // output of the prompt's logits; empty: none
  std::string prompt_cache;         // file for the prompt's keys and values
  std::string output;               // a file; empty: standard output

  bool map_reduce = false;           // process long texts in parts
  bool print_ids = false;            // print token ids instead of text
  std::optional<uint32_t> logprobs;  // print a line of JSON per token, with this many alternatives
  bool stats = false;
};

// The table of options, which store into `arguments`.
OptionTable generate_options(GenerateArguments& arguments);

// Returns the text to print instead of working, for --help and the like. Throws Error(kUsage).
std::optional<std::string> parse_generate_options(int argc, const char* const* argv,
                                                  GenerateArguments& arguments);

}  // namespace vesper
