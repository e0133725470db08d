// generate: text from language models. Parses the command line, calls a TextSession, and prints the
// answer.

#include "cli/terminal/program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/generate/batch.h"
#include "cli/generate/chat.h"
#include "cli/generate/options.h"
#include "cli/generate/prompts.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/terminal_text.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/text_file.h"
#include "session/atomic_file.h"
#include "session/text/long_text.h"
#include "session/text/text_session.h"
#include "session/text/token_logprobs.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kProgram = "generate";

// "sampling; given: temperature 0.7; of generation_config.json: top-k 20, top-p 0.95; random seed
// 7": the settings that have an effect, and where they are from.
std::string sampling_text(const Sampling& sampling, const SamplingOptions& given,
                          const std::string& source) {
  std::string own, of_options;
  const auto add = [&](const char* name, const auto& option, double value, double without) {
    if (value == without) return;
    std::string& list = option ? of_options : own;
    list += (list.empty() ? "" : ", ") + (name + (" " + decimal_text(value)));
  };
  if (sampling.temperature > 0) {
    add("temperature", given.temperature, sampling.temperature, 0);
    add("top-k", given.top_k, sampling.top_k, 0);
    add("typical", given.typical_p, sampling.typical_p, 1);
    add("top-p", given.top_p, sampling.top_p, 1);
    add("min-p", given.min_p, sampling.min_p, 0);
  }
  add("repeat-penalty", given.repetition_penalty, sampling.repetition_penalty, 1);
  add("frequency-penalty", given.frequency_penalty, sampling.frequency_penalty, 0);
  add("presence-penalty", given.presence_penalty, sampling.presence_penalty, 0);
  std::string text = sampling.temperature > 0 ? "sampling" : "the most probable token each time";
  if (!of_options.empty()) text += "; given: " + of_options;
  if (!own.empty()) text += "; of " + source + ": " + own;
  if (sampling.temperature > 0) {
    text += std::string("; ") + (given.seed ? "given" : "random") + " seed " +
            std::to_string(sampling.seed);
  }
  return text;
}

class Run {
 public:
  explicit Run(GenerateArguments arguments) : arguments_(std::move(arguments)) {}

  int run() {
    if (!arguments_.output.empty()) file_ = std::make_unique<AtomicFile>(arguments_.output);
    if (!arguments_.prompt_cache.empty()) {
      cache_file_ = std::make_unique<AtomicFile>(arguments_.prompt_cache);
    }
    // Input and output files are checked before a model is downloaded and loaded.
    const bool is_chat = chats();
    read_grammar();
    if (arguments_.mode == GenerateMode::kAnswer && !is_chat) read_prompt();
    open();
    if (is_chat) {
      load();
      run_chat(*session_, arguments_);
      return 0;
    }
    int status = 0;
    switch (arguments_.mode) {
      case GenerateMode::kAnswer:
        answer();
        break;
      case GenerateMode::kBatch:
        status = answer_batch();
        break;
      case GenerateMode::kPerplexity:
        measure_perplexity();
        break;
    }
    if (file_) file_->commit();
    if (is_interrupted_) throw Interrupted();
    return status;
  }

 private:
  // Whether there is a user at the terminal and no prompt.
  bool chats() const {
    return arguments_.mode == GenerateMode::kAnswer && arguments_.texts.empty() &&
           arguments_.prompt_ids.empty() && !arguments_.no_chat && arguments_.output.empty() &&
           arguments_.logits_file.empty() && arguments_.prompt_cache.empty() &&
           !arguments_.print_ids && !arguments_.logprobs && isatty(STDIN_FILENO) &&
           isatty(STDOUT_FILENO);
  }

  // An error in it is found before the model is loaded.
  void read_grammar() {
    if (!arguments_.text.grammar) return;
    const std::string& file =
        arguments_.schema_file.empty() ? arguments_.grammar_file : arguments_.schema_file;
    vesper::read_grammar(file, *arguments_.text.grammar);
  }

  void read_prompt() {
    if (!arguments_.texts.empty()) instruction_ = arguments_.texts[0];
    if (arguments_.prompt_ids.empty() && !isatty(STDIN_FILENO)) {
      text_ = read_standard_input();
      while (text_.ends_with('\n') || text_.ends_with('\r')) text_.pop_back();
    }
    if (instruction_.empty() && text_.empty() && arguments_.prompt_ids.empty()) {
      throw Error(ErrorKind::kUsage, "expected a prompt (see generate --help)");
    }
  }

  void open() {
    const fs::path path =
        find_model_showing(kProgram, arguments_.model, ModelKind::kLanguage, arguments_.offline);
    std::string chat_template;
    if (!arguments_.chat_template.empty()) chat_template = read_text_file(arguments_.chat_template);
    start_ = SteadyClock::now();
    model_ = std::make_shared<const TextModel>(path, chat_template);
    if (!arguments_.draft.empty()) {
      arguments_.session.draft = std::make_shared<const TextModel>(
          find_model_showing(kProgram, arguments_.draft, ModelKind::kLanguage, arguments_.offline));
    }
    const bool takes_ids =
        !arguments_.prompt_ids.empty() || arguments_.mode == GenerateMode::kBatch;
    const bool gives_logits = !arguments_.logits_file.empty() && !arguments_.text.max_tokens;
    const bool gives_ids = arguments_.print_ids || arguments_.logprobs || gives_logits;
    if (!takes_ids || !gives_ids || !arguments_.text.stops.empty()) model_->require_tokenizer();
  }

  // With the requested context, otherwise this one.
  void load(uint32_t context = 0) {
    TextSessionOptions options = arguments_.session;
    if (options.context == 0) options.context = context;
    if (options.context > model_->max_ctx()) {
      note("the model is made for contexts of up to " + std::to_string(model_->max_ctx()) +
           " tokens: beyond, its answers may be of no use");
    }
    check_options(arguments_.text, options);
    const SamplingDefaults& defaults = model_->sampling_defaults();
    const Sampling sampling =
        resolve_sampling(arguments_.text.sampling, defaults.sampling, options);
    options.allows_filters = sampling.has_filters();
    options.allows_penalties = sampling.has_penalties();
    session_.emplace(model_, options);
    load_s_ = seconds_since(start_);
    if (arguments_.verbose) {
      note(session_->description() + ", context of " + std::to_string(session_->context()) +
           "; loaded in " + short_number(load_s_) + " s");
      note(sampling_text(sampling, arguments_.text.sampling, defaults.source));
    }
    // One seed for all answers of this run.
    arguments_.text.sampling.seed = sampling.seed;
  }

  void answer() {
    std::vector<int32_t> ids = arguments_.prompt_ids;
    if (ids.empty()) {
      ids = model_->instruction_ids(instruction_, text_, instruction_format(arguments_));
    }
    load(model_->ctx_for(ids.size(), arguments_.text.max_tokens));
    if (!arguments_.logits_file.empty()) {
      dump_logits(ids);
      if (!arguments_.text.max_tokens) return;
    }
    if (arguments_.map_reduce) {
      ids = long_prompt(*session_, arguments_.text, instruction_, text_,
                        instruction_format(arguments_));
    }
    restore_prompt();
    // From its first token on there is an answer to keep.
    std::optional<InterruptNoted> interrupt;
    TextEvents events = printing_events();
    events.is_cancelled = [&] {
      if (!interrupt) interrupt.emplace(InterruptNoted::Which::kFirst);
      return InterruptNoted::has_come();
    };
    const TextAnswer found = session_->answer({std::move(ids), arguments_.text}, events);
    save_prompt();
    end(found);
  }

  // Prints token ids, a line of JSON per token, or text.
  TextEvents printing_events() {
    TextEvents events;
    if (arguments_.print_ids) {
      events.on_tokens = [this](std::span<const TokenLogprob> tokens, size_t) {
        std::string out;
        for (; n_printed_ < tokens.size(); ++n_printed_) {
          out += (n_printed_ > 0 ? "," : "") + std::to_string(tokens[n_printed_].id);
        }
        write(out);
      };
    } else if (arguments_.logprobs) {
      events.on_tokens = [this](std::span<const TokenLogprob> tokens, size_t n_in_text) {
        std::string out;
        for (; n_printed_ < n_in_text; ++n_printed_) {
          out += token_json(model_->tokenizer(), tokens[n_printed_]).dump() + "\n";
        }
        write(out);
      };
    } else {
      events.on_text = [this](std::string_view text) {
        end_thinking();
        write(text);
      };
      // Standard output has only the answer.
      if (arguments_.thinking == ShownThinking::kShow && !arguments_.no_think &&
          isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) && !file_) {
        events.on_thinking = [this](std::string_view text) {
          const char* dim = std::exchange(shows_thinking_, true) ? "" : "\x1b[2m";
          std::fputs((dim + escaped_lines(text)).c_str(), stderr);
        };
      }
    }
    return events;
  }

  // Of the terminal.
  void end_thinking() {
    if (std::exchange(shows_thinking_, false)) std::fputs("\x1b[22m\n\n", stderr);
  }

  void end(const TextAnswer& answer) {
    end_thinking();
    const bool ends_line =
        arguments_.logprobs || (answer.text.ends_with('\n') && !arguments_.print_ids);
    if (!ends_line) write("\n");
    is_interrupted_ = answer.end == AnswerEnd::kCancelled;
    if (is_interrupted_) note("interrupted: the answer was cut");
    if (answer.end == AnswerEnd::kLoop) {
      note("the answer only repeated itself: it was ended (--allow-loops)");
    }
    const bool is_cut = answer.end == AnswerEnd::kLimit || answer.end == AnswerEnd::kContext ||
                        answer.end == AnswerEnd::kLoop || answer.end == AnswerEnd::kStop;
    if (arguments_.text.grammar && is_cut) {
      note("the answer ended before its grammar did (" + std::string(end_name(answer.end)) + ")");
    }
    if (answer.text.empty() && !answer.thinking.empty()) {
      note("the model was still thinking when the answer ended (--max-tokens, --no-think)");
    }
    if (answer.end == AnswerEnd::kContext && !arguments_.text.context_shift) {
      note("the context of " + std::to_string(session_->context()) +
           " tokens is full: the answer was cut (--ctx N, --context-shift)");
    }
    // The first token is part of the prompt's pass.
    print_stats(answer.statistics, 1);
  }

  int answer_batch() {
    load(arguments_.session.context != 0 ? 0 : ctx_for_batch(*model_, arguments_));
    const BatchResult batch = run_batch(
        *session_, arguments_, [this](std::string_view text) { write(text); },
        [this](const std::string& what) { note(what); });
    print_stats(batch.statistics, 0);
    return batch.status;
  }

  void measure_perplexity() {
    constexpr uint32_t kContext = 512;
    load(kContext);
    const std::string text = arguments_.perplexity_file == "-"
                                 ? read_standard_input()
                                 : read_text_file(arguments_.perplexity_file);
    Perplexity found;
    try {
      found = session_->perplexity(model_->text_ids(text));
    } catch (const Error& error) {
      throw Error(error.kind(), arguments_.perplexity_file + ": " + error.what());
    }
    write(formatted("perplexity %.4f +/- %.5f (%llu tokens of %llu contexts of %u)\n", found.value,
                    found.deviation, static_cast<unsigned long long>(found.n_tokens),
                    static_cast<unsigned long long>(found.n_contexts), session_->context()));
  }

  // The logits after each token of the prompt as a NumPy file, f32 [n, n_vocab].
  void dump_logits(std::span<const int32_t> prompt) {
    AtomicFile file(arguments_.logits_file);
    const uint32_t n_vocab = session_->n_vocab();
    file.write(npy_header(prompt.size(), n_vocab));
    session_->logits(prompt, [&](const float* rows, uint32_t n) {
      file.write({reinterpret_cast<const char*>(rows), sizeof(float) * n * n_vocab});
    });
    file.commit();
  }

  void restore_prompt() {
    if (arguments_.prompt_cache.empty() || !fs::exists(arguments_.prompt_cache)) return;
    session_->restore_prompt(fs::path(arguments_.prompt_cache));
  }

  void save_prompt() {
    if (cache_file_) session_->save_prompt(*cache_file_);
  }

  // In llama.cpp's format. `n_with_prompt` tokens of the answer are part of the prompt's pass.
  void print_stats(const TextStatistics& times, uint64_t n_with_prompt) const {
    if (!arguments_.stats) return;
    const auto line = [&](const char* what, double s, uint64_t n, const char* unit) {
      const double count = static_cast<double>(std::max<uint64_t>(n, 1));
      note(formatted("%16s = %10.2f ms / %5llu %s (%8.2f ms per token, %8.2f tokens per second)",
                     what, s * 1e3, static_cast<unsigned long long>(n), unit, s * 1e3 / count,
                     s > 0 ? static_cast<double>(n) / s : 0.0));
    };
    note(formatted("%16s = %10.2f ms", "load time", load_s_ * 1e3));
    line("prompt eval time", times.prompt_s, times.n_prompt - times.n_reused, "tokens");
    line("eval time", times.answer_s, times.n_answer - std::min(times.n_answer, n_with_prompt),
         "runs  ");
    line("total time", times.prompt_s + times.answer_s, times.n_prompt + times.n_answer, "tokens");
    if (arguments_.session.speculate != Speculate::kOff || arguments_.session.draft) {
      note(std::to_string(times.n_drafted) + " tokens were drafted, " +
           std::to_string(times.n_accepted) + " of them accepted");
    }
    if (times.n_reused > 0) note(std::to_string(times.n_reused) + " tokens were in the cache");
  }

  void note(const std::string& text) const { print_error(kProgram, text); }

  void write(std::string_view text) {
    if (text.empty()) return;
    if (file_) {
      file_->write(text);
    } else {
      write_to_stdout(text);
    }
  }

  GenerateArguments arguments_;
  std::string instruction_, text_;  // the prompt, and its text
  std::unique_ptr<AtomicFile> file_, cache_file_;
  std::shared_ptr<const TextModel> model_;
  std::optional<TextSession> session_;
  SteadyClock::time_point start_;
  double load_s_ = 0;
  size_t n_printed_ = 0;  // tokens
  bool is_interrupted_ = false;
  bool shows_thinking_ = false;  // on the terminal, now
};

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program(vesper::kProgram, argc, argv, [](int n, char** words) {
    vesper::GenerateArguments arguments;
    if (const auto answer = vesper::parse_generate_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::Run(std::move(arguments)).run();
  });
}
