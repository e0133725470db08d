#include "session/text/text_session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/files/text_file.h"
#include "session/text/answer_loop.h"
#include "session/text/answer_writer.h"
#include "session/text/channel_text.h"
#include "session/text/text_drafts.h"
#include "session/text/thinking_text.h"

namespace vesper {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_from(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Target time of a chain of steps while an answer is watched, so that text appears steadily and the
// device is rarely interrupted.
constexpr double kChainSeconds = 0.03;
constexpr uint32_t kMostChainSteps = 16;
// Otherwise a fixed number, so that the order of jobs does not depend on time.
constexpr uint32_t kUnwatchedChainSteps = 8;

GeneratorOptions generator_options(const TextSessionOptions& options, const TextModel& model) {
  constexpr uint32_t kUsualContext = 4096;
  GeneratorOptions generator;
  generator.n_ctx =
      options.context != 0 ? options.context : std::min(kUsualContext, model.max_ctx());
  generator.n_slots = options.n_slots;
  generator.kv_types = options.kv_type;
  generator.has_filters = options.allows_filters;
  generator.has_penalties = options.allows_penalties;
  generator.keeps_bits = !options.may_differ_with_others;
  generator.beam_size = options.beam_size;
  generator.length_penalty = options.length_penalty;
  return generator;
}

// Whether an error belongs to one request, so that others can be answered.
bool is_of_request(const Error& error) {
  return error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInput ||
         error.kind() == ErrorKind::kModel;
}

// Text that is not split.
struct WholeText {
  std::vector<AnswerPart> push(const std::string& text) const { return {{text, false}}; }
  std::vector<AnswerPart> finish() const { return {}; }
};

// A job in a slot of the generator.
class Answering {
 public:
  // Computes the prompt without its last token. Throws the errors of Generator::start.
  Answering(Generator& generator, const TextModel& model, uint32_t slot, TextJob job,
            const Sampling& sampling, std::optional<GrammarConstraint> grammar)
      : generator_(generator),
        model_(model),
        slot_(slot),
        job_(std::move(job)),
        sampling_(sampling),
        context_(std::move(job_.request.prompt)),
        writer_(model.tokenizer(), options().stops, model.has_channels()),
        ends_loops_(options().end_loops && !options().ignore_end) {
    if (options().thinking == Thinking::kSeparate) {
      if (model.has_channels()) {
        splitter_.emplace<ChannelText>(model.begins_message(context_));
      } else {
        splitter_.emplace<ThinkingText>(model.begins_thinking(context_));
      }
    }
    if (!options().reuse_prompt) generator_.forget(slot_);
    start(grammar ? &*grammar : nullptr);
    answer_.sampling = sampling;
    answer_.statistics.n_prompt = context_.size();
    answer_.statistics.n_reused = generator_.n_reused(slot_);
  }

  // A callback needs the next token, or may cancel.
  bool is_watched() const {
    const TextEvents& events = job_.events;
    return events.on_text || events.on_thinking || events.on_tokens || events.is_cancelled;
  }
  // The logits of each step are needed.
  bool reads_logits() const { return options().top_logprobs > 0; }

  // Takes the tokens of the last steps. False when the answer has ended.
  bool take(std::vector<float>& logits) {
    if (!std::exchange(has_stepped_, true)) {
      answer_.statistics.prompt_s = seconds_from(start_);
      first_token_ = SteadyClock::now();
    }
    if (is_cut_) {
      finish(true);
      return false;
    }
    const auto sampled = generator_.sampled(slot_);
    const auto logprobs = generator_.logprobs(slot_);
    std::string text;
    for (; n_taken_ < sampled.size() && !writer_.is_stopped() && !loops_; ++n_taken_) {
      const int32_t id = sampled[n_taken_];
      TokenLogprob& token = answer_.tokens.emplace_back();
      token.id = id;
      token.logprob = logprobs[n_taken_];
      if (reads_logits()) {
        logits.resize(generator_.n_vocab());
        generator_.read_logits(slot_, logits.data());
        token.top = likeliest_tokens(logits, options().top_logprobs);
      }
      text += writer_.push(id);
      ids_.push_back(id);
      loops_ = ends_loops_ && answer_loop(ids_, model_.tokenizer()).period > 0;
    }
    give(text);
    give_tokens();
    const bool is_cancelled = job_.events.is_cancelled && job_.events.is_cancelled();
    const bool shifts = wants_shift();
    const bool could_go_on = generator_.is_running(slot_) || shifts;
    if (could_go_on && !writer_.is_stopped() && !loops_ && !is_cancelled) {
      if (shifts) shift();
      return true;
    }
    generator_.stop(slot_);
    finish(could_go_on && is_cancelled);
    return false;
  }

  // Finishes an ended answer.
  void done(TextStatistics& totals) {
    totals.n_answer += answer_.tokens.size();
    totals.n_drafted += answer_.statistics.n_drafted;
    totals.n_accepted += answer_.statistics.n_accepted;
    if (job_.on_done) job_.on_done(std::move(answer_));
  }

  const TextStatistics& statistics() const { return answer_.statistics; }
  // Sampled tokens that take() has not seen.
  uint64_t n_untaken() const { return generator_.sampled(slot_).size() - n_taken_; }

 private:
  const TextOptions& options() const { return job_.request.options; }
  uint32_t most() const {
    return options().max_tokens.value_or(UINT32_MAX) - static_cast<uint32_t>(answer_.tokens.size());
  }
  bool is_full() const { return context_.size() + n_taken_ >= generator_.n_ctx(); }
  bool has_ended() const {
    const GrammarConstraint* grammar = generator_.grammar(slot_);
    if (grammar != nullptr && grammar->is_complete()) return true;
    return model_.tokenizer() && !answer_.tokens.empty() &&
           model_.tokenizer()->is_end(answer_.tokens.back().id);
  }

  bool wants_shift() const {
    return options().context_shift && !generator_.is_running(slot_) && is_full() && !has_ended() &&
           most() > 0;
  }

  // Drops the older half of the context, except the tokens that begin every text.
  void shift() {
    const auto sampled = generator_.sampled(slot_);
    context_.insert(context_.end(), sampled.begin(), sampled.end());
    const size_t n_kept = model_.tokenizer() ? model_.tokenizer()->before().size() : 0;
    const auto from = context_.begin() + static_cast<std::ptrdiff_t>(n_kept);
    context_.erase(from, from + static_cast<std::ptrdiff_t>((context_.size() - n_kept + 1) / 2));
    sampling_.seed = mix_bits(sampling_.seed + 1);
    add_speculation();
    std::optional<GrammarConstraint> grammar;  // a copy: the start replaces the generator's
    if (const GrammarConstraint* found = generator_.grammar(slot_)) grammar.emplace(*found);
    start(grammar ? &*grammar : nullptr);
    n_taken_ = 0;
  }

  // Of the text since the last start.
  void add_speculation() {
    const SpeculationStatistics found = generator_.speculation(slot_);
    answer_.statistics.n_drafted += found.n_drafted;
    answer_.statistics.n_accepted += found.n_accepted;
  }

  void start(const GrammarConstraint* grammar) {
    is_cut_ = !generator_.start(
        slot_, context_, most(), sampling_,
        {.bias = options().logit_bias, .ignore_end = options().ignore_end, .grammar = grammar},
        job_.events.is_cancelled);
  }

  void give_tokens() {
    if (job_.events.on_tokens) job_.events.on_tokens(answer_.tokens, writer_.n_in_text());
  }

  void give(const std::string& text) {
    std::visit(
        [&](auto& splitter) {
          for (const AnswerPart& part : splitter.push(text)) give_part(part);
        },
        splitter_);
  }
  void give_part(const AnswerPart& part) {
    if (part.text.empty()) return;
    (part.is_thinking ? answer_.thinking : answer_.text) += part.text;
    const auto& event = part.is_thinking ? job_.events.on_thinking : job_.events.on_text;
    if (event) event(part.text);
  }

  void finish(bool is_cancelled) {
    give(writer_.finish());
    std::visit(
        [&](auto& splitter) {
          for (const AnswerPart& part : splitter.finish()) give_part(part);
        },
        splitter_);
    give_tokens();
    answer_.n_in_text = writer_.n_in_text();
    answer_.statistics.n_answer = answer_.tokens.size();
    answer_.statistics.answer_s = seconds_from(first_token_);
    add_speculation();
    answer_.end = writer_.is_stopped() ? AnswerEnd::kStop
                  : loops_             ? AnswerEnd::kLoop
                  : is_cancelled       ? AnswerEnd::kCancelled
                  : has_ended()        ? AnswerEnd::kEnd
                  : most() == 0        ? AnswerEnd::kLimit
                  : is_full()          ? AnswerEnd::kContext
                                       : AnswerEnd::kEnd;
  }

  Generator& generator_;
  const TextModel& model_;
  uint32_t slot_;
  TextJob job_;
  Sampling sampling_;
  std::vector<int32_t> context_;  // the prompt; after a shift the rest of it and of the answer
  AnswerWriter writer_;
  std::variant<WholeText, ThinkingText, ChannelText> splitter_;  // whole: Thinking::kInText
  TextAnswer answer_;
  std::vector<int32_t> ids_;  // of answer_.tokens
  const bool ends_loops_;
  bool loops_ = false;
  size_t n_taken_ = 0;  // tokens since the last start
  bool has_stepped_ = false;
  bool is_cut_ = false;  // cancelled within the prompt
  SteadyClock::time_point start_ = SteadyClock::now(), first_token_;
};

}  // namespace

std::string_view end_name(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kEnd:
      return "end";
    case AnswerEnd::kStop:
      return "stop";
    case AnswerEnd::kLimit:
      return "limit";
    case AnswerEnd::kContext:
      return "context";
    case AnswerEnd::kLoop:
      return "loop";
    case AnswerEnd::kCancelled:
      break;
  }
  return "cancelled";
}

struct TextSession::State {
  State(std::shared_ptr<const TextModel> opened, const TextSessionOptions& wanted)
      : options(checked(wanted)),
        model(std::move(opened)),
        weights(change_weights(model->weights(), wanted.weights, wanted.threads)),
        device(open_device(wanted.device, DeviceOptions{.n_threads = wanted.threads})),
        compute(device->resolve(parse_compute(wanted.compute), WeightUse::kAnyRows)),
        drafts(open_drafts(*device, *model, compute, generator_options(wanted, *model), wanted)),
        generator(*device, *weights, compute, generator_options(wanted, *model), drafts.get()),
        last_use(generator.n_slots()) {
    if (const TextTokenizer* tokenizer = model->tokenizer()) {
      generator.set_stop_ids(tokenizer->stop_ids());
    }
    generator.check({.bias = wanted.logit_bias, .ignore_end = wanted.ignore_end});
    generator.prepare();
  }

  static const TextSessionOptions& checked(const TextSessionOptions& options) {
    check_options(options);
    return options;
  }

  TextStatistics answer_many(const NextJob& next, const OnSteps& on_steps);
  using Slots = std::vector<std::unique_ptr<Answering>>;  // null: free
  uint32_t free_slot(const Slots& slots, const TextRequest& request);
  std::unique_ptr<Answering> start(uint32_t slot, TextJob job, TextStatistics& totals);

  TextSessionOptions options;
  std::shared_ptr<const TextModel> model;
  std::shared_ptr<const WeightProvider> weights;  // with the changes
  std::unique_ptr<Device> device;
  Compute compute;
  std::unique_ptr<DraftSource> drafts;  // null: none
  Generator generator;
  std::vector<uint64_t> last_use;  // of each slot, counted in jobs; 0: never used
  uint64_t n_uses = 0;
  TextGrammars grammars{model};
};

// The first free slot, with the cache that has at least half of the prompt, else the one that has
// been free for longest, so that other conversations keep theirs.
uint32_t TextSession::State::free_slot(const Slots& slots, const TextRequest& request) {
  const auto first =
      static_cast<uint32_t>(std::find(slots.begin(), slots.end(), nullptr) - slots.begin());
  uint32_t best = first, oldest = first, n_best = 0;
  uint64_t oldest_use = UINT64_MAX;
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot]) continue;
    const uint32_t n =
        request.options.reuse_prompt ? generator.n_reusable(slot, request.prompt) : 0;
    if (n > n_best) {
      best = slot;
      n_best = n;
    }
    if (last_use[slot] < oldest_use) {
      oldest = slot;
      oldest_use = last_use[slot];
    }
  }
  const bool has_half = 2 * uint64_t{n_best} >= std::max<size_t>(1, request.prompt.size());
  const uint32_t chosen = has_half ? best : oldest;
  if (chosen == first || generator.has_beams()) return chosen;
  generator.swap_caches(first, chosen);
  std::swap(last_use[first], last_use[chosen]);
  return first;
}

// Starts a job in a slot; null if it cannot be answered.
std::unique_ptr<Answering> TextSession::State::start(uint32_t slot, TextJob job,
                                                     TextStatistics& totals) {
  const auto on_failure = job.on_failure;
  try {
    TextOptions& wanted = job.request.options;
    check_options(wanted, options);
    wanted.logit_bias.insert(wanted.logit_bias.begin(), options.logit_bias.begin(),
                             options.logit_bias.end());
    wanted.ignore_end |= options.ignore_end;
    const Sampling sampling = resolve_sampling(job.request.options.sampling,
                                               model->sampling_defaults().sampling, options);
    if (!job.request.options.stops.empty()) model->require_tokenizer();
    const auto start = SteadyClock::now();
    std::optional<GrammarConstraint> grammar;
    if (wanted.grammar) {
      grammar = grammars.constraint(*wanted.grammar, job.request.prompt);
    }
    if (options.may_differ_with_others && wanted.reuse_prompt) {
      generator.share_prefix(slot, job.request.prompt);
    }
    auto answering = std::make_unique<Answering>(generator, *model, slot, std::move(job), sampling,
                                                 std::move(grammar));
    totals.prompt_s += seconds_from(start);
    totals.n_prompt += answering->statistics().n_prompt;
    totals.n_reused += answering->statistics().n_reused;
    last_use[slot] = ++n_uses;
    return answering;
  } catch (const Error& error) {
    if (!is_of_request(error)) throw;
    if (on_failure) on_failure(error);
    return nullptr;
  }
}

TextStatistics TextSession::State::answer_many(const NextJob& next, const OnSteps& on_steps) {
  Slots slots(generator.n_slots());
  TextStatistics totals;
  std::vector<float> logits;
  uint32_t chain = 1;
  size_t n_busy = 0;
  while (true) {
    while (n_busy < slots.size()) {
      std::optional<TextJob> job = next(n_busy == 0);
      if (!job) break;
      const uint32_t slot = free_slot(slots, job->request);
      slots[slot] = start(slot, std::move(*job), totals);
      if (slots[slot]) ++n_busy;
      chain = 1;
    }
    if (n_busy == 0) return totals;
    const auto any = [&](bool (Answering::*is_so)() const) {
      return std::ranges::any_of(
          slots, [&](const auto& answering) { return answering && (*answering.*is_so)(); });
    };
    const auto start = SteadyClock::now();
    // Only the logits of the last step are available.
    const bool reads_logits = any(&Answering::reads_logits);
    generator.advance(reads_logits                  ? 1
                      : any(&Answering::is_watched) ? chain
                                                    : kUnwatchedChainSteps,
                      !reads_logits);
    const double chain_s = seconds_from(start);
    totals.answer_s += chain_s;
    if (on_steps) {
      uint64_t n_steps = 0, n_tokens = 0;
      for (const std::unique_ptr<Answering>& answering : slots) {
        const uint64_t n = answering ? answering->n_untaken() : 0;
        n_steps = std::max(n_steps, n);
        n_tokens += n;
      }
      on_steps(n_steps, n_tokens);
    }
    if (chain_s < kChainSeconds / 2) chain = std::min(2 * chain, kMostChainSteps);
    if (chain_s > kChainSeconds) chain = std::max(chain / 2, 1u);
    for (std::unique_ptr<Answering>& answering : slots) {
      if (!answering || answering->take(logits)) continue;
      const std::unique_ptr<Answering> ended = std::move(answering);
      --n_busy;
      ended->done(totals);
    }
  }
}

TextSession::TextSession(const std::filesystem::path& model, const TextSessionOptions& options)
    : TextSession(std::make_shared<const TextModel>(model), options) {}

TextSession::TextSession(std::shared_ptr<const TextModel> model, const TextSessionOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}

TextSession::~TextSession() = default;

const TextModel& TextSession::model() const { return *state_->model; }
std::shared_ptr<const TextModel> TextSession::shared_model() const { return state_->model; }
const TextSessionOptions& TextSession::options() const { return state_->options; }

std::string TextSession::description() const {
  const DeviceInfo& device = state_->device->info();
  const bool is_quantized = has_quantized_matrices(*state_->weights);
  return engine_text(device, device.policy.products(state_->compute, is_quantized).activations);
}

uint32_t TextSession::context() const { return state_->generator.n_ctx(); }
uint32_t TextSession::n_vocab() const { return state_->generator.n_vocab(); }

TextAnswer TextSession::answer(const TextRequest& request, const TextEvents& events) {
  std::optional<TextAnswer> answer;
  std::exception_ptr error;
  bool is_given = false;
  answer_many([&](bool) -> std::optional<TextJob> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return TextJob{.request = request,
                   .events = events,
                   .on_done = [&](TextAnswer found) { answer = std::move(found); },
                   .on_failure = [&](const std::exception&) { error = std::current_exception(); }};
  });
  if (error) std::rethrow_exception(error);
  return std::move(*answer);
}

TextStatistics TextSession::answer_many(const NextJob& next, const OnSteps& on_steps) {
  try {
    return state_->answer_many(next, on_steps);
  } catch (...) {
    Generator& generator = state_->generator;
    for (uint32_t slot = 0; slot < generator.n_slots(); ++slot) generator.stop(slot);
    throw;
  }
}

std::vector<std::byte> TextSession::save_prompt() {
  const std::vector<uint64_t>& last_use = state_->last_use;
  const auto latest = std::ranges::max_element(last_use) - last_use.begin();
  return state_->generator.save(static_cast<uint32_t>(latest));
}

void TextSession::restore_prompt(std::span<const std::byte> bytes) {
  state_->generator.restore(0, bytes);
}

void TextSession::save_prompt(AtomicFile& file) {
  const std::vector<std::byte> bytes = save_prompt();
  file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  file.commit();
}

void TextSession::restore_prompt(const std::filesystem::path& file) {
  const std::string bytes = read_text_file(file);
  try {
    restore_prompt(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    throw Error(error.kind(), file.string() + ": " + error.what());
  }
}

void TextSession::logits(std::span<const int32_t> tokens,
                         const std::function<void(const float* rows, uint32_t n)>& take_rows) {
  state_->generator.evaluate(tokens,
                             [&](uint32_t, uint32_t n, const float* rows) { take_rows(rows, n); });
}

Perplexity TextSession::perplexity(std::span<const int32_t> tokens,
                                   const std::function<bool()>& is_cancelled) {
  const uint32_t n_piece = context(), n_vocab = this->n_vocab();
  Perplexity result;
  result.n_contexts = tokens.size() / n_piece;
  if (result.n_contexts == 0) {
    throw Error(ErrorKind::kInput, "expected at least " + std::to_string(n_piece) +
                                       " tokens, found " + std::to_string(tokens.size()));
  }
  std::span<const int32_t> before;
  if (const TextTokenizer* tokenizer = model().tokenizer()) before = tokenizer->before();
  double sum = 0, squares = 0;
  for (size_t i = 0; i < result.n_contexts; ++i) {
    const auto piece = tokens.subspan(i * n_piece, n_piece);
    std::vector<int32_t> run(piece.begin(), piece.end());
    std::ranges::copy(before, run.begin());
    uint32_t at = 0;
    logits(run, [&](const float* rows, uint32_t n) {
      if (is_cancelled && is_cancelled()) throw_stopped();
      for (uint32_t r = 0; r < n; ++r, ++at) {
        if (at < n_piece / 2 || at + 1 >= n_piece) continue;
        const float* row = rows + size_t{r} * n_vocab;
        const float greatest = *std::max_element(row, row + n_vocab);
        double total = 0;
        for (uint32_t id = 0; id < n_vocab; ++id) total += std::exp(row[id] - greatest);
        const double surprise =
            std::log(total) + greatest - row[static_cast<uint32_t>(piece[at + 1])];
        sum += surprise;
        squares += surprise * surprise;
        ++result.n_tokens;
      }
    });
  }
  const auto count = static_cast<double>(result.n_tokens);
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  result.value = std::exp(mean);
  result.deviation = std::sqrt(variance / std::max(1.0, count - 1)) * result.value;
  return result;
}

}  // namespace vesper
