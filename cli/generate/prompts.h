// The prompts of `generate`: how an instruction becomes one, and a file with one prompt per line.
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

InstructionFormat instruction_format(const GenerateArguments& arguments);

// A line of --input.
struct FilePrompt {
  std::vector<int32_t> ids;
  std::optional<uint32_t> max_tokens;
  size_t line_number = 0;  // in the file, from 1
  std::string origin;      // for messages: "prompts.jsonl:3"
  std::string error;       // why it is invalid; empty if it is valid
  int status = 0;          // exit status for the error
};

class PromptFile {
 public:
  PromptFile(const TextModel& model, const GenerateArguments& arguments);

  // The prompt of the next line that is not blank, or an invalid one with its error. Absent at the
  // end.
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
