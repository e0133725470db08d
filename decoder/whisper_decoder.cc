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

// Prompt passes are recorded for these numbers of rows; a prompt takes the next larger one.
constexpr uint32_t kPromptRows[] = {1, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256};
// Steps that are submitted before the host looks whether every sequence has finished.
constexpr uint32_t kChainSteps = 16;
// Token ids that one chunk of sample_partials reduces.
constexpr uint32_t kIdsPerChunk = 1024;
// Positions of a page of keys and values. Beams own two pages each at the place that is written, so
// small ones take less memory, and less is copied when beams part.
constexpr uint32_t kPageRows = 16;
static_assert(kMostBeamSize == kMostBeams);

DecoderModel::Options model_options(const WeightProvider& provider, uint32_t n_windows,
                                    uint32_t n_encoded, uint32_t n_sequences) {
  const uint32_t n_text_ctx = provider.config(ModelType::kWhisper).decoder().n_positions;
  DecoderModel::Options options{.n_sequences = n_sequences,
                                .max_rows = std::max(n_text_ctx, n_sequences),
                                .page_rows = kPageRows,
                                .n_extra_pages = n_sequences,
                                .n_sources = n_windows,
                                .n_encoded = n_encoded};
  options.max_logit_rows = std::max(options.max_logit_rows, n_sequences);
  return options;
}

// openai-whisper, decoding.py: MaximumLikelihoodRanker.
double rank(const DecodeResult& result, const Search& search) {
  const double length = static_cast<double>(result.tokens.size());
  if (!search.length_penalty) return result.sum_logprob / std::max(1.0, length);
  return result.sum_logprob / std::pow((5 + length) / 6, *search.length_penalty);
}

uint32_t n_chunks(const WhisperTokens& tokens, uint32_t n_vocab) {
  return n_token_chunks(n_vocab, static_cast<uint32_t>(tokens.timestamp_begin), kIdsPerChunk);
}

}  // namespace

WhisperDecoder::WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                               const WhisperTokens& tokens, int32_t blank, uint32_t n_windows,
                               uint32_t n_encoded, uint32_t n_sequences)
    : device_(device),
      tokens_(tokens),
      blank_(blank),
      n_windows_(n_windows),
      n_sequences_(n_sequences),
      model_(device, provider, compute,
             model_options(provider, n_windows, n_encoded, n_sequences)) {
  const uint64_t n = n_sequences;
  const auto floats = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(float), label);
  };
  prompt_rows_ = device.allocate(max_rows() * sizeof(Row), "prompt rows");
  step_rows_ = device.allocate(n * sizeof(Row), "step rows");
  logit_index_ = device.allocate(sizeof(uint32_t), "row that gives logits");
  logits_ = floats(n * n_vocab(), "logits");
  no_speech_ = floats(n_windows, "no-speech probabilities");
  languages_ = floats(std::max(1u, tokens.n_languages), "language probabilities");
  partials_ =
      device.allocate(n * n_chunks(tokens_, n_vocab()) * sizeof(TokenPartial), "token partials");
  states_ = device.allocate(n * sizeof(SequenceState), "sequence states");
  chosen_ = device.allocate(n * n_text_ctx() * sizeof(int32_t), "chosen tokens");
  candidates_ = device.allocate(
      n * n_chunks(tokens_, n_vocab()) * (most_beams() + 1) * sizeof(TokenCandidate),
      "candidates of beams");
  const uint64_t n_finished = n * kMostPatience;
  finished_ = device.allocate(n_finished * (kFinishedHeader + n_text_ctx()) * sizeof(uint32_t),
                              "finished texts");
  stop_ = device.allocate(sizeof(uint32_t), "stop");
  suppressed_ = device.allocate((n_vocab() + 31) / 32 * sizeof(uint32_t), "suppressed tokens");
  stop_ids_ = device.allocate(suppressed_.bytes, "stop ids");
  std::vector<uint32_t> stop_mask(suppressed_.bytes / sizeof(uint32_t), 0);
  stop_mask[static_cast<size_t>(tokens.eot) / 32] = 1u << tokens.eot % 32;
  device.write(stop_ids_, stop_mask.data());
  host_rows_.resize(max_rows());
  host_states_.resize(n);
  host_chosen_.resize(n * n_text_ctx());
  host_finished_.resize(n_finished * (kFinishedHeader + n_text_ctx()));
  host_pages_.resize(n * model_.cache().pages_per_sequence());
  host_sources_.resize(n);
  host_no_speech_.resize(n_windows);
  record_prompts();
  begin({});
}

uint32_t WhisperDecoder::most_beams() const { return std::min(n_sequences_, kMostBeams); }

void WhisperDecoder::emit_choice(DispatchTable& table, const BatchShape& shape) const {
  SamplingParams params{};
  params.n_sequences = shape.n_sequences();
  params.n_vocab = params.row_stride = n_vocab();
  params.n_chunks = n_chunks(tokens_, n_vocab());
  params.chunk = kIdsPerChunk;
  params.end_of_text = static_cast<uint32_t>(tokens_.eot);
  params.timestamp_begin = static_cast<uint32_t>(tokens_.timestamp_begin);
  params.no_timestamps = static_cast<uint32_t>(tokens_.notimestamps);
  params.blank = static_cast<uint32_t>(blank_);
  params.max_tokens = n_text_ctx();
  params.n_candidates = shape.beam_size > 0 ? shape.beam_size + 1 : 0;
  if (shape.has_penalties) {
    emit::adjust_logits(table, "adjust_logits", params, logits_, states_, chosen_, {});
  }
  emit::sample_partials(table, "sample_partials", params, partials_, logits_, states_, suppressed_,
                        shape.beam_size > 0 ? candidates_ : Operand{});
  if (shape.beam_size > 0) {
    BeamParams beams{};
    beams.n_groups = shape.n_places;
    beams.beam_size = shape.beam_size;
    beams.group_sequences = shape.n_candidates;
    beams.most_finished = shape.beam_size * kMostPatience;
    beams.n_chunks = params.n_chunks;
    beams.chunk = kIdsPerChunk;
    beams.n_candidates = params.n_candidates;
    beams.timestamp_begin = params.timestamp_begin;
    beams.max_tokens = n_text_ctx();
    beams.page_rows = model_.cache().shape().page_rows;
    beams.pages_per_sequence = model_.cache().pages_per_sequence();
    emit::select_beams(table, "select_beams", beams, states_, step_rows_, chosen_, finished_,
                       partials_, candidates_, model_.cache().page_table(), stop_ids_);
  }
  emit::sample_token(table, "sample_token", params, states_, step_rows_, chosen_, {}, stop_,
                     partials_, stop_ids_);
  if (shape.beam_size > 0) emit_copy_pages(table, params.n_sequences);
}

void WhisperDecoder::emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const {
  CopyPagesParams params{};
  params.n_sequences = n_sequences;
  params.n_kv_heads = model_.cache().shape().n_kv_heads;
  params.head_dim = model_.cache().shape().head_dim;
  params.page_rows = model_.cache().shape().page_rows;
  params.kv_dtype = static_cast<uint32_t>(model_.cache().shape().dtype);
  for (uint32_t layer = 0; layer < model_.cache().shape().n_layers; ++layer) {
    emit::copy_pages(table, "copy_pages." + std::to_string(layer), params,
                     model_.cache().keys(layer), model_.cache().values(layer), states_);
  }
}

void WhisperDecoder::record_prompts() {
  const auto record = [&](uint32_t n_rows) {
    DispatchTable table;
    model_.emit_rows(table, n_rows, model_.context(prompt_rows_));
    prompts_.push_back({n_rows, device_.record(table)});
  };
  for (uint32_t n_rows : kPromptRows) {
    if (n_rows < n_text_ctx()) record(n_rows);
  }
  record(n_text_ctx());
  RangeProbabilitiesParams range{};
  range.n_rows = 1;
  range.row_stride = n_vocab();
  range.softmax_count = n_vocab();
  range.out_first = static_cast<uint32_t>(tokens_.nospeech);
  range.out_count = 1;
  for (uint32_t place = 0; place < n_windows_; ++place) {
    DispatchTable table;
    model_.emit_logits(table, 1, logit_index_, logits_);
    emit::range_probabilities(table, "no_speech_probability", range,
                              no_speech_.part(place * sizeof(float), sizeof(float)), logits_);
    no_speech_choices_.push_back(device_.record(table));
  }
  if (!tokens_.is_multilingual) return;
  DispatchTable table;
  model_.emit_logits(table, 1, logit_index_, logits_);
  range.softmax_first = range.out_first = static_cast<uint32_t>(tokens_.first_language);
  range.softmax_count = range.out_count = tokens_.n_languages;
  emit::range_probabilities(table, "language_probabilities", range, languages_, logits_);
  language_choice_ = device_.record(table);
}

const WhisperDecoder::StepPrograms& WhisperDecoder::programs_of(const BatchShape& shape) {
  const auto [place, is_new] = steps_.try_emplace(shape);
  if (!is_new) return place->second;
  const uint32_t n = shape.n_sequences();
  DispatchTable step;
  model_.emit_rows(step, n, model_.context(step_rows_));
  model_.emit_logits(step, n, {}, logits_, step_rows_);
  emit_choice(step, shape);
  DispatchTable copies;
  emit_copy_pages(copies, n);
  place->second = {device_.record(step), device_.record(copies)};
  return place->second;
}

void WhisperDecoder::set_suppressed(std::span<const int32_t> ids) {
  std::vector<uint32_t> mask((n_vocab() + 31) / 32, 0);
  for (int32_t id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) {
      throw Error(
          ErrorKind::kUsage, "suppress tokens",
          "expected ids below " + std::to_string(n_vocab()) + ", found " + std::to_string(id));
    }
    mask[static_cast<uint32_t>(id) / 32] |= 1u << id % 32;
  }
  device_.write(suppressed_, mask.data());
}

void WhisperDecoder::check(const DecodeTask& task, const Search& search) const {
  if (search.n_candidates == 0 || search.n_candidates > shape_.n_candidates ||
      (search.max_finished > 0 &&
       (search.n_candidates != shape_.beam_size || search.temperature > 0 ||
        search.max_finished > search.n_candidates * kMostPatience))) {
    throw Error(ErrorKind::kInternal,
                "decoder: a batch for " + std::to_string(shape_.n_candidates) + " sequences or " +
                    std::to_string(shape_.beam_size) + " beams a task, found a task of " +
                    std::to_string(search.n_candidates) + " at temperature " +
                    std::to_string(search.temperature) + " that ends with " +
                    std::to_string(search.max_finished) + " texts");
  }
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < n_vocab();
  };
  if (!task.prompt.empty() && task.start_of_transcript < task.prompt.size() &&
      task.n_given < task.prompt.size() - task.start_of_transcript &&
      task.max_tokens > task.n_given &&
      task.prompt.size() - task.n_given + task.max_tokens - 1 <= n_text_ctx() &&
      task.window < n_windows_ &&
      std::all_of(task.prompt.begin(), task.prompt.end(), in_vocabulary)) {
    return;
  }
  throw Error(ErrorKind::kInternal, "decoder: a prompt of " + std::to_string(task.prompt.size()) +
                                        " tokens and " + std::to_string(task.max_tokens) +
                                        " more for window " + std::to_string(task.window) +
                                        " do not fit a context of " + std::to_string(n_text_ctx()) +
                                        ", a vocabulary of " + std::to_string(n_vocab()) + " and " +
                                        std::to_string(n_windows_) + " windows");
}

void WhisperDecoder::begin(const BatchShape& shape) {
  if (shape.n_places == 0 || shape.n_places > n_windows_ || shape.n_candidates == 0 ||
      shape.n_candidates > n_sequences_ / shape.n_places ||
      shape.beam_size > std::min(shape.n_candidates, kMostBeams)) {
    throw Error(ErrorKind::kInternal,
                "decoder: " + std::to_string(shape.n_places) + " tasks of " +
                    std::to_string(shape.n_candidates) + " sequences each, of which " +
                    std::to_string(shape.beam_size) + " are beams, but it has room for " +
                    std::to_string(n_windows_) + " and " + std::to_string(n_sequences_) +
                    " in all");
  }
  shape_ = shape;
  programs_ = &programs_of(shape);
  places_.assign(shape.n_places, {});
  most_pages_ = 0;
  const uint32_t n = shape.n_sequences();
  SequenceState idle{};
  idle.finished = 1;
  std::fill_n(host_states_.begin(), n, idle);
  std::fill_n(host_rows_.begin(), n, Row{0, -1, 0, 0});
  device_.write(states_.part(0, n * sizeof(SequenceState)), host_states_.data());
  device_.write(step_rows_.part(0, n * sizeof(Row)), host_rows_.data());
}

SequenceState WhisperDecoder::first_state(const DecodeTask& task, const Search& search,
                                          uint32_t i) const {
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size());
  SequenceState state{};
  state.max_sampled = task.max_tokens;
  state.timestamps = task.timestamps;
  state.max_initial_timestamp =
      static_cast<uint32_t>(tokens_.timestamp_begin) + task.max_initial_timestamp;
  if (task.speech_end > 0) {
    state.speech_end = static_cast<uint32_t>(tokens_.timestamp_begin) + task.speech_end;
  }
  state.position = static_cast<int32_t>(n_prompt);
  state.temperature = static_cast<float>(search.temperature);
  state.seed = mix_bits(task.seed + i * kNoiseStride);
  state.repetition_penalty = static_cast<float>(search.repetition_penalty);
  state.penalty_window = n_text_ctx();
  state.no_repeat_ngram_size = search.no_repeat_ngram_size;
  for (uint32_t given = 0; given < task.n_given; ++given) {
    const int32_t token = task.prompt[n_prompt - task.n_given + given];
    const bool is_timestamp = token >= tokens_.timestamp_begin;
    state.penultimate_was_timestamp = given == 0 || state.last_was_timestamp;
    state.last_was_timestamp = is_timestamp;
    if (is_timestamp) state.last_timestamp = static_cast<uint32_t>(token);
  }
  state.n_sampled = task.n_given;
  if (search.max_finished > 0) {
    state.is_beam = 1;
    state.max_finished = search.max_finished;
  }
  // Beams come from the first; what a place has beyond the search's sequences is not used.
  if (i >= (search.max_finished > 0 ? 1 : search.n_candidates)) {
    state.finished = 1;
    state.sum_logprob = -INFINITY;
  }
  return state;
}

void WhisperDecoder::write_sequences(uint32_t place, const DecodeTask& task, const Search& search) {
  const uint32_t n_pages = model_.cache().pages_per_sequence(),
                 page_rows = model_.cache().shape().page_rows;
  const uint32_t first = place * shape_.n_candidates, n = shape_.n_candidates;
  // The first step takes the prompt's last token. The full pages before it are the first
  // sequence's; of the page that it is in, each has a copy.
  const auto last = static_cast<uint32_t>(task.prompt.size()) - 1;
  const uint32_t n_full = last / page_rows;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t s = first + i;
    SequenceState& state = host_states_[s] = first_state(task, search, i);
    int32_t* const pages = host_pages_.data() + size_t{s} * n_pages;
    state.spare_page = model_.cache().fill_group_row(place, n, i, n_full, pages);
    if (i > 0 && !state.finished) {
      state.copy_from = host_pages_[size_t{first} * n_pages + n_full];
      state.copy_to = pages[n_full];
      state.copy_rows = last % page_rows;
    }
    std::copy_n(task.prompt.end() - task.n_given, task.n_given,
                host_chosen_.begin() + size_t{s} * n_text_ctx());
    host_sources_[s] = static_cast<int32_t>(task.window);
    host_rows_[s] = Row{0, -1, 0, 0};
    if (!state.finished) {
      host_rows_[s] = {task.prompt.back(), static_cast<int32_t>(s), static_cast<int32_t>(last), 0};
    }
  }
  const auto write = [&](const Operand& to, uint64_t element_bytes, const auto& from,
                         uint64_t per_sequence) {
    device_.write(to.part(first * per_sequence * element_bytes, n * per_sequence * element_bytes),
                  from.data() + first * per_sequence);
  };
  write(states_, sizeof(SequenceState), host_states_, 1);
  write(model_.cache().page_table(), sizeof(int32_t), host_pages_, n_pages);
  write(chosen_, sizeof(int32_t), host_chosen_, n_text_ctx());
  write(model_.sources(), sizeof(int32_t), host_sources_, 1);
  write(step_rows_, sizeof(Row), host_rows_, 1);
  const uint32_t go = 0;
  device_.write(stop_, &go);
}

void WhisperDecoder::run_prompt(uint32_t place, const DecodeTask& task) {
  const auto sequence = static_cast<int32_t>(place * shape_.n_candidates);
  // All but the last token, which the first step takes, unless its own logits are wanted.
  const auto n_prompt = static_cast<uint32_t>(task.prompt.size());
  const uint32_t n_rows = std::max(n_prompt - 1, task.start_of_transcript + 1);
  for (uint32_t i = 0; i < n_rows; ++i) {
    host_rows_[i] = {task.prompt[i], sequence, static_cast<int32_t>(i), 0};
  }
  device_.write(logit_index_, &task.start_of_transcript);
  const auto prompt =
      std::find_if(prompts_.begin(), prompts_.end(),
                   [&](const PromptProgram& program) { return program.n_rows >= n_rows; });
  std::fill(host_rows_.begin() + n_rows, host_rows_.begin() + prompt->n_rows, Row{0, -1, 0, 0});
  device_.write(prompt_rows_.part(0, prompt->n_rows * sizeof(Row)), host_rows_.data());
  device_.run(prompt->program);
}

void WhisperDecoder::require_free(uint32_t place) const {
  if (place < places_.size() && !places_[place].is_running) return;
  throw Error(ErrorKind::kInternal, "decoder: place " + std::to_string(place) + " of a batch of " +
                                        std::to_string(places_.size()) + " is not free");
}

void WhisperDecoder::start(uint32_t place, const DecodeTask& task, const Search& search) {
  require_free(place);
  check(task, search);
  write_sequences(place, task, search);
  run_prompt(place, task);
  device_.run(no_speech_choices_[place]);
  // Beams copy pages when they part.
  if (search.n_candidates > 1 && search.max_finished == 0) device_.run(programs_->copies);
  places_[place] = {true, search};
}

void WhisperDecoder::reuse_pages(uint32_t place, uint32_t n_steps) {
  const uint32_t n_pages = model_.cache().pages_per_sequence(),
                 page_rows = model_.cache().shape().page_rows;
  const uint32_t n = shape_.n_candidates, first = place * n;
  const auto position = static_cast<uint32_t>(host_states_[first].position);
  const uint32_t next = (position + page_rows - 1) / page_rows;
  if (next * page_rows >= position + n_steps || next >= n_pages) return;
  const Operand table = model_.cache().page_table().part(
      uint64_t{first} * n_pages * sizeof(int32_t), uint64_t{n} * n_pages * sizeof(int32_t));
  int32_t* const pages = host_pages_.data() + size_t{first} * n_pages;
  device_.read(table, pages);
  std::vector<int32_t> named;
  for (uint32_t i = 0; i < n; ++i) {
    named.insert(named.end(), pages + i * n_pages, pages + i * n_pages + next);
    named.push_back(host_states_[first + i].spare_page);
  }
  for (uint32_t i = 0, page = 0; i < n; ++page) {
    const int32_t free = model_.cache().group_page(place, n, page);
    if (std::find(named.begin(), named.end(), free) != named.end()) continue;
    pages[i++ * n_pages + next] = free;
    most_pages_ = std::max(most_pages_, page + 1);
  }
  device_.write(table, pages);
}

std::vector<uint32_t> WhisperDecoder::advance(uint32_t n_steps) {
  std::vector<uint32_t> ended;
  const auto is_running = [](const Place& place) { return place.is_running; };
  if (std::none_of(places_.begin(), places_.end(), is_running)) return ended;
  const bool is_batch = places_.size() > 1;
  for (uint32_t place = 0; is_batch && place < places_.size(); ++place) {
    if (places_[place].is_running && places_[place].search.max_finished > 0) {
      reuse_pages(place, n_steps);
    }
  }
  device_.run(programs_->step, n_steps, stop_);
  if (places_.size() == 1) {
    uint32_t stopped = 0;
    device_.read(stop_, &stopped);
    if (!stopped) return ended;
  }
  const uint32_t n = shape_.n_candidates;
  device_.read(states_.part(0, shape_.n_sequences() * sizeof(SequenceState)), host_states_.data());
  for (uint32_t place = 0; place < places_.size(); ++place) {
    const auto first = host_states_.begin() + place * n;
    if (places_[place].is_running && std::all_of(first, first + n, [](const SequenceState& state) {
          return state.finished != 0;
        })) {
      places_[place].is_running = false;
      ended.push_back(place);
    }
  }
  return ended;
}

DecodeResult WhisperDecoder::result(uint32_t place) {
  const Search& search = places_[place].search;
  const uint32_t n = shape_.n_candidates, first = place * n;
  const auto read = [&](const Operand& from, auto& to, uint64_t first_element,
                        uint64_t n_elements) {
    const uint64_t bytes = sizeof(to[0]);
    device_.read(from.part(first_element * bytes, n_elements * bytes), to.data() + first_element);
  };
  read(no_speech_, host_no_speech_, place, 1);
  read(chosen_, host_chosen_, uint64_t{first} * n_text_ctx(), uint64_t{n} * n_text_ctx());
  std::vector<DecodeResult> found;
  if (search.max_finished > 0) {
    const uint64_t n_finished = host_states_[first].n_finished,
                   first_finished = uint64_t{place} * shape_.beam_size * kMostPatience;
    const uint64_t stride = kFinishedHeader + n_text_ctx();
    if (n_finished > 0) {
      read(finished_, host_finished_, first_finished * stride, n_finished * stride);
    }
    found = finished_texts(place, search.n_candidates);
  } else {
    for (uint32_t i = 0; i < search.n_candidates; ++i) found.push_back(text_of(first + i));
  }
  // The first of equals.
  DecodeResult best = std::move(*std::max_element(
      found.begin(), found.end(), [&](const DecodeResult& a, const DecodeResult& b) {
        return rank(a, search) < rank(b, search);
      }));
  best.no_speech_prob = host_no_speech_[place];
  return best;
}

std::vector<DecodeResult> WhisperDecoder::decode(std::span<const DecodeTask> tasks,
                                                 const Search& search) {
  if (tasks.empty()) return {};
  begin({.n_places = static_cast<uint32_t>(tasks.size()),
         .n_candidates = search.n_candidates,
         .beam_size = search.max_finished > 0 ? search.n_candidates : 0,
         .has_penalties = search.repetition_penalty != 1 || search.no_repeat_ngram_size > 0});
  for (uint32_t place = 0; place < tasks.size(); ++place) start(place, tasks[place], search);
  std::vector<DecodeResult> results(tasks.size());
  for (size_t n_running = tasks.size(); n_running > 0;) {
    for (const uint32_t place : advance(kChainSteps)) {
      results[place] = result(place);
      --n_running;
    }
  }
  return results;
}

DecodeResult WhisperDecoder::text_of(uint32_t s) const {
  const SequenceState& state = host_states_[s];
  const int32_t* chosen = host_chosen_.data() + size_t{s} * n_text_ctx();
  return {{chosen, std::find(chosen, chosen + state.n_sampled, tokens_.eot)}, state.sum_logprob, 0};
}

// openai-whisper, decoding.py: BeamSearchDecoder.finalize. Where too few texts have ended, the best
// of those under way count as well.
std::vector<DecodeResult> WhisperDecoder::finished_texts(uint32_t place, uint32_t n_beams) const {
  std::vector<DecodeResult> found;
  const uint32_t first = place * shape_.n_candidates;
  const size_t first_finished = size_t{place} * n_beams * kMostPatience;
  for (size_t f = first_finished; f < first_finished + host_states_[first].n_finished; ++f) {
    const uint32_t* text = host_finished_.data() + f * (kFinishedHeader + n_text_ctx());
    const uint32_t* tokens = text + kFinishedHeader;
    found.push_back({{tokens, tokens + text[1]}, std::bit_cast<float>(text[0]), 0});
  }
  // Beams are in falling order.
  for (uint32_t s = first; s < first + n_beams && found.size() < n_beams; ++s) {
    if (host_states_[s].sum_logprob > -INFINITY) found.push_back(text_of(s));
  }
  // Not even one token could be chosen.
  if (found.empty()) found.emplace_back();
  return found;
}

std::vector<float> WhisperDecoder::language_probabilities(uint32_t place) {
  if (!tokens_.is_multilingual) return {};
  require_free(place);
  const DecodeTask task{.prompt = {tokens_.sot}, .max_tokens = 1, .window = place};
  write_sequences(place, task, {});
  run_prompt(place, task);
  device_.run(language_choice_);
  std::vector<float> probabilities(tokens_.n_languages);
  device_.read(languages_, probabilities.data());
  return probabilities;
}

std::vector<float> WhisperDecoder::language_probabilities() {
  begin({});
  return language_probabilities(0);
}

std::vector<float> WhisperDecoder::prompt_logits(std::span<const int32_t> prompt) {
  std::vector<float> logits(prompt.size() * n_vocab());
  for (size_t i = 0; i < prompt.size(); ++i) {
    const DecodeTask task{.prompt = {prompt.begin(), prompt.begin() + i + 1}, .max_tokens = 1};
    decode({&task, 1});
    device_.read(logits_.part(0, n_vocab() * sizeof(float)), logits.data() + i * n_vocab());
  }
  return logits;
}

}  // namespace vesper
