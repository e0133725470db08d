// The options of `embed`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/options.h"
#include "session/embedding/embedding_session.h"

namespace vesper {

enum class EmbedFormat { kJson, kJsonl, kNpy, kF32, kBase64 };

// What the program does with the vectors.
enum class EmbedMode { kVectors, kSearch, kRerank, kSimilarity };

struct EmbedArguments {
  std::string model = "all-minilm-l6-v2";
  bool offline = false, verbose = false;
  EmbeddingSessionOptions session;

  std::vector<std::string> texts;     // from arguments
  std::vector<std::string> inputs;    // files with one text per line; "-" is standard input
  std::string key;                    // of the text in JSON lines; if empty, each line is a text
  bool input_ids = false;             // texts are token ids
  std::optional<std::string> prefix;  // the name of a prompt of the model, or a text
  std::optional<std::string> query_prefix;  // the same for the query of --search

  EmbedMode mode = EmbedMode::kVectors;
  std::string query;                  // kSearch, kRerank
  uint32_t top = 10;                  // lines of every mode but kVectors
  std::optional<EmbedFormat> format;  // default: json for vectors, text for rankings
  std::string output;                 // file; empty: standard output
};

// The table of options. Parsing stores their values in `arguments`.
OptionTable embed_options(EmbedArguments& arguments);

// Returns text to print instead of working (--help, for example). Throws Error(kUsage).
std::optional<std::string> parse_embed_options(int argc, const char* const* argv,
                                               EmbedArguments& arguments);

}  // namespace vesper
