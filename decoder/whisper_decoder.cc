#include "decoder/whisper_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Steps between checks of the host for finished sequences.
constexpr uint32_t kChainSteps = 16;
// Positions per KV page. Each beam owns two pages at the current position, so small pages take less
// memory and less copying.
constexpr uint32_t kPageRows = 16;
static_assert(kMostBeamSize == kMostBeams);

DecoderModel::Options model_options(const Device& device, const WeightProvider& provider,
                                    uint32_t n_slots, uint32_t n_encoded, uint32_t n_sequences,
                                    const KvTypes& kv_types) {
  const uint32_t n_text_ctx = provider.config(ModelType::kWhisper).decoder().n_positions;
  DecoderModel::Options options{
      .n_sequences = n_sequences,
      .max_rows = std::max(DecodingLoop::most_pass_rows(device, n_text_ctx), n_sequences),
      .kv_types = kv_types,
      .page_rows = kPageRows,
      .n_extra_pages = n_sequences,
      .n_sources = n_slots + (n_encoded > 1 ? n_encoded : 0),
      .n_encoded = n_encoded};
  options.max_logit_rows = std::max(options.max_logit_rows, n_sequences);
  return options;
}

DecodingLoop::TokenRules rules_of(const WhisperTokens& tokens, int32_t blank) {
  return {.end_of_text = static_cast<uint32_t>(tokens.eot),
          .timestamp_begin = static_cast<uint32_t>(tokens.timestamp_begin),
          .no_timestamps = static_cast<uint32_t>(tokens.notimestamps),
          .blank = static_cast<uint32_t>(blank)};
}

// openai-whisper, decoding.py: MaximumLikelihoodRanker.
double rank(const DecodeResult& result, const Search& search) {
  const double length = static_cast<double>(result.tokens.size());
  if (!search.length_penalty) return result.sum_logprob / std::max(1.0, length);
  return result.sum_logprob / std::pow((5 + length) / 6, *search.length_penalty);
}

}  // namespace

StepShape Search::shape(uint32_t n_slots) const {
  return {.n_slots = n_slots,
          .n_candidates = n_candidates,
          .beam_size = max_finished > 0 ? n_candidates : 0,
          .has_filters = sampling.has_filters(),
          .has_penalties = sampling.has_penalties()};
}

WhisperDecoder::WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                               const WhisperTokens& tokens, int32_t blank, uint32_t n_slots,
                               uint32_t n_encoded, uint32_t n_sequences, const KvTypes& kv_types)
    : device_(device),
      tokens_(tokens),
      model_(device, provider, compute,
             model_options(device, provider, n_slots, n_encoded, n_sequences, kv_types)),
      loop_(device, model_,
            {.most_beams = std::min(n_sequences, kMostBeams), .finished_per_beam = kMostPatience},
            rules_of(tokens, blank)),
      searches_(n_slots),
      host_sources_(n_sequences) {
  const auto floats = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(float), label);
  };
  logit_index_ = floats(1, "row that gives logits");
  no_speech_ = floats(n_slots, "no-speech probabilities");
  languages_ = floats(std::max(1u, tokens.n_languages), "language probabilities");
  loop_.set_stop_ids({&tokens.eot, 1});

  RangeProbabilitiesParams range{};
  range.n_rows = 1;
  range.row_stride = range.softmax_count = n_vocab();
  range.out_first = static_cast<uint32_t>(tokens.nospeech);
  range.out_count = 1;
  std::vector<DispatchTable> tables(n_slots);
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    DispatchTable& table = tables[slot];
    model_.emit_logits(table, 1, logit_index_, loop_.logits());
    emit::range_probabilities(table, "no_speech_probability", range,
                              no_speech_.part(slot * sizeof(float), sizeof(float)), loop_.logits());
  }
  if (tokens.is_multilingual) {
    DispatchTable& table = tables.emplace_back();
    model_.emit_logits(table, 1, logit_index_, loop_.logits());
    range.softmax_first = range.out_first = static_cast<uint32_t>(tokens.first_language);
    range.softmax_count = range.out_count = tokens.n_languages;
    emit::range_probabilities(table, "language_probabilities", range, languages_, loop_.logits());
  }
  no_speech_choices_ = device.record_all(tables);
  if (tokens.is_multilingual) {
    language_choice_ = no_speech_choices_.back();
    no_speech_choices_.pop_back();
  }
  begin({});
}

void WhisperDecoder::check(const DecodeTask& task, const Search& search) const {
  const StepShape wanted = search.shape(1), &batch = loop_.shape();
  if (wanted.n_candidates == 0 || wanted.n_candidates > batch.n_candidates ||
      (wanted.beam_size > 0 &&
       (wanted.beam_size != batch.beam_size || search.sampling.temperature > 0 ||
        search.max_finished > search.n_candidates * kMostPatience)) ||
      (wanted.has_filters && !batch.has_filters) ||
      (wanted.has_penalties && !batch.has_penalties)) {
    throw Error(ErrorKind::kInternal,
                "decoder: a batch for " + std::to_string(batch.n_candidates) + " sequences or " +
                    std::to_string(batch.beam_size) + " beams a task, found a task of " +
                    std::to_string(search.n_candidates) + " at temperature " +
                    std::to_string(search.sampling.temperature) + " that ends with " +
                    std::to_string(search.max_finished) + " texts");
  }
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < n_vocab();
  };
  if (!task.prompt.empty() && task.start_of_transcript < task.prompt.size() &&
      task.n_given < task.prompt.size() - task.start_of_transcript &&
      task.max_tokens > task.n_given &&
      task.prompt.size() - task.n_given + task.max_tokens - 1 <= n_text_ctx() &&
      task.window < n_windows() &&
      std::all_of(task.prompt.begin(), task.prompt.end(), in_vocabulary)) {
    return;
  }
  throw Error(ErrorKind::kInternal, "decoder: a prompt of " + std::to_string(task.prompt.size()) +
                                        " tokens and " + std::to_string(task.max_tokens) +
                                        " more for window " + std::to_string(task.window) +
                                        " do not fit a context of " + std::to_string(n_text_ctx()) +
                                        ", a vocabulary of " + std::to_string(n_vocab()) + " and " +
                                        std::to_string(n_windows()) + " windows");
}

void WhisperDecoder::begin(const StepShape& shape, bool keeps_bits) {
  if (shape.n_slots > n_slots()) {
    throw Error(ErrorKind::kInternal, "decoder: " + std::to_string(shape.n_slots) +
                                          " tasks, but it has room for " +
                                          std::to_string(n_slots()));
  }
  loop_.begin(shape, keeps_bits);
}

void WhisperDecoder::begin(size_t n_tasks, const Search& search) {
  const uint32_t rounded = std::bit_ceil(static_cast<uint32_t>(n_tasks));
  begin(search.shape(std::min(rounded, n_slots())));
}

std::vector<SequenceState> WhisperDecoder::first_states(const DecodeTask& task,
                                                        const Search& search) const {
  const auto timestamp_begin = static_cast<uint32_t>(tokens_.timestamp_begin);
  SequenceState state = search.sampling.state();
  state.max_sampled = task.max_tokens;
  state.timestamps = task.timestamps;
  state.max_initial_timestamp = timestamp_begin + task.max_initial_timestamp;
  if (task.speech_end > 0 && !task.grammar) state.speech_end = timestamp_begin + task.speech_end;
  state.penalty_window = n_text_ctx();
  for (const int32_t token : std::span(task.prompt).last(task.n_given)) {
    const bool is_timestamp = token >= tokens_.timestamp_begin;
    state.penultimate_was_timestamp = state.n_sampled == 0 || state.last_was_timestamp;
    state.last_was_timestamp = is_timestamp;
    if (is_timestamp) state.last_timestamp = static_cast<uint32_t>(token);
    ++state.n_sampled;
  }
  state.is_beam = search.max_finished > 0;
  state.max_finished = search.max_finished;
  std::vector<SequenceState> states(state.is_beam ? 1 : search.n_candidates, state);
  for (uint32_t i = 0; i < states.size(); ++i) {
    states[i].seed = mix_bits(task.seed + i * kNoiseStride);
  }
  return states;
}

void WhisperDecoder::set_window(uint32_t slot, uint32_t window) {
  const uint32_t first = loop_.first_sequence(slot), n = loop_.shape().n_candidates;
  std::fill_n(host_sources_.begin() + first, n, static_cast<int32_t>(window));
  device_.write(model_.sources().part(first * sizeof(int32_t), n * sizeof(int32_t)),
                host_sources_.data() + first);
}

void WhisperDecoder::run_prompt(uint32_t slot, const DecodeTask& task) {
  set_window(slot, task.window);
  device_.write(logit_index_, &task.start_of_transcript);
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size());
  loop_.prefill(slot, task.prompt, 0, std::max(n_prompt - 1, task.start_of_transcript + 1));
}

void WhisperDecoder::require_free(uint32_t slot) const {
  if (slot < loop_.shape().n_slots && !loop_.is_running(slot)) return;
  throw Error(ErrorKind::kInternal, "decoder: slot " + std::to_string(slot) + " of a batch of " +
                                        std::to_string(loop_.shape().n_slots) + " is not free");
}

void WhisperDecoder::start(uint32_t slot, const DecodeTask& task, const Search& search) {
  require_free(slot);
  check(task, search);
  run_prompt(slot, task);
  device_.run(no_speech_choices_[slot]);
  std::optional<GrammarConstraint> grammar;
  if (task.grammar) {
    grammar.emplace(*task.grammar);
    for (const int32_t token : std::span(task.prompt).last(task.n_given)) {
      if (!grammar->accept(token)) {
        throw Error(ErrorKind::kUsage, "prefix", "expected the beginning of a text of the grammar");
      }
    }
  }
  loop_.start(slot, task.prompt, first_states(task, search),
              {.grammar = grammar ? &*grammar : nullptr});
  searches_[slot] = search;
}

DecodeResult WhisperDecoder::result(uint32_t slot) {
  const Search& search = searches_[slot];
  std::vector<DecodeResult> found;
  for (const FoundText& text : loop_.read_texts(slot)) {
    const auto end = std::find(text.tokens.begin(), text.tokens.end(), tokens_.eot);
    found.push_back({{text.tokens.begin(), end}, text.sum_logprob, 0});
  }
  // A batch may have more sequences than the search; a beam search may find no text at all.
  if (search.max_finished == 0 || found.empty()) found.resize(search.n_candidates);
  // The first of equal ones.
  DecodeResult best = std::move(*std::max_element(
      found.begin(), found.end(), [&](const DecodeResult& a, const DecodeResult& b) {
        return rank(a, search) < rank(b, search);
      }));
  float no_speech = 0;
  device_.read(no_speech_.part(slot * sizeof(float), sizeof(float)), &no_speech);
  best.no_speech_prob = no_speech;
  return best;
}

std::vector<DecodeResult> WhisperDecoder::decode(std::span<const DecodeTask> tasks,
                                                 const Search& search) {
  if (tasks.empty()) return {};
  begin(tasks.size(), search);
  for (uint32_t slot = 0; slot < tasks.size(); ++slot) start(slot, tasks[slot], search);
  std::vector<DecodeResult> results(tasks.size());
  while (loop_.any_is_running()) {
    for (const uint32_t slot : advance(kChainSteps)) results[slot] = result(slot);
  }
  return results;
}

std::vector<float> WhisperDecoder::language_probabilities(uint32_t slot, uint32_t window) {
  if (!tokens_.is_multilingual) return {};
  require_free(slot);
  run_prompt(slot, {.prompt = {tokens_.sot}, .window = window});
  device_.run(language_choice_);
  std::vector<float> probabilities(tokens_.n_languages);
  device_.read(languages_, probabilities.data());
  return probabilities;
}

std::vector<float> WhisperDecoder::language_probabilities() {
  begin({});
  return language_probabilities(0, 0);
}

std::vector<float> WhisperDecoder::prompt_logits(std::span<const int32_t> prompt) {
  begin({});
  set_window(0, 0);
  std::vector<float> logits;
  loop_.evaluate(0, prompt, [&](uint32_t, uint32_t n, const float* rows) {
    logits.insert(logits.end(), rows, rows + size_t{n} * n_vocab());
  });
  return logits;
}

}  // namespace vesper
