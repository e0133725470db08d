// --input: many prompts, some of which are answered side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/generate/options.h"
#include "session/text_session.h"

namespace vesper {

struct BatchResult {
  TextStatistics statistics;
  int status = 0;  // the program's exit status: of the first prompt that could not be answered
};

// Answers the prompts of --input and writes a line of JSON each, in their order. What is wrong with
// a prompt is handed to `report` ("prompts.jsonl:3: what"), stands as "error" in its line, and does
// not keep the others from their answers.
BatchResult run_batch(TextSession& session, const GenerateArguments& arguments,
                      const std::function<void(std::string_view)>& write,
                      const std::function<void(const std::string&)>& report);

// A context that every prompt of --input has room in, with its answer. Standard input can be read
// only once: for it, 4096.
uint32_t ctx_for_batch(const TextModel& model, const GenerateArguments& arguments);

}  // namespace vesper
