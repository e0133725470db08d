// --input: many prompts, some of which run side by side.
#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/answer_writer.h"
#include "cli/generate_run.h"
#include "cli/text_file.h"
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
  std::string place;  // for messages: "prompts.jsonl, line 3"
};

// The prompts of a file, a line at a time.
class PromptFile {
 public:
  PromptFile(const TextModel& model, const GenerateArguments& arguments)
      : model_(model), arguments_(arguments), is_json_(!arguments.input.ends_with(".txt")) {
    if (arguments.input != "-") {
      require_no_folder(arguments.input);
      file_.open(arguments.input, std::ios::binary);
      if (!file_) throw Error(ErrorKind::kInput, arguments.input + ": cannot be opened");
    }
  }

  std::optional<Prompt> next() {
    std::istream& from = arguments_.input == "-" ? std::cin : file_;
    std::string line;
    while (std::getline(from, line)) {
      ++n_lines_;
      if (line.ends_with('\r')) line.pop_back();
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      Prompt prompt;
      prompt.max_new = arguments_.max_new.value_or(UINT32_MAX);
      prompt.place = arguments_.input + ", line " + std::to_string(n_lines_);
      if (is_json_) {
        read(line, prompt);
      } else {
        prompt.ids = prompt_ids(model_, arguments_, line, "");
      }
      return prompt;
    }
    return std::nullopt;
  }

 private:
  void read(const std::string& line, Prompt& prompt) const {
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorKind::kInput, prompt.place + ": expected " + what);
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
  std::ifstream file_;
  uint64_t n_lines_ = 0;
};

// An answer under way in a place of the generator, or none.
struct Running {
  uint64_t index = 0;
  bool is_busy = false;
  size_t n_taken = 0;
  uint32_t max_new = 0;
  AnswerWriter writer{nullptr, {}};
  Answer answer;
};

std::string line_of(uint64_t index, const GenerateArguments& arguments, const Answer& answer) {
  nlohmann::ordered_json line{{"index", index}};
  if (!arguments.print_ids) line["text"] = answer.text;
  if (arguments.print_ids) line["ids"] = answer.ids;
  line["tokens"] = answer.ids.size();
  if (arguments.n_logprobs) line["logprobs"] = answer.logprobs;
  line["stop"] = answer.end;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

uint32_t longest_of_batch(const TextModel& model, const GenerateArguments& arguments) {
  uint64_t longest = 0;
  PromptFile prompts(model, arguments);
  while (const auto prompt = prompts.next()) {
    const uint64_t n_new = std::min<uint64_t>(prompt->max_new, 1024);
    longest = std::max<uint64_t>(longest, prompt->ids.size() + n_new);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(longest, UINT32_MAX));
}

AnswerTimes run_batch(TextModel& model, const GenerateArguments& arguments,
                      const WriteText& write) {
  Generator& generator = model.generator();
  PromptFile prompts(model, arguments);
  std::vector<Running> places(generator.n_places());
  std::deque<std::optional<std::string>> lines;  // of answers that wait for one before them
  uint64_t n_started = 0, n_written = 0;
  AnswerTimes times;
  const auto begin = SteadyClock::now();
  bool has_more = true;
  const auto start_next = [&](uint32_t place) {
    auto prompt = has_more ? prompts.next() : std::nullopt;
    if (!prompt) {
      has_more = false;
      return;
    }
    Running& running = places[place];
    running = Running{};
    running.index = n_started++;
    running.is_busy = true;
    running.max_new = prompt->max_new;
    running.writer = AnswerWriter(model.tokenizer(), arguments.stops);
    lines.emplace_back();
    const auto prompt_start = SteadyClock::now();
    // Passes over other numbers of rows round differently: what a text becomes must not depend on
    // which one was in this place before.
    generator.forget(place);
    Sampling sampling = arguments.sampling;
    if (running.index > 0) {
      sampling.seed = mix_bits(sampling.seed + static_cast<uint32_t>(running.index) * kDrawStride);
    }
    try {
      generator.start(place, prompt->ids, prompt->max_new, sampling);
    } catch (const Error& error) {
      throw Error(error.kind(), prompt->place + ": " + error.what());
    }
    times.prompt_s += std::chrono::duration<double>(SteadyClock::now() - prompt_start).count();
    times.n_prompt += prompt->ids.size();
    times.n_reused += generator.n_reused(place);
  };
  for (uint32_t place = 0; place < places.size(); ++place) start_next(place);
  const auto is_busy = [](const Running& running) { return running.is_busy; };
  while (std::any_of(places.begin(), places.end(), is_busy)) {
    generator.advance(kChainSteps);
    for (uint32_t place = 0; place < places.size(); ++place) {
      Running& running = places[place];
      if (!running.is_busy) continue;
      const auto chosen = generator.chosen(place);
      const auto logprobs = generator.logprobs(place);
      for (; running.n_taken < chosen.size() && !running.writer.is_stopped(); ++running.n_taken) {
        running.answer.ids.push_back(chosen[running.n_taken]);
        running.answer.logprobs.push_back(logprobs[running.n_taken]);
        running.answer.text += running.writer.push({chosen[running.n_taken]});
      }
      if (generator.is_running(place) && !running.writer.is_stopped()) continue;
      generator.stop(place);
      Answer& answer = running.answer;
      answer.text += running.writer.finish();
      const bool ended =
          model.tokenizer() && !answer.ids.empty() && model.tokenizer()->is_end(answer.ids.back());
      answer.end = running.writer.is_stopped()            ? "stop"
                   : ended                                ? "end"
                   : answer.ids.size() >= running.max_new ? "limit"
                                                          : "context";
      times.n_answer += answer.ids.size();
      lines[running.index - n_written] = line_of(running.index, arguments, answer);
      running.is_busy = false;
      for (; !lines.empty() && lines.front(); lines.pop_front(), ++n_written) write(*lines.front());
      start_next(place);
    }
  }
  times.answer_s =
      std::chrono::duration<double>(SteadyClock::now() - begin).count() - times.prompt_s;
  return times;
}

}  // namespace vesper
