// --input: many prompts, some of which run side by side.
#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/generate/answer_writer.h"
#include "cli/generate/generate_run.h"
#include "cli/generate/thinking_text.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"

namespace vesper {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

// Steps between two looks at which answers have ended.
constexpr uint32_t kChainSteps = 8;

struct Prompt {
  std::vector<int32_t> ids;
  uint32_t max_new = UINT32_MAX;
  size_t line_number = 0;  // in the file, from 1
  std::string place;       // for messages: "prompts.jsonl:3"
  std::string error;       // why there is nothing to answer; empty: there is
  int status = 0;          // the program's, for that
};

// What concerns one prompt only: the others can be answered all the same.
bool is_of_one_prompt(const Error& error) {
  return error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kModel;
}

// The prompts of a file, a line at a time.
class PromptFile {
 public:
  PromptFile(const TextModel& model, const GenerateArguments& arguments)
      : model_(model),
        arguments_(arguments),
        is_json_(!arguments.input.ends_with(".txt")),
        lines_(arguments.input) {}

  // The prompt of the next line that is not blank; also of one that is wrong, with its error.
  std::optional<Prompt> next() {
    std::string line;
    while (lines_.next(line)) {
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      Prompt prompt;
      prompt.max_new = arguments_.max_new.value_or(UINT32_MAX);
      prompt.line_number = lines_.line_number();
      prompt.place = lines_.place();
      try {
        if (is_json_) {
          read(line, prompt);
        } else {
          prompt.ids = prompt_ids(model_, arguments_, line, "");
        }
      } catch (const Error& error) {
        if (!is_of_one_prompt(error)) throw;
        prompt.error = error.what();
        prompt.status = exit_status(error.kind());
      }
      return prompt;
    }
    return std::nullopt;
  }

 private:
  void read(const std::string& line, Prompt& prompt) const {
    const auto fail = [](const std::string& what) {
      throw Error(ErrorKind::kInput, "expected " + what);
    };
    const json value = json::parse(line, nullptr, false);
    if (value.is_discarded()) fail("JSON");
    const auto member = [&](const char* key) -> const json* {
      const auto found = value.is_object() ? value.find(key) : value.end();
      return found == value.end() ? nullptr : &*found;
    };
    if (const json* n = member("max_tokens")) {
      if (!n->is_number_unsigned() || *n == 0 || *n > UINT32_MAX) fail("max_tokens to be a count");
      prompt.max_new = n->get<uint32_t>();
    }
    if (value.is_string()) {
      prompt.ids = prompt_ids(model_, arguments_, value.get<std::string>(), "");
    } else if (const json* text = member("prompt"); text && text->is_string()) {
      prompt.ids = prompt_ids(model_, arguments_, text->get<std::string>(), "");
    } else if (const json* ids = member("prompt_ids"); ids && ids->is_array()) {
      for (const json& id : *ids) {
        if (!id.is_number_unsigned() || id > INT32_MAX) fail("token ids in prompt_ids");
        prompt.ids.push_back(id.get<int32_t>());
      }
    } else if (const json* list = member("messages"); list && list->is_array()) {
      std::vector<ChatMessage> messages;
      const bool has_system = !list->empty() && list->front().is_object() &&
                              list->front().value("role", json()) == "system";
      if (arguments_.system && !has_system) messages.push_back({"system", *arguments_.system});
      for (const json& message : *list) {
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
            !message.contains("content") || !message["content"].is_string()) {
          fail("messages with role and content");
        }
        messages.push_back({message["role"], message["content"]});
      }
      prompt.ids = model_.chat_ids(messages);
    } else {
      fail("a text, or an object with prompt, prompt_ids or messages");
    }
  }

  const TextModel& model_;
  const GenerateArguments& arguments_;
  bool is_json_;
  TextLines lines_;
};

// An answer under way in a place of the generator, or none.
struct Running {
  uint64_t index = 0;
  bool is_busy = false;
  bool begins_thinking = false;
  size_t n_taken = 0;
  uint32_t max_new = 0;
  AnswerWriter writer{nullptr, {}};
  Answer answer;
};

std::string json_line(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string line_of(uint64_t index, const TextModel& model, const GenerateArguments& arguments,
                    const Answer& answer, bool begins_thinking) {
  nlohmann::ordered_json line{{"index", index}};
  if (!arguments.print_ids) {
    line["text"] =
        arguments.no_think ? without_thinking(answer.text, begins_thinking) : answer.text;
  }
  if (arguments.print_ids) line["ids"] = answer.ids;
  line["tokens"] = answer.ids.size();
  if (arguments.n_logprobs) line["logprobs"] = openai_logprobs(model.tokenizer(), answer.logprobs);
  line["stop"] = answer.end;
  return json_line(line);
}

}  // namespace

uint32_t longest_of_batch(const TextModel& model, const GenerateArguments& arguments) {
  uint64_t longest = 0;
  PromptFile prompts(model, arguments);
  while (const auto prompt = prompts.next()) {
    if (!prompt->error.empty()) continue;
    const uint64_t n_new = std::min<uint64_t>(prompt->max_new, 1024);
    longest = std::max<uint64_t>(longest, prompt->ids.size() + n_new);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(longest, UINT32_MAX));
}

BatchResult run_batch(TextModel& model, const GenerateArguments& arguments, const WriteText& write,
                      const std::function<void(const std::string&)>& report) {
  Generator& generator = model.generator();
  PromptFile prompts(model, arguments);
  std::vector<Running> places(generator.n_slots());
  std::deque<std::optional<std::string>> lines;  // of answers that wait for one before them
  uint64_t n_started = 0, n_written = 0;
  BatchResult result;
  AnswerTimes& times = result.times;
  const uint32_t n_top = arguments.n_logprobs.value_or(0);
  std::vector<float> logits(n_top > 0 ? generator.n_vocab() : 0);
  const auto begin = SteadyClock::now();
  bool has_more = true;
  const auto finish = [&](uint64_t index, std::string line) {
    lines[index - n_written] = std::move(line);
    for (; !lines.empty() && lines.front(); lines.pop_front(), ++n_written) write(*lines.front());
  };
  const auto fail = [&](uint64_t index, const Prompt& prompt, const std::string& what, int status) {
    report(prompt.place + ": " + what);
    if (result.status == 0) result.status = status;
    finish(index, json_line({{"index", index},
                             {"error", {{"message", what}, {"line", prompt.line_number}}}}));
  };
  // Answers whether the prompt is one that can be answered.
  const auto start = [&](uint32_t place, const Prompt& prompt) {
    const uint64_t index = n_started++;
    lines.emplace_back();
    if (!prompt.error.empty()) {
      fail(index, prompt, prompt.error, prompt.status);
      return false;
    }
    const auto prompt_start = SteadyClock::now();
    // Passes over other numbers of rows round differently: what a text becomes must not depend on
    // which one was in this place before.
    generator.forget(place);
    Sampling sampling = arguments.sampling;
    if (index > 0) {
      sampling.seed = mix_bits(sampling.seed + static_cast<uint32_t>(index) * kNoiseStride);
    }
    try {
      generator.start(place, prompt.ids, prompt.max_new, sampling);
    } catch (const Error& error) {
      if (!is_of_one_prompt(error)) throw;
      fail(index, prompt, error.what(), exit_status(error.kind()));
      return false;
    }
    Running& running = places[place];
    running = Running{};
    running.index = index;
    running.is_busy = true;
    running.begins_thinking = model.begins_thinking(prompt.ids);
    running.max_new = prompt.max_new;
    running.writer = AnswerWriter(model.tokenizer(), arguments.stops);
    times.prompt_s += seconds_since(prompt_start);
    times.n_prompt += prompt.ids.size();
    times.n_reused += generator.n_reused(place);
    return true;
  };
  const auto start_next = [&](uint32_t place) {
    while (has_more) {
      const auto prompt = prompts.next();
      has_more = prompt.has_value();
      if (prompt && start(place, *prompt)) return;
    }
  };
  for (uint32_t place = 0; place < places.size(); ++place) start_next(place);
  const auto is_busy = [](const Running& running) { return running.is_busy; };
  while (std::any_of(places.begin(), places.end(), is_busy)) {
    // Of the logits there are those of the latest step.
    generator.advance(n_top > 0 ? 1 : kChainSteps);
    for (uint32_t place = 0; place < places.size(); ++place) {
      Running& running = places[place];
      if (!running.is_busy) continue;
      const auto chosen = generator.chosen(place);
      const auto logprobs = generator.logprobs(place);
      for (; running.n_taken < chosen.size() && !running.writer.is_stopped(); ++running.n_taken) {
        const int32_t id = chosen[running.n_taken];
        TokenLogprob& token = running.answer.logprobs.emplace_back();
        token = {id, logprobs[running.n_taken], {}};
        if (n_top > 0) {
          generator.read_logits(place, logits.data());
          token.top = likeliest_tokens(logits, n_top);
        }
        running.answer.ids.push_back(id);
        running.answer.text += running.writer.push(id);
      }
      if (generator.is_running(place) && !running.writer.is_stopped()) continue;
      generator.stop(place);
      Answer& answer = running.answer;
      answer.text += running.writer.finish();
      if (!arguments.print_ids) answer.logprobs.resize(running.writer.n_in_text());
      const bool ended =
          model.tokenizer() && !answer.ids.empty() && model.tokenizer()->is_end(answer.ids.back());
      answer.end = running.writer.is_stopped()            ? "stop"
                   : ended                                ? "end"
                   : answer.ids.size() >= running.max_new ? "limit"
                                                          : "context";
      times.n_answer += answer.ids.size();
      running.is_busy = false;
      finish(running.index,
             line_of(running.index, model, arguments, answer, running.begins_thinking));
      start_next(place);
    }
  }
  times.answer_s = seconds_since(begin) - times.prompt_s;
  return result;
}

}  // namespace vesper
