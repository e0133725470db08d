// The command line of `embed`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "embedder/embedder.h"

namespace vesper {

enum class EmbedFormat { kJson, kJsonl, kNpy, kF32, kBase64 };

// What is done with the vectors.
enum class EmbedMode { kVectors, kSearch, kSimilarity };

struct EmbedArguments {
  std::string model = "all-minilm-l6-v2";
  std::string device = "auto", compute = "auto";
  uint32_t threads = 0;
  bool offline = false, verbose = false;
  EmbedderOptions options;

  std::vector<std::string> texts;     // given as arguments
  std::vector<std::string> inputs;    // files with a text a line; "-" is standard input
  std::string key;                    // of the text in lines of JSON; empty: lines are the texts
  bool input_ids = false;             // texts are token ids
  std::optional<std::string> prefix;  // name of a prompt of the model's, or a text
  std::optional<std::string> query_prefix;  // the same for the query of --search

  EmbedMode mode = EmbedMode::kVectors;
  std::string query;  // kSearch
  uint32_t top = 10;  // lines of kSearch and kSimilarity
  EmbedFormat format = EmbedFormat::kJson;
  bool format_is_given = false;
  std::string output;  // a file; empty: standard output
};

// What the command line asks for: work, or the answer to --help or --version.
struct EmbedCommand {
  EmbedArguments arguments;
  std::optional<std::string> answer;
};

// Throws Error(kUsage).
EmbedCommand parse_embed_arguments(int argc, const char* const* argv);

}  // namespace vesper
