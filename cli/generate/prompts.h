// The prompts that `generate` is given: an instruction and a text, or a file with one a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate/options.h"
#include "cli/terminal/text_input.h"
#include "session/text/text_model.h"

namespace vesper {

// The ids of a prompt: `instruction` and the text that it is about, either of which may be empty.
std::vector<int32_t> prompt_ids(const TextModel& model, const GenerateArguments& arguments,
                                const std::string& instruction, const std::string& text);

// A line of --input.
struct FilePrompt {
  std::vector<int32_t> ids;
  std::optional<uint32_t> max_tokens;
  size_t line_number = 0;  // in the file, from 1
  std::string place;       // for messages: "prompts.jsonl:3"
  std::string error;       // why this is no prompt; empty: it is one
  int status = 0;          // the program's exit status for that
};

class PromptFile {
 public:
  PromptFile(const TextModel& model, const GenerateArguments& arguments);

  // The prompt of the next line that is not blank; also of one that is wrong, with its error. None
  // at the end.
  std::optional<FilePrompt> next();

 private:
  void read(const std::string& line, FilePrompt& prompt) const;
  std::vector<int32_t> ids_of(const nlohmann::json& line) const;

  const TextModel& model_;
  const GenerateArguments& arguments_;
  bool is_json_;
  TextLines lines_;
};

}  // namespace vesper
