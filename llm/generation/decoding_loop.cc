#include "llm/generation/decoding_loop.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

// Rows of the recorded prompt passes; the rest of a prompt uses the next larger one.
constexpr uint32_t kPassRows[] = {1,   4,   8,   16,  32,  64,   96,   128,
                                  192, 256, 384, 512, 768, 1024, 1536, 2048};
// Token ids per chunk of sample_partials.
constexpr uint32_t kIdsPerChunk = 2048;
// A filter keeps at least one token.
constexpr float kLeastMass = 1e-9f;
constexpr Row kIdleRow{0, -1, 0, 0};

}  // namespace

SequenceState Sampling::state() const {
  SequenceState state{};
  state.temperature = temperature;
  state.top_k = top_k;
  state.typical_p = std::max(typical_p, kLeastMass);
  state.top_p = std::max(top_p, kLeastMass);
  state.min_p = min_p;
  state.repetition_penalty = repetition_penalty;
  state.frequency_penalty = frequency_penalty;
  state.presence_penalty = presence_penalty;
  state.penalty_window = has_penalties() ? penalty_window : 0;
  state.no_repeat_ngram_size = no_repeat_ngram_size;
  state.seed = seed;
  return state;
}

uint32_t DecodingLoop::most_pass_rows(const Device& device, uint32_t n_ctx) {
  return std::min({n_ctx, device.info().policy.most_pass_rows, *std::rbegin(kPassRows)});
}

DecodingLoop::DecodingLoop(Device& device, const DecoderModel& model, const Options& options,
                           const std::optional<TokenRules>& rules)
    : device_(device),
      model_(model),
      options_(options),
      n_ctx_(model.n_ctx()),
      n_vocab_(model.n_vocab()) {
  params_.n_vocab = params_.row_stride = params_.timestamp_begin = params_.end_of_text = n_vocab_;
  if (rules) {
    params_.end_of_text = rules->end_of_text;
    params_.timestamp_begin = rules->timestamp_begin;
    params_.no_timestamps = rules->no_timestamps;
    params_.blank = rules->blank;
  }
  params_.chunk = kIdsPerChunk;
  params_.n_chunks = n_token_chunks(n_vocab_, params_.timestamp_begin, kIdsPerChunk);
  params_.max_tokens = n_ctx_;

  const uint64_t n = model.options().n_sequences;
  const uint64_t n_logits = std::max<uint64_t>(n, options.most_drafted_rows);
  const uint64_t n_partials = n_logits * params_.n_chunks;
  const uint64_t n_finished = options.most_beams > 0 ? n * options.finished_per_beam : 0;
  const auto words = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(uint32_t), label);
  };
  pass_rows_ = device.allocate(most_pass_rows(device_, n_ctx_) * sizeof(Row), "rows of a pass");
  step_rows_ = device.allocate(n * sizeof(Row), "rows of a step");
  if (options.most_drafted_rows > 0) {
    draft_rows_ = device.allocate(options.most_drafted_rows * sizeof(Row), "drafted rows");
    draft_logit_rows_ =
        device.allocate(options.most_drafted_rows * sizeof(Row), "drafted rows with logits");
    draft_states_ = device.allocate(options.most_drafted_rows * sizeof(SequenceState),
                                    "states of drafted rows");
  }
  logits_ = words(n_logits * n_vocab_, "logits");
  states_ = device.allocate(n * sizeof(SequenceState), "sequence states");
  tokens_and_logprobs_ = words(2 * n * n_ctx_, "tokens and log-probabilities");
  tokens_ = tokens_and_logprobs_.part(0, n * n_ctx_ * sizeof(int32_t));
  logprobs_ = tokens_and_logprobs_.from(tokens_.bytes);
  partials_ = device.allocate(n_partials * sizeof(TokenPartial), "token partials");
  if (options.most_beams > 0) {
    candidates_ = device.allocate(
        n_partials * (options.most_beams + options.n_stop_candidates) * sizeof(TokenCandidate),
        "candidates of beams");
    finished_ = words(n_finished * finished_stride(beam_params({})), "finished texts");
  }
  stop_ = words(1, "stop");
  stop_ids_ = words((uint64_t{n_vocab_} + 31) / 32, "stop ids");
  if (rules) suppressed_ = device.allocate(stop_ids_.bytes, "suppressed tokens");

  rows_host_.resize(std::max<size_t>(most_pass_rows(device_, n_ctx_), n_logits));
  draft_logit_rows_host_.resize(options.most_drafted_rows);
  draft_states_host_.resize(options.most_drafted_rows);
  states_host_.resize(n);
  tokens_host_.resize(n * n_ctx_);
  logprobs_host_.resize(n * n_ctx_);
  finished_host_.resize(finished_.bytes / sizeof(int32_t));
  pages_host_.resize(n * model.cache().pages_per_sequence());
  is_running_.resize(n);
  grammars_.resize(n);
  ended_.reserve(n);
  record_passes();
}

// Only decoders without cross-attention have attention within a prompt.
TransformerStack::CausalContext DecodingLoop::pass_context() const {
  return model_.context(pass_rows_, model_.config().cross_attention ? PassRowOrder::kAny
                                                                    : PassRowOrder::kOneSequence);
}

void DecodingLoop::record_passes() {
  const uint32_t most = most_pass_rows(device_, n_ctx_);
  const auto context = pass_context();
  const PassPart part = passes_end_early() ? PassPart::kKeysAndValues : PassPart::kAll;
  std::vector<DispatchTable> tables;
  for (const uint32_t size : kPassRows) {
    const uint32_t n_rows = std::min(size, most);
    if (!passes_.empty() && passes_.back().n_rows == n_rows) break;
    model_.emit_rows(tables.emplace_back(), n_rows, context, part);
    passes_.push_back({n_rows, 0});
  }
  const std::vector<ProgramId> programs = device_.record_all(tables);
  for (size_t i = 0; i < passes_.size(); ++i) passes_[i].program = programs[i];
}

DecodingLoop::PassProgram& DecodingLoop::pass_of(uint32_t n_rows) {
  return *std::find_if(passes_.begin(), passes_.end(),
                       [&](const PassProgram& each) { return each.n_rows >= n_rows; });
}

void DecodingLoop::complete_pass(uint32_t n_rows) {
  if (!passes_end_early()) return;
  PassProgram& pass = pass_of(n_rows);
  if (!pass.rest) {
    DispatchTable table;
    model_.emit_rows(table, pass.n_rows, pass_context(), PassPart::kRest);
    pass.rest = device_.record(table);
  }
  device_.run(*pass.rest);
}

const DecodingLoop::StepPrograms& DecodingLoop::programs_of(const StepShape& shape) {
  const auto [programs, is_new] = steps_.try_emplace(shape);
  if (!is_new) return programs->second;
  const uint32_t n = shape.n_sequences();
  DispatchTable step;
  model_.emit_rows(step, n, model_.context(step_rows_, PassRowOrder::kOneEach));
  model_.emit_logits(step, n, {}, logits_, step_rows_);
  DispatchTable choice;
  emit_choice(shape.has_masks ? choice : step, shape);
  programs->second.step = device_.record(step);
  if (shape.has_masks) programs->second.choice = device_.record(choice);
  if (shape.n_candidates > 1) {
    DispatchTable copies;
    emit_copy_pages(copies, n);
    programs->second.copies = device_.record(copies);
  }
  if (options_.most_drafted_rows > 0) {
    // These do not depend on the number of slots.
    StepShape whole = shape;
    whole.n_slots = shape_.n_slots;
    programs->second.drafted =
        shape == whole ? record_drafted_passes(shape) : programs_of(whole).drafted;
  }
  return programs->second;
}

uint32_t DecodingLoop::slots_needed() const {
  const uint32_t n_alike = device_.info().policy.most_alike_rows;
  uint32_t n = shape_.n_slots;
  while (n > 1 && !is_running_[n - 1]) --n;
  n = std::bit_ceil(n);
  if (keeps_bits_ && shape_.n_sequences() > n_alike) {
    if (n_alike == 0) return shape_.n_slots;
    n = std::max(n, (n_alike + 1) / shape_.n_candidates + 1);
  }
  return std::min(n, shape_.n_slots);
}

BeamParams DecodingLoop::beam_params(const StepShape& shape) const {
  const KvCache& cache = model_.cache();
  BeamParams beams{};
  beams.n_groups = shape.n_slots;
  beams.beam_size = shape.beam_size;
  beams.group_sequences = shape.n_candidates;
  beams.most_finished = shape.beam_size * options_.finished_per_beam;
  beams.n_chunks = params_.n_chunks;
  beams.chunk = params_.chunk;
  beams.n_candidates = shape.beam_size + options_.n_stop_candidates;
  beams.timestamp_begin = params_.timestamp_begin;
  beams.max_tokens = params_.max_tokens;
  beams.page_rows = cache.shape().page_rows;
  beams.pages_per_sequence = cache.pages_per_sequence();
  if (options_.keeps_beam_logprobs) {
    beams.logprobs_offset = static_cast<uint32_t>(tokens_.bytes / sizeof(int32_t));
  }
  return beams;
}

void DecodingLoop::emit_choice(DispatchTable& table, const StepShape& shape,
                               uint32_t n_drafted) const {
  const bool has_beams = shape.beam_size > 0;
  const Operand drafts = n_drafted > 0 ? draft_logit_rows_ : Operand{};
  const Operand& states = n_drafted > 0 ? draft_states_ : states_;
  SamplingParams params = params_;
  params.n_sequences = n_drafted > 0 ? n_drafted : shape.n_sequences();
  params.n_candidates = has_beams ? beam_params(shape).n_candidates : 0;
  params.has_filters = shape.has_filters;
  if (shape.has_bias || shape.has_penalties) {
    emit::adjust_logits(table, "adjust_logits", params, logits_, states,
                        shape.has_penalties ? tokens_ : Operand{},
                        shape.has_bias ? bias_ : Operand{}, drafts);
  }
  const Operand allowed = !shape.has_masks ? Operand{} : n_drafted > 0 ? draft_allowed_ : allowed_;
  if (shape.has_filters) {
    emit::sampling_filters(table, "sampling_filters", params, states, logits_, suppressed_,
                           allowed);
  }
  emit::sample_partials(table, "sample_partials", params, partials_, logits_, states, suppressed_,
                        has_beams ? candidates_ : Operand{}, allowed);
  if (has_beams) {
    emit::select_beams(table, "select_beams", beam_params(shape), states_, step_rows_,
                       options_.keeps_beam_logprobs ? tokens_and_logprobs_ : tokens_, finished_,
                       partials_, candidates_, model_.cache().page_table(), stop_ids_);
  }
  emit::sample_token(table, "sample_token", params, states_, step_rows_, tokens_, logprobs_, stop_,
                     partials_, stop_ids_, drafts);
  if (has_beams) emit_copy_pages(table, params.n_sequences);
}

void DecodingLoop::emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const {
  const KvCache& cache = model_.cache();
  const KvCache::Shape& shape = cache.shape();
  const CopyPagesParams params{n_sequences, shape.n_kv_heads, shape.head_dim, shape.page_rows,
                               shape.types.codes()};
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    emit::copy_pages(table, "copy_pages." + std::to_string(layer), params, cache.keys(layer),
                     cache.values(layer), states_);
  }
}

void DecodingLoop::write_mask(const Operand& mask, std::span<const int32_t> ids) {
  std::vector<uint32_t> bits(mask.bytes / sizeof(uint32_t), 0);
  for (const int32_t id : ids) bits[static_cast<uint32_t>(id) / 32] |= 1u << id % 32;
  device_.write(mask, bits.data());
}

void DecodingLoop::set_stop_ids(std::span<const int32_t> ids) {
  std::vector<int32_t> known;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(known),
               [&](int32_t id) { return id >= 0 && static_cast<uint32_t>(id) < n_vocab_; });
  write_mask(stop_ids_, known);
}

void DecodingLoop::set_suppressed(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < n_vocab_) continue;
    throw Error(ErrorKind::kUsage, "suppress tokens",
                "expected ids below " + std::to_string(n_vocab_) + ", found " + std::to_string(id));
  }
  write_mask(suppressed_, ids);
}

template <class T>
void DecodingLoop::write_slot(const Operand& to, const std::vector<T>& from, uint32_t slot,
                              uint64_t n) {
  const uint64_t first = first_sequence(slot) * n, bytes = shape_.n_candidates * n * sizeof(T);
  device_.write(to.part(first * sizeof(T), bytes), from.data() + first);
}

template <class T>
void DecodingLoop::read_part(const Operand& from, std::vector<T>& to, uint64_t first, uint64_t n) {
  if (n > 0) device_.read(from.part(first * sizeof(T), n * sizeof(T)), to.data() + first);
}

void DecodingLoop::begin(const StepShape& shape, bool keeps_bits) {
  const uint32_t n_sequences = model_.options().n_sequences;
  if (shape.n_slots == 0 || shape.n_candidates == 0 ||
      shape.n_candidates > n_sequences / shape.n_slots ||
      shape.beam_size > std::min(shape.n_candidates, options_.most_beams)) {
    throw Error(ErrorKind::kInternal,
                "decoding loop: " + std::to_string(shape.n_slots) + " slots of " +
                    std::to_string(shape.n_candidates) + " sequences, of which " +
                    std::to_string(shape.beam_size) + " are beams, but the model has room for " +
                    std::to_string(n_sequences) + " sequences and " +
                    std::to_string(options_.most_beams) + " beams of a slot");
  }
  shape_ = shape;
  keeps_bits_ = keeps_bits;
  programs_ = &programs_of(shape);
  most_pages_ = 0;
  const uint32_t n = shape.n_sequences();
  SequenceState idle{};
  idle.finished = 1;
  std::fill_n(states_host_.begin(), n, idle);
  std::fill_n(rows_host_.begin(), n, kIdleRow);
  std::fill_n(is_running_.begin(), shape.n_slots, uint8_t{0});
  device_.write(states_.part(0, n * sizeof(SequenceState)), states_host_.data());
  device_.write(step_rows_.part(0, n * sizeof(Row)), rows_host_.data());
}

// The first step runs the prompt's last token. The full pages before it are shared; each sequence
// has its own copy of the page with it.
void DecodingLoop::give_pages(uint32_t slot, uint32_t n_prompt) {
  const KvCache& cache = model_.cache();
  const uint32_t n = shape_.n_candidates, n_pages = cache.pages_per_sequence();
  const uint32_t n_full = (n_prompt - 1) / cache.shape().page_rows;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t s = first_sequence(slot) + i;
    states_host_[s].spare_page =
        cache.fill_group_row(slot, n, i, n_full, pages_host_.data() + size_t{s} * n_pages);
  }
  write_slot(cache.page_table(), pages_host_, slot, n_pages);
}

uint32_t DecodingLoop::prefill(uint32_t slot, std::span<const int32_t> prompt, uint32_t first,
                               uint32_t end,
                               const std::function<bool(uint32_t, uint32_t)>& after_pass) {
  stop(slot);
  states_host_[first_sequence(slot)].n_sampled = 0;
  give_pages(slot, static_cast<uint32_t>(prompt.size()));
  if (first >= end) return first;
  return run_passes(first_sequence(slot), prompt.subspan(first, end - first), first, after_pass);
}

uint32_t DecodingLoop::run_passes(uint32_t sequence, std::span<const int32_t> tokens,
                                  uint32_t position,
                                  const std::function<bool(uint32_t, uint32_t)>& after_pass) {
  while (!tokens.empty()) {
    const uint32_t n =
        static_cast<uint32_t>(std::min<size_t>(tokens.size(), passes_.back().n_rows));
    const PassProgram& pass = pass_of(n);
    for (uint32_t r = 0; r < n; ++r) {
      rows_host_[r] = {tokens[r], static_cast<int32_t>(sequence),
                       static_cast<int32_t>(position + r), 0};
    }
    std::fill(rows_host_.begin() + n, rows_host_.begin() + pass.n_rows, kIdleRow);
    device_.write(pass_rows_.part(0, pass.n_rows * sizeof(Row)), rows_host_.data());
    device_.run(pass.program);
    const bool goes_on = !after_pass || after_pass(position, n);
    position += n;
    tokens = tokens.subspan(n);
    if (!goes_on) break;
  }
  return position;
}

void DecodingLoop::start(uint32_t slot, std::span<const int32_t> prompt,
                         std::span<const SequenceState> states,
                         const TextConstraints& constraints) {
  const KvCache& cache = model_.cache();
  const uint32_t n_pages = cache.pages_per_sequence(), page_rows = cache.shape().page_rows;
  const uint32_t first = first_sequence(slot), n = shape_.n_candidates;
  const auto last = static_cast<uint32_t>(prompt.size()) - 1;
  is_running_[slot] = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t s = first + i;
    const int32_t spare_page = states_host_[s].spare_page;
    SequenceState& state = states_host_[s] = states[std::min<size_t>(i, states.size() - 1)];
    state.spare_page = spare_page;
    state.position = static_cast<int32_t>(prompt.size());
    state.n_bias = static_cast<uint32_t>(constraints.bias.size());
    state.has_mask = constraints.grammar != nullptr;
    if (i >= states.size()) {
      state.finished = 1;
      state.sum_logprob = -INFINITY;
    }
    rows_host_[s] = kIdleRow;
    if (state.finished) continue;
    is_running_[slot] = 1;
    rows_host_[s] = {prompt.back(), static_cast<int32_t>(s), static_cast<int32_t>(last), 0};
    if (i > 0) {
      const uint32_t page = last / page_rows;
      state.copy_from = pages_host_[size_t{first} * n_pages + page];
      state.copy_to = pages_host_[size_t{s} * n_pages + page];
      state.copy_rows = last % page_rows;
    }
  }
  write_slot(states_, states_host_, slot);
  write_slot(step_rows_, rows_host_, slot);
  if (const uint32_t n_known = states[0].first_sampled + states[0].n_sampled; n_known > 0) {
    for (uint32_t s = first; s < first + n; ++s) {
      const auto to = tokens_host_.begin() + static_cast<std::ptrdiff_t>(uint64_t{s} * n_ctx_);
      std::copy(prompt.end() - n_known, prompt.end(), to);
      device_.write(tokens_.part(uint64_t{s} * n_ctx_ * sizeof(int32_t), n_known * sizeof(int32_t)),
                    &*to);
    }
  }
  const uint32_t go = 0;
  device_.write(stop_, &go);
  constrain(slot, constraints);
  programs_ = &programs_of(running_shape());
  if (states.size() > 1) device_.run(programs_->copies);
}

void DecodingLoop::reuse_pages(uint32_t slot, uint32_t n_steps) {
  const KvCache& cache = model_.cache();
  const uint32_t n_pages = cache.pages_per_sequence(), page_rows = cache.shape().page_rows;
  const uint32_t n = shape_.n_candidates, first = first_sequence(slot);
  const auto position = static_cast<uint32_t>(states_host_[first].position);
  const uint32_t next = (position + page_rows - 1) / page_rows;
  if (next * page_rows >= position + n_steps || next >= n_pages) return;
  read_part(cache.page_table(), pages_host_, uint64_t{first} * n_pages, uint64_t{n} * n_pages);
  int32_t* const pages = pages_host_.data() + size_t{first} * n_pages;
  std::vector<int32_t> named;
  for (uint32_t i = 0; i < n; ++i) {
    named.insert(named.end(), pages + i * n_pages, pages + i * n_pages + next);
    named.push_back(states_host_[first + i].spare_page);
  }
  for (uint32_t i = 0, page = 0; i < n; ++page) {
    const int32_t free = cache.group_page(slot, n, page);
    if (std::find(named.begin(), named.end(), free) != named.end()) continue;
    pages[i++ * n_pages + next] = free;
    most_pages_ = std::max(most_pages_, page + 1);
  }
  write_slot(cache.page_table(), pages_host_, slot, n_pages);
}

bool DecodingLoop::any_is_running() const {
  return std::any_of(is_running_.begin(), is_running_.begin() + shape_.n_slots,
                     [](uint8_t runs) { return runs != 0; });
}

std::span<const uint32_t> DecodingLoop::advance(uint32_t n_steps) {
  if (!any_is_running()) return {};
  for (uint32_t slot = 0; shape_.n_slots > 1 && slot < shape_.n_slots; ++slot) {
    if (is_running_[slot] && state(slot).is_beam) reuse_pages(slot, n_steps);
  }
  programs_ = &programs_of(running_shape());
  if (any_has_grammar()) {
    ended_.clear();
    for (uint32_t i = 0; i < n_steps && ended_.empty(); ++i) masked_step();
    return ended_;
  }
  device_.run(programs_->step, n_steps, stop_);
  return take_states();
}

std::span<const uint32_t> DecodingLoop::take_states() {
  ended_.clear();
  read_part(states_, states_host_, 0, shape_.n_sequences());
  note_ended();
  return ended_;
}

void DecodingLoop::note_ended() {
  for (uint32_t slot = 0; slot < shape_.n_slots; ++slot) {
    const auto first = states_host_.begin() + first_sequence(slot);
    if (!is_running_[slot] || std::any_of(first, first + shape_.n_candidates,
                                          [](const auto& state) { return !state.finished; })) {
      continue;
    }
    is_running_[slot] = 0;
    ended_.push_back(slot);
  }
}

void DecodingLoop::stop(uint32_t slot) {
  if (!is_running_[slot]) return;
  is_running_[slot] = 0;
  const uint32_t first = first_sequence(slot);
  for (uint32_t s = first; s < first + shape_.n_candidates; ++s) {
    states_host_[s].finished = 1;
    rows_host_[s] = kIdleRow;
  }
  write_slot(states_, states_host_, slot);
  write_slot(step_rows_, rows_host_, slot);
}

void DecodingLoop::read_sampled(uint32_t slot) {
  const uint64_t first = uint64_t{first_sequence(slot)} * n_ctx_ + state(slot).first_sampled;
  read_part(tokens_, tokens_host_, first, state(slot).n_sampled);
  read_part(logprobs_, logprobs_host_, first, state(slot).n_sampled);
}

std::span<const int32_t> DecodingLoop::tokens(uint32_t slot) const {
  return {tokens_host_.data() + size_t{first_sequence(slot)} * n_ctx_,
          state(slot).first_sampled + state(slot).n_sampled};
}

std::span<const int32_t> DecodingLoop::sampled(uint32_t slot) const {
  return tokens(slot).last(state(slot).n_sampled);
}

std::span<const float> DecodingLoop::logprobs(uint32_t slot) const {
  return {logprobs_host_.data() + size_t{first_sequence(slot)} * n_ctx_ + state(slot).first_sampled,
          state(slot).n_sampled};
}

// openai-whisper, decoding.py: BeamSearchDecoder.finalize. If too few texts have finished, the best
// unfinished ones count too.
std::vector<FoundText> DecodingLoop::read_texts(uint32_t slot) {
  const uint32_t first = first_sequence(slot);
  const bool has_beams = state(slot).is_beam != 0;
  const bool has_logprobs = has_beams && options_.keeps_beam_logprobs;
  const uint64_t stride = finished_stride(beam_params(shape_));
  const uint64_t first_finished =
      uint64_t{slot} * shape_.beam_size * options_.finished_per_beam * stride;
  std::vector<FoundText> found;
  if (has_beams) {
    read_part(finished_, finished_host_, first_finished, state(slot).n_finished * stride);
    for (uint32_t f = 0; f < state(slot).n_finished; ++f) {
      const int32_t* text = finished_host_.data() + first_finished + f * stride;
      const std::span<const int32_t> tokens(text + kFinishedHeader, static_cast<size_t>(text[1]));
      found.push_back({tokens, std::bit_cast<float>(text[0]), true});
      for (size_t i = 0; has_logprobs && i < tokens.size(); ++i) {
        found.back().logprobs.push_back(std::bit_cast<float>(tokens.data()[n_ctx_ + i]));
      }
    }
  }
  const uint32_t wanted = has_beams ? shape_.beam_size : shape_.n_candidates;
  if (found.size() >= wanted) return found;
  read_part(tokens_, tokens_host_, uint64_t{first} * n_ctx_, uint64_t{wanted} * n_ctx_);
  if (has_logprobs) {
    read_part(logprobs_, logprobs_host_, uint64_t{first} * n_ctx_, uint64_t{wanted} * n_ctx_);
  }
  // Beams are in descending order.
  for (uint32_t s = first; s < first + wanted && found.size() < wanted; ++s) {
    const SequenceState& state = states_host_[s];
    if (has_beams && !(state.sum_logprob > -INFINITY)) continue;
    const size_t at = size_t{s} * n_ctx_ + state.first_sampled;
    found.push_back({{tokens_host_.data() + at, state.n_sampled}, state.sum_logprob, false});
    if (!has_logprobs) continue;
    const float* logprobs = logprobs_host_.data() + at;
    found.back().logprobs.assign(logprobs, logprobs + state.n_sampled);
  }
  return found;
}

void DecodingLoop::evaluate(
    uint32_t slot, std::span<const int32_t> tokens,
    const std::function<void(uint32_t, uint32_t, const float*)>& take_rows) {
  const uint32_t n_rows = model_.options().max_logit_rows;
  if (!logits_program_) {
    logit_index_ = device_.allocate(n_rows * sizeof(uint32_t), "rows that give logits");
    pass_logits_ =
        device_.allocate(uint64_t{n_rows} * n_vocab_ * sizeof(float), "logits of a pass");
    pass_logits_host_.resize(size_t{n_rows} * n_vocab_);
    DispatchTable table;
    model_.emit_logits(table, n_rows, logit_index_, pass_logits_);
    logits_program_ = device_.record(table);
  }
  std::vector<uint32_t> index(n_rows);
  prefill(slot, tokens, 0, static_cast<uint32_t>(tokens.size()), [&](uint32_t first, uint32_t n) {
    complete_pass(n);
    for (uint32_t r = 0; r < n; r += n_rows) {
      const uint32_t n_taken = std::min(n_rows, n - r);
      for (uint32_t i = 0; i < n_rows; ++i) index[i] = r + std::min(i, n_taken - 1);
      device_.write(logit_index_, index.data());
      device_.run(*logits_program_);
      read_part(pass_logits_, pass_logits_host_, 0, uint64_t{n_taken} * n_vocab_);
      take_rows(first + r, n_taken, pass_logits_host_.data());
    }
    return true;
  });
}

}  // namespace vesper
