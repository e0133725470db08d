// --input: many prompts, several answered at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/generate/options.h"
#include "session/text/text_session.h"

namespace vesper {

struct BatchResult {
  TextStatistics statistics;
  int status = 0;  // exit status: of the first failed prompt
};

// Answers the prompts of --input and writes a line of JSON for each, in order. An invalid prompt is
// reported to `report` ("prompts.jsonl:3: what"), has an "error" in its line, and does not affect
// the others.
BatchResult run_batch(TextSession& session, const GenerateArguments& arguments,
                      const std::function<void(std::string_view)>& write,
                      const std::function<void(const std::string&)>& report);

// A context for every prompt of --input and its answer. Standard input can be read only once: 4096.
uint32_t ctx_for_batch(const TextModel& model, const GenerateArguments& arguments);

}  // namespace vesper
