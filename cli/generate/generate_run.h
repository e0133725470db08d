// What `generate` does with a loaded model: one answer, many, or a text's perplexity.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/generate/options.h"
#include "cli/generate/text_model.h"
#include "cli/generate/token_logprobs.h"

namespace vesper {

// What an answer took.
struct AnswerTimes {
  double prompt_s = 0, answer_s = 0;
  uint64_t n_prompt = 0, n_reused = 0, n_answer = 0;
};

struct Answer {
  std::vector<int32_t> ids;            // the token that ended it included
  std::vector<TokenLogprob> logprobs;  // of each, with the alternatives that --logprobs asks for;
                                       // of a batch without --print-ids: of those in `text`
  std::string text;
  std::string end;  // "end", "stop", "limit", "context" or "interrupted"
  AnswerTimes times;
};

using WriteText = std::function<void(std::string_view)>;

// Answers the prompt in place 0, handing over the output as it comes (text, or what --print-ids and
// --logprobs make of the tokens), until `is_interrupted` says so if it is given. Throws
// Error(kInput) if the prompt has no room.
Answer run_answer(TextModel& model, const GenerateArguments& arguments,
                  std::span<const int32_t> prompt, const WriteText& write,
                  const std::function<bool()>& is_interrupted = nullptr);

struct BatchResult {
  AnswerTimes times;
  int status = 0;  // the program's exit status: of the first prompt that could not be answered
};

// Answers the prompts of --input, of which some run side by side; writes a line of JSON each, in
// their order. What is wrong with a prompt is handed to `report` ("prompts.jsonl:3: what"), stands
// as "error" in its line, and does not keep the others from their answers.
BatchResult run_batch(TextModel& model, const GenerateArguments& arguments, const WriteText& write,
                      const std::function<void(const std::string&)>& report);
// The longest of --input's prompts, in tokens, and the greatest number of tokens wanted after one.
uint32_t longest_of_batch(const TextModel& model, const GenerateArguments& arguments);

// Perplexity as llama.cpp's llama-perplexity has it: the text in pieces of --ctx tokens (512), of
// each of which the second half is scored.
void run_perplexity(TextModel& model, const GenerateArguments& arguments, const WriteText& write);
constexpr uint32_t kPerplexityCtx = 512;

// Writes the logits after each token of the prompt as a NumPy file, f32 [n, n_vocab].
void dump_logits(TextModel& model, const GenerateArguments& arguments,
                 std::span<const int32_t> prompt);

// Applies the instruction to each part of a text that is too long for the context, and again to the
// answers together, until these fit. Returns the prompt for the last answer, about them. Throws
// Error(kInput) if the context has no room for that.
std::vector<int32_t> map_reduced_prompt(TextModel& model, const GenerateArguments& arguments,
                                        const std::string& instruction, const std::string& text);

// The ids of a prompt: `instruction` and the text that it is about, either of which may be empty.
std::vector<int32_t> prompt_ids(const TextModel& model, const GenerateArguments& arguments,
                                const std::string& instruction, const std::string& text);

}  // namespace vesper
