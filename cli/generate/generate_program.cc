#include "cli/generate/generate_program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "cli/generate/generate_chat.h"
#include "cli/generate/generate_run.h"
#include "cli/generate/options.h"
#include "cli/generate/thinking_text.h"
#include "cli/terminal/output.h"
#include "cli/terminal/program.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view kProgram = "generate";
// Without --ctx: what is kept free for an answer without -n, and the steps in which it grows.
constexpr uint32_t kUsualAnswer = 2048, kCtxStep = 1024;
constexpr uint32_t kChatCtx = 4096;  // of a chat

class Run {
 public:
  explicit Run(GenerateArguments arguments) : arguments_(std::move(arguments)) {}

  int run() {
    if (!arguments_.output.empty()) file_ = std::make_unique<AtomicFile>(arguments_.output);
    if (!arguments_.prompt_cache.empty()) {
      cache_file_ = std::make_unique<AtomicFile>(arguments_.prompt_cache);
    }
    // What cannot be written or read is found before a model is fetched and loaded.
    const bool is_chat = chats();
    if (arguments_.mode == GenerateMode::kAnswer && !is_chat) read_prompt();
    const auto start = SteadyClock::now();
    open();
    AnswerTimes times;
    int status = 0;
    if (is_chat) {
      load(arguments_.n_ctx != 0 ? arguments_.n_ctx : std::min(kChatCtx, model_->most_ctx()),
           start);
      run_chat(*model_, arguments_);
      return 0;
    }
    if (arguments_.mode == GenerateMode::kPerplexity) {
      load(arguments_.n_ctx != 0 ? arguments_.n_ctx : kPerplexityCtx, start);
      run_perplexity(*model_, arguments_, writer());
    } else if (arguments_.mode == GenerateMode::kBatch) {
      load(arguments_.n_ctx != 0 ? arguments_.n_ctx : batch_ctx(), start);
      const BatchResult batch =
          run_batch(*model_, arguments_, writer(), [&](const std::string& what) { note(what); });
      times = batch.times;
      status = batch.status;
    } else {
      times = answer(start);
    }
    if (file_) file_->commit();
    if (arguments_.stats && arguments_.mode != GenerateMode::kPerplexity) print_stats(times);
    if (is_interrupted_) throw Interrupted();
    return status;
  }

 private:
  // Whether somebody sits there and has not said yet what is wanted.
  bool chats() const {
    return arguments_.mode == GenerateMode::kAnswer && arguments_.texts.empty() &&
           arguments_.prompt_ids.empty() && !arguments_.no_chat && arguments_.output.empty() &&
           arguments_.logits_file.empty() && arguments_.prompt_cache.empty() &&
           !arguments_.print_ids && !arguments_.n_logprobs && isatty(STDIN_FILENO) &&
           isatty(STDOUT_FILENO);
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
    TextModelOptions options;
    options.device = arguments_.device;
    options.compute = arguments_.compute;
    options.threads = arguments_.threads;
    options.chat_template = arguments_.chat_template;
    options.thinks = !arguments_.no_think;
    const bool takes_ids =
        !arguments_.prompt_ids.empty() || arguments_.mode == GenerateMode::kBatch;
    const bool gives_logits = !arguments_.logits_file.empty() && !arguments_.max_new;
    const bool gives_ids = arguments_.print_ids || arguments_.n_logprobs || gives_logits;
    options.needs_text = !takes_ids || !gives_ids || !arguments_.stops.empty();
    model_.emplace(path, options);
  }

  // A context that the text and its answer fit in, not longer than the model is made for.
  uint32_t ctx_for(uint64_t n_prompt) const {
    const uint64_t wanted = n_prompt + arguments_.max_new.value_or(kUsualAnswer);
    const uint64_t rounded = (wanted + kCtxStep - 1) / kCtxStep * kCtxStep;
    return static_cast<uint32_t>(std::min<uint64_t>(rounded, model_->most_ctx()));
  }

  // Standard input can be read once only.
  uint32_t batch_ctx() const {
    if (arguments_.input == "-") return std::min(2 * kUsualAnswer, model_->most_ctx());
    return std::min((longest_of_batch(*model_, arguments_) / kCtxStep + 1) * kCtxStep,
                    model_->most_ctx());
  }

  void load(uint32_t n_ctx, SteadyClock::time_point start) {
    if (n_ctx > model_->most_ctx()) {
      note("the model is made for contexts of up to " + std::to_string(model_->most_ctx()) +
           " tokens: beyond, its answers may be of no use");
    }
    GeneratorOptions options;
    options.n_ctx = n_ctx;
    options.n_slots = arguments_.batch;
    options.kv_dtype = arguments_.kv_dtype;
    options.has_filters = arguments_.sampling.has_filters();
    options.has_penalties = arguments_.sampling.has_penalties();
    model_->load(options);
    Generator& generator = model_->generator();
    std::vector<std::pair<int32_t, float>> bias = arguments_.bias;
    if (const TextTokenizer* tokenizer = model_->tokenizer()) {
      if (!arguments_.ignore_end) generator.set_stop_ids(tokenizer->ends());
      for (const int32_t id : tokenizer->ends()) {
        if (arguments_.ignore_end) bias.emplace_back(id, -std::numeric_limits<float>::infinity());
      }
    }
    generator.set_bias(bias);
    generator.prepare();
    load_s_ = seconds_since(start);
    if (arguments_.verbose) {
      const DeviceInfo& device = model_->device().info();
      note(device.kind + " (" + device.name + "), " + model_->activations() + ", context of " +
           std::to_string(n_ctx) + "; loaded in " + short_number(load_s_) + " s");
    }
  }

  AnswerTimes answer(SteadyClock::time_point start) {
    std::vector<int32_t> ids = arguments_.prompt_ids;
    if (ids.empty()) ids = prompt_ids(*model_, arguments_, instruction_, text_);
    const uint32_t n_ctx = arguments_.n_ctx != 0 ? arguments_.n_ctx : ctx_for(ids.size());
    load(n_ctx, start);
    if (!arguments_.logits_file.empty()) {
      dump_logits(*model_, arguments_, ids);
      if (!arguments_.max_new) return {};
    }
    const uint64_t n_new = arguments_.max_new.value_or(1);
    const bool is_long = ids.size() >= n_ctx || ids.size() + n_new > n_ctx;
    if (arguments_.map_reduce && is_long && !text_.empty()) {
      ids = map_reduced_prompt(*model_, arguments_, instruction_, text_);
    }
    restore_cache();
    thinking_ = ThinkingText(model_->begins_thinking(ids));
    // From its first token on there is an answer to keep.
    std::optional<InterruptNoted> interrupt;
    const Answer found = run_answer(*model_, arguments_, ids, answer_writer(), [&] {
      if (!interrupt) interrupt.emplace(InterruptNoted::Which::kFirst);
      return InterruptNoted::has_come();
    });
    finish_thinking();
    save_cache();
    return finish(found);
  }

  AnswerTimes finish(const Answer& answer) {
    const bool ends_line =
        arguments_.n_logprobs || (answer.text.ends_with('\n') && !arguments_.print_ids);
    if (!ends_line) write("\n");
    is_interrupted_ = answer.end == "interrupted";
    if (is_interrupted_) note("interrupted: the answer was cut");
    if (answer.end == "context" && !arguments_.context_shift) {
      note("the context of " + std::to_string(model_->generator().n_ctx()) +
           " tokens is full: the answer was cut (--ctx N, --context-shift)");
    }
    return answer.times;
  }

  void restore_cache() {
    if (arguments_.prompt_cache.empty() || !fs::exists(arguments_.prompt_cache)) return;
    const std::string bytes = read_text_file(arguments_.prompt_cache);
    try {
      model_->generator().restore(0, std::as_bytes(std::span(bytes)));
    } catch (const Error& error) {
      throw Error(error.kind(), arguments_.prompt_cache + ": " + error.what());
    }
  }

  void save_cache() {
    if (arguments_.prompt_cache.empty()) return;
    const std::vector<std::byte> bytes = model_->generator().save(0);
    cache_file_->write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    cache_file_->commit();
  }

  // As llama.cpp prints them.
  void print_stats(const AnswerTimes& times) const {
    const auto line = [&](const char* what, double s, uint64_t n, const char* unit) {
      std::array<char, 160> text{};
      const double count = static_cast<double>(std::max<uint64_t>(n, 1));
      std::snprintf(text.data(), text.size(),
                    "%16s = %10.2f ms / %5llu %s (%8.2f ms per token, %8.2f tokens per second)",
                    what, s * 1e3, static_cast<unsigned long long>(n), unit, s * 1e3 / count,
                    s > 0 ? static_cast<double>(n) / s : 0.0);
      note(text.data());
    };
    std::array<char, 80> load{};
    std::snprintf(load.data(), load.size(), "%16s = %10.2f ms", "load time", load_s_ * 1e3);
    note(load.data());
    line("prompt eval time", times.prompt_s, times.n_prompt - times.n_reused, "tokens");
    // The first token of one answer comes with its prompt.
    const uint64_t n_first = arguments_.mode == GenerateMode::kBatch ? 0 : 1;
    line("eval time", times.answer_s, times.n_answer - std::min(times.n_answer, n_first), "runs  ");
    line("total time", times.prompt_s + times.answer_s, times.n_prompt + times.n_answer, "tokens");
    if (times.n_reused > 0) note(std::to_string(times.n_reused) + " tokens were in the cache");
  }

  void note(const std::string& text) const { print_error(kProgram, text); }

  void write(std::string_view text) {
    if (file_) {
      file_->write(text);
    } else {
      write_to_stdout(text);
    }
  }
  WriteText writer() {
    return [this](std::string_view text) { write(text); };
  }
  // The same for an answer, of which --no-think leaves out what was thought.
  WriteText answer_writer() {
    if (!arguments_.no_think || arguments_.print_ids || arguments_.n_logprobs) return writer();
    return [this](std::string_view text) { write_answer(thinking_.push(text)); };
  }
  void write_answer(const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      if (!part.is_thinking) write(part.text);
    }
  }
  void finish_thinking() { write_answer(thinking_.finish()); }

  GenerateArguments arguments_;
  std::string instruction_, text_;  // the prompt, and what it is about
  std::unique_ptr<AtomicFile> file_, cache_file_;
  std::optional<TextModel> model_;
  ThinkingText thinking_;
  double load_s_ = 0;
  bool is_interrupted_ = false;
};

}  // namespace

int generate_main(int argc, const char* const* argv) {
  return run_program(kProgram, [&] {
    GenerateArguments arguments;
    if (const auto answer = parse_generate_options(argc, argv, arguments)) {
      write_to_stdout(*answer);
      return 0;
    }
    return Run(std::move(arguments)).run();
  });
}

}  // namespace vesper
