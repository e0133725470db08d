#include "cli/generate/batch.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/generate/prompts.h"
#include "cli/terminal/program.h"
#include "session/text/token_logprobs.h"

namespace vesper {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string json_line(const OrderedJson& line) {
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

class Batch {
 public:
  Batch(TextSession& session, const GenerateArguments& arguments,
        const std::function<void(std::string_view)>& write,
        const std::function<void(const std::string&)>& report)
      : session_(session),
        arguments_(arguments),
        write_(write),
        report_(report),
        prompts_(session.model(), arguments) {}

  BatchResult run() {
    result_.statistics = session_.answer_many([this](bool) { return next_job(); });
    return result_;
  }

 private:
  std::optional<TextJob> next_job() {
    while (std::optional<FilePrompt> prompt = prompts_.next()) {
      const uint64_t index = n_started_++;
      lines_.emplace_back();
      if (!prompt->error.empty()) {
        fail(index, *prompt, {prompt->status, prompt->error});
        continue;
      }
      TextJob job;
      job.request = {std::move(prompt->ids), arguments_.text};
      TextOptions& options = job.request.options;
      options.max_tokens = prompt->max_tokens;
      std::optional<uint32_t>& seed = options.sampling.seed;
      if (seed) seed = seed_of_prompt(*seed, index);
      // An answer must not depend on the previous prompt of its slot.
      options.reuse_prompt = false;
      job.on_done = [this, index](const TextAnswer& answer) {
        finish(index, line_of(index, answer));
      };
      job.on_failure = [this, index, at = *prompt](const std::exception& error) {
        fail(index, at, failure_of(error));
      };
      return job;
    }
    return std::nullopt;
  }

  std::string line_of(uint64_t index, const TextAnswer& answer) const {
    OrderedJson line{{"index", index}};
    std::span<const TokenLogprob> tokens = answer.tokens;
    if (arguments_.print_ids) {
      OrderedJson& ids = line["ids"] = OrderedJson::array();
      for (const TokenLogprob& token : tokens) ids.push_back(token.id);
    } else {
      line["text"] = answer.text;
      if (!answer.thinking.empty() && arguments_.thinking == ShownThinking::kShow) {
        line["thinking"] = answer.thinking;
      }
    }
    line["tokens"] = tokens.size();
    if (arguments_.logprobs) {
      if (!arguments_.print_ids) tokens = tokens.first(answer.n_in_text);
      line["logprobs"] = openai_logprobs(session_.model().tokenizer(), tokens);
    }
    line["stop"] = end_name(answer.end);
    return json_line(line);
  }

  void fail(uint64_t index, const FilePrompt& prompt, const Failure& failure) {
    report_(prompt.origin + ": " + failure.message);
    if (result_.status == 0) result_.status = failure.status;
    finish(index,
           json_line({{"index", index},
                      {"error", {{"message", failure.message}, {"line", prompt.line_number}}}}));
  }

  // Lines wait for those of earlier prompts.
  void finish(uint64_t index, std::string line) {
    lines_[index - n_written_] = std::move(line);
    for (; !lines_.empty() && lines_.front(); lines_.pop_front(), ++n_written_) {
      write_(*lines_.front());
    }
  }

  TextSession& session_;
  const GenerateArguments& arguments_;
  const std::function<void(std::string_view)>& write_;
  const std::function<void(const std::string&)>& report_;
  PromptFile prompts_;
  std::deque<std::optional<std::string>> lines_;  // of prompts n_written_ to n_started_
  uint64_t n_started_ = 0, n_written_ = 0;
  BatchResult result_;
};

}  // namespace

BatchResult run_batch(TextSession& session, const GenerateArguments& arguments,
                      const std::function<void(std::string_view)>& write,
                      const std::function<void(const std::string&)>& report) {
  return Batch(session, arguments, write, report).run();
}

uint32_t ctx_for_batch(const TextModel& model, const GenerateArguments& arguments) {
  constexpr uint32_t kUnknown = 4096, kUsualAnswer = 1024, kStep = 1024;
  if (arguments.input == "-") return std::min(kUnknown, model.max_ctx());
  uint64_t longest = 0;
  PromptFile prompts(model, arguments);
  while (const auto prompt = prompts.next()) {
    if (!prompt->error.empty()) continue;
    const uint32_t n_answer = std::min(prompt->max_tokens.value_or(kUsualAnswer), kUsualAnswer);
    longest = std::max<uint64_t>(longest, prompt->ids.size() + n_answer);
  }
  return static_cast<uint32_t>(std::min<uint64_t>((longest / kStep + 1) * kStep, model.max_ctx()));
}

}  // namespace vesper
