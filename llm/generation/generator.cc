#include "llm/generation/generator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Passes over prompts are recorded for these numbers of rows; what is left of a prompt takes the
// next larger one.
constexpr uint32_t kPassRows[] = {1, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512};
// Token ids that one chunk of sample_partials reduces.
constexpr uint32_t kIdsPerChunk = 1024;
// Logits of a pass that are computed at once take so much at most.
constexpr uint64_t kMostLogitBytes = uint64_t{64} << 20;
// A filter that keeps the tokens with so much together keeps one, and never none.
constexpr float kLeastPart = 1e-9f;

uint32_t pass_rows(const WeightProvider& provider, const GeneratorOptions& options) {
  const uint32_t n_ctx =
      options.n_ctx != 0 ? options.n_ctx : provider.config().decoder().n_positions;
  const auto* next = std::find_if(std::begin(kPassRows), std::end(kPassRows),
                                  [&](uint32_t rows) { return rows >= n_ctx; });
  return next == std::end(kPassRows) ? kPassRows[std::size(kPassRows) - 1] : *next;
}

uint32_t logit_rows(const WeightProvider& provider, const GeneratorOptions& options) {
  const uint64_t row_bytes = sizeof(float) * std::max(1u, provider.config().n_vocab);
  const uint64_t most = std::clamp<uint64_t>(kMostLogitBytes / row_bytes, 1, 128);
  return static_cast<uint32_t>(std::min<uint64_t>(most, pass_rows(provider, options)));
}

DecoderModel::Options model_options(const WeightProvider& provider,
                                    const GeneratorOptions& options) {
  if (options.beam_size < 1 || options.beam_size > kMostBeams) {
    throw Error(ErrorKind::kUsage, "beam size",
                "expected 1 to " + std::to_string(kMostBeams) + ", found " +
                    std::to_string(options.beam_size));
  }
  provider.config(ModelType::kLanguageModel);  // or says what it is
  DecoderModel::Options model;
  model.n_ctx = options.n_ctx;
  model.n_sequences = options.n_places * options.beam_size;
  model.max_rows = std::max(pass_rows(provider, options), model.n_sequences);
  model.max_logit_rows = std::max(logit_rows(provider, options), model.n_sequences);
  model.kv_dtype = options.kv_dtype;
  model.recycles_pages = options.recycles_pages && options.beam_size == 1;
  model.n_extra_pages = options.beam_size > 1 ? model.n_sequences : 0;
  return model;
}

// FNV-1a.
void mix_bytes(const void* data, size_t n, uint64_t& hash) {
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  }
}

uint64_t model_fingerprint(const WeightProvider& provider) {
  const ModelConfig& config = provider.config();
  const StackConfig& stack = config.decoder();
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint32_t fact : {config.n_vocab, stack.d_model, stack.n_layers, stack.n_heads,
                              stack.n_kv_heads, stack.head_dim, stack.d_ffn}) {
    mix_bytes(&fact, sizeof fact, hash);
  }
  const TensorView& norm = provider.require("decoder.norm.weight");
  mix_bytes(norm.data, norm.bytes, hash);
  return hash;
}

}  // namespace

Generator::Generator(Device& device, const WeightProvider& provider, Compute compute,
                     const GeneratorOptions& options)
    : device_(device),
      options_(options),
      model_(device, provider, compute, model_options(provider, options)),
      places_(options.n_places),
      fingerprint_(model_fingerprint(provider)),
      n_logit_rows_(logit_rows(provider, options)) {
  const uint32_t n = n_sequences(), n_vocab = model_.n_vocab();
  const uint64_t n_tokens = uint64_t{n} * n_ctx();
  const auto numbers = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(float), label);
  };
  pass_rows_ = device.allocate(pass_rows(provider, options) * sizeof(Row), "rows of a pass");
  step_rows_ = device.allocate(n * sizeof(Row), "rows of a step");
  logit_index_ = numbers(n_logit_rows_, "rows that give logits");
  pass_logits_ = numbers(uint64_t{n_logit_rows_} * n_vocab, "logits of a pass");
  logits_ = numbers(uint64_t{n} * n_vocab, "logits");
  states_ = device.allocate(n * sizeof(SequenceState), "generation states");
  tokens_ = numbers(n_tokens, "tokens");
  logprobs_ = numbers(n_tokens, "log-probabilities");
  partials_ = device.allocate(
      uint64_t{n} * n_text_chunks(n_vocab, kIdsPerChunk) * sizeof(TokenPartial), "partials");
  if (has_beams()) {
    candidates_ = device.allocate(
        partials_.bytes / sizeof(TokenPartial) * 2 * options.beam_size * sizeof(TokenCandidate),
        "candidates of beams");
    finished_ = numbers(uint64_t{n} * (kFinishedHeader + n_ctx()), "finished texts");
  }
  stop_ = numbers(1, "stop");
  stop_ids_ = numbers((uint64_t{n_vocab} + 31) / 32, "stop ids");
  bias_ = numbers(n_vocab, "bias");

  rows_host_.resize(std::max<size_t>(pass_rows(provider, options), n));
  states_host_.resize(n);
  tokens_host_.resize(n_tokens);
  logprobs_host_.resize(n_tokens);
  for (uint32_t s = 0; s < n; ++s) {
    states_host_[s].finished = 1;
    rows_host_[s] = {0, -1, 0, 0};
  }
  for (Place& place : places_) place.held.reserve(n_ctx());
  device.write(states_, states_host_.data());
  device.write(step_rows_, rows_host_.data());
  record_passes();
}

void Generator::record_passes() {
  std::vector<DispatchTable> tables;
  for (const uint32_t rows : kPassRows) {
    if (rows * sizeof(Row) > pass_rows_.bytes) break;
    model_.emit_rows(tables.emplace_back(), rows, model_.context(pass_rows_, true));
  }
  const size_t n_passes = tables.size();
  model_.emit_logits(tables.emplace_back(), n_logit_rows_, logit_index_, pass_logits_);
  const std::vector<ProgramId> programs = device_.record_all(tables);
  for (size_t i = 0; i < n_passes; ++i) passes_.emplace_back(kPassRows[i], programs[i]);
  logits_program_ = programs.back();
}

void Generator::record_step() {
  if (has_step_) return;
  SamplingParams params{};
  params.n_sequences = n_sequences();
  params.n_vocab = params.row_stride = params.timestamp_begin = params.end_of_text = n_vocab();
  params.chunk = kIdsPerChunk;
  params.n_chunks = n_text_chunks(n_vocab(), kIdsPerChunk);
  params.max_tokens = n_ctx();
  params.has_filters = options_.has_filters;
  // As many candidates as there are beams may be stop tokens.
  params.n_candidates = has_beams() ? 2 * options_.beam_size : 0;
  DispatchTable table;
  model_.emit_rows(table, n_sequences(), model_.context(step_rows_));
  model_.emit_logits(table, n_sequences(), {}, logits_);
  const Operand bias = has_bias_ ? bias_ : Operand{};
  if (has_bias_ || options_.has_penalties) {
    emit::adjust_logits(table, "adjust_logits", params, logits_, states_,
                        options_.has_penalties ? tokens_ : Operand{}, bias);
  }
  if (options_.has_filters) {
    emit::sampling_filters(table, "sampling_filters", params, states_, logits_, {});
  }
  emit::sample_partials(table, "sample_partials", params, partials_, logits_, states_, {},
                        candidates_);
  if (has_beams()) emit_beams(table, params);
  emit::sample_token(table, "sample_token", params, states_, step_rows_, tokens_, logprobs_, stop_,
                     partials_, stop_ids_);
  step_ = device_.record(table);
  has_step_ = true;
}

void Generator::emit_beams(DispatchTable& table, const SamplingParams& params) const {
  const KvCache& cache = model_.cache();
  const KvCache::Shape& shape = cache.shape();
  BeamParams beams{};
  beams.n_groups = n_places();
  beams.group_sequences = beams.beam_size = beams.most_finished = options_.beam_size;
  beams.n_candidates = params.n_candidates;
  beams.n_chunks = params.n_chunks;
  beams.chunk = params.chunk;
  beams.timestamp_begin = params.timestamp_begin;
  beams.max_tokens = params.max_tokens;
  beams.page_rows = shape.page_rows;
  beams.pages_per_sequence = cache.pages_per_sequence();
  emit::select_beams(table, "select_beams", beams, states_, step_rows_, tokens_, finished_,
                     partials_, candidates_, cache.page_table(), stop_ids_);
  const CopyPagesParams copy{params.n_sequences, shape.n_kv_heads, shape.head_dim, shape.page_rows,
                             static_cast<uint32_t>(shape.dtype)};
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    emit::copy_pages(table, "copy_pages." + std::to_string(layer), copy, cache.keys(layer),
                     cache.values(layer), states_);
  }
}

void Generator::give_pages(uint32_t place, uint32_t n_prompt) {
  if (!has_beams()) return;
  const KvCache& cache = model_.cache();
  // The first step takes the prompt's last token: the pages before its own are full.
  const uint32_t n = options_.beam_size, n_full = (n_prompt - 1) / cache.shape().page_rows;
  const uint64_t row_bytes = cache.pages_per_sequence() * sizeof(int32_t);
  std::vector<int32_t> row(cache.pages_per_sequence());
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t s = first_sequence(place) + i;
    states_host_[s].spare_page = cache.fill_group_row(place, n, i, n_full, row.data());
    device_.write(cache.page_table().part(s * row_bytes, row_bytes), row.data());
  }
}

void Generator::set_stop_ids(std::span<const int32_t> ids) {
  std::vector<uint32_t> mask((n_vocab() + 31) / 32, 0);
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) continue;
    mask[static_cast<uint32_t>(id) / 32] |= 1u << id % 32;
  }
  device_.write(stop_ids_, mask.data());
}

void Generator::set_bias(std::span<const std::pair<int32_t, float>> bias) {
  std::vector<float> values(n_vocab(), 0.0f);
  for (const auto& [id, value] : bias) {
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) {
      throw Error(ErrorKind::kUsage, "logit bias",
                  "expected token ids below " + std::to_string(n_vocab()) + ", found " +
                      std::to_string(id));
    }
    values[static_cast<uint32_t>(id)] += value;
  }
  device_.write(bias_, values.data());
  has_bias_ = !bias.empty();
}

void Generator::check_prompt(std::span<const int32_t> prompt) const {
  if (prompt.empty()) throw Error(ErrorKind::kInput, "expected a text of at least one token");
  for (const int32_t id : prompt) {
    if (id >= 0 && static_cast<uint32_t>(id) < n_vocab()) continue;
    throw Error(ErrorKind::kInput, "expected token ids below " + std::to_string(n_vocab()) +
                                       ", the size of the vocabulary, found " + std::to_string(id));
  }
}

void Generator::prefill(uint32_t place, std::span<const int32_t> tokens, uint32_t first,
                        uint32_t end, const std::function<void(uint32_t, uint32_t)>& after_pass) {
  while (first < end) {
    const uint32_t n = std::min(end - first, passes_.back().first);
    const auto pass = std::find_if(passes_.begin(), passes_.end(),
                                   [&](const auto& each) { return each.first >= n; });
    for (uint32_t r = 0; r < pass->first; ++r) {
      rows_host_[r] = {0, -1, 0, 0};
      if (r < n) {
        rows_host_[r] = {tokens[first + r], static_cast<int32_t>(first_sequence(place)),
                         static_cast<int32_t>(first + r), 0};
      }
    }
    device_.write(pass_rows_.part(0, pass->first * sizeof(Row)), rows_host_.data());
    device_.run(pass->second);
    if (after_pass) after_pass(first, n);
    first += n;
  }
}

void Generator::start(uint32_t place, std::span<const int32_t> prompt, uint32_t max_new,
                      const Sampling& sampling) {
  check_prompt(prompt);
  if (prompt.size() >= n_ctx()) {
    throw Error(ErrorKind::kInput,
                "the text has " + std::to_string(prompt.size()) + " tokens, the context of " +
                    std::to_string(n_ctx()) + " has room for " + std::to_string(n_ctx() - 1) +
                    " and an answer: " + std::to_string(prompt.size() - n_ctx() + 1) + " too many");
  }
  if ((sampling.has_filters() && !options_.has_filters) ||
      (sampling.has_penalties() && !options_.has_penalties)) {
    throw Error(ErrorKind::kInternal, "generator: made without filters or penalties");
  }
  record_step();
  Place& at = places_[place];
  if (has_beams()) at.held.clear();
  at.best.clear();
  at.length_penalty = sampling.length_penalty;
  const auto n_prompt = static_cast<uint32_t>(prompt.size());
  const uint32_t max_tokens = n_prompt + std::min(max_new, n_ctx() - n_prompt);
  const auto differs =
      std::mismatch(prompt.begin(), prompt.end() - 1, at.held.begin(), at.held.end());
  at.n_reused = static_cast<uint32_t>(differs.first - prompt.begin());
  // The window of the next position must still be there.
  if (at.first_kept > 0 && at.n_reused + 1 < at.first_kept + model_.longest_window()) {
    at.n_reused = 0;
  }
  if (at.n_reused == 0) at.first_kept = 0;
  at.n_prompt = n_prompt;
  give_pages(place, n_prompt);
  // All but the last token, which the first step takes.
  prefill(place, prompt, at.n_reused, n_prompt - 1, nullptr);
  hold(at, prompt.first(n_prompt - 1));

  SequenceState state{};
  state.first_sampled = n_prompt;
  state.position = static_cast<int>(n_prompt);
  state.max_sampled = max_tokens - n_prompt;
  state.finished = max_new == 0;
  state.seed = sampling.seed;
  state.temperature = sampling.temperature;
  state.top_k = sampling.top_k;
  state.typical_p = std::max(sampling.typical_p, kLeastPart);
  state.top_p = std::max(sampling.top_p, kLeastPart);
  state.min_p = sampling.min_p;
  state.repetition_penalty = sampling.repetition_penalty;
  state.frequency_penalty = sampling.frequency_penalty;
  state.presence_penalty = sampling.presence_penalty;
  state.penalty_window = sampling.has_penalties() ? sampling.penalty_window : 0;
  state.no_repeat_ngram_size = sampling.no_repeat_ngram_size;
  state.is_beam = has_beams();
  state.max_finished = options_.beam_size;
  const uint32_t first = first_sequence(place), n = options_.beam_size;
  for (uint32_t s = first; s < first + n; ++s) {
    state.spare_page = states_host_[s].spare_page;
    states_host_[s] = state;
    // Beams come from the first.
    if (s > first) {
      states_host_[s].finished = 1;
      states_host_[s].sum_logprob = -INFINITY;
    }
    const uint64_t first_token = uint64_t{s} * n_ctx();
    std::copy(prompt.begin(), prompt.end(),
              tokens_host_.begin() + static_cast<std::ptrdiff_t>(first_token));
    device_.write(tokens_.part(first_token * sizeof(int32_t), n_prompt * sizeof(int32_t)),
                  prompt.data());
    rows_host_[s - first] = {0, -1, 0, 0};
  }
  if (!state.finished) {
    rows_host_[0] = {prompt.back(), static_cast<int32_t>(first), static_cast<int32_t>(n_prompt - 1),
                     0};
  }
  device_.write(states_.part(first * sizeof(SequenceState), n * sizeof(SequenceState)),
                states_host_.data() + first);
  device_.write(step_rows_.part(first * sizeof(Row), n * sizeof(Row)), rows_host_.data());
  const uint32_t go = 0;
  device_.write(stop_, &go);
}

void Generator::read_place(uint32_t place) {
  if (has_beams()) {
    Place& at = places_[place];
    if (!is_running(place) && at.best.empty()) at.best = best_text(place);
    return;
  }
  const SequenceState& state = states_host_[place];
  Place& at = places_[place];
  const uint64_t first = uint64_t{place} * n_ctx() + at.n_prompt;
  const uint64_t n = state.n_sampled;
  if (n == 0) return;
  const auto bytes = [&](const Operand& of) { return of.part(first * 4, n * 4); };
  device_.read(bytes(tokens_), tokens_host_.data() + first);
  device_.read(bytes(logprobs_), logprobs_host_.data() + first);
  // Of the latest token no key is computed yet.
  const auto begin = tokens_host_.begin() + static_cast<std::ptrdiff_t>(uint64_t{place} * n_ctx());
  hold(at, {begin, begin + at.n_prompt + state.n_sampled - 1});
}

void Generator::hold(Place& at, std::span<const int32_t> tokens) {
  at.held.assign(tokens.begin(), tokens.end());
  const uint32_t n_kept = model_.cache().n_kept_positions();
  const auto n = static_cast<uint32_t>(tokens.size());
  if (n_kept > 0 && n > n_kept) at.first_kept = std::max(at.first_kept, n - n_kept);
}

bool Generator::advance(uint32_t n_steps) {
  const auto runs = [](const SequenceState& state) { return state.finished == 0; };
  if (std::none_of(states_host_.begin(), states_host_.end(), runs)) return false;
  device_.run(step_, n_steps, stop_);
  device_.read(states_, states_host_.data());
  for (uint32_t place = 0; place < n_places(); ++place) read_place(place);
  return std::any_of(states_host_.begin(), states_host_.end(), runs);
}

// Where fewer texts than beams have ended, those of the last beams count as well.
std::vector<int32_t> Generator::best_text(uint32_t place) {
  const uint32_t n = options_.beam_size, first = first_sequence(place);
  std::vector<int32_t> best;
  double best_score = -INFINITY;
  const auto consider = [&](const int32_t* tokens, uint32_t n_tokens, size_t length, float sum) {
    const double score = sum / std::pow(static_cast<double>(std::max<size_t>(1, length)),
                                        double{places_[place].length_penalty});
    if (!(score > best_score)) return;
    best_score = score;
    best.assign(tokens, tokens + n_tokens);
  };
  const uint64_t stride = kFinishedHeader + n_ctx();
  const uint32_t n_finished = states_host_[first].n_finished;
  std::vector<int32_t> texts(n * stride);
  device_.read(finished_.part(first * stride * sizeof(int32_t), n * stride * sizeof(int32_t)),
               texts.data());
  for (uint32_t f = 0; f < n_finished; ++f) {
    const int32_t* text = texts.data() + f * stride;
    const auto n_tokens = static_cast<uint32_t>(text[1]);
    consider(text + kFinishedHeader, n_tokens, n_tokens + 1, std::bit_cast<float>(text[0]));
  }
  const uint64_t row = n_ctx();
  device_.read(tokens_.part(first * row * sizeof(int32_t), n * row * sizeof(int32_t)),
               tokens_host_.data() + first * row);
  for (uint32_t i = 0; i + n_finished < n; ++i) {
    const SequenceState& state = states_host_[first + i];
    if (!(state.sum_logprob > -INFINITY)) break;  // beams are in falling order
    consider(tokens_host_.data() + (first + i) * row + state.first_sampled, state.n_sampled,
             state.n_sampled, state.sum_logprob);
  }
  return best;
}

std::span<const int32_t> Generator::chosen(uint32_t place) const {
  if (has_beams()) return places_[place].best;
  const uint64_t first = uint64_t{place} * n_ctx() + places_[place].n_prompt;
  return {tokens_host_.data() + first, states_host_[place].n_sampled};
}

std::span<const float> Generator::logprobs(uint32_t place) const {
  if (has_beams()) return {};
  const uint64_t first = uint64_t{place} * n_ctx() + places_[place].n_prompt;
  return {logprobs_host_.data() + first, states_host_[place].n_sampled};
}

void Generator::stop(uint32_t place) {
  if (!is_running(place)) return;
  const uint32_t first = first_sequence(place), n = options_.beam_size;
  for (uint32_t s = first; s < first + n; ++s) {
    states_host_[s].finished = 1;
    rows_host_[s - first] = {0, -1, 0, 0};
  }
  device_.write(states_.part(first * sizeof(SequenceState), n * sizeof(SequenceState)),
                states_host_.data() + first);
  device_.write(step_rows_.part(first * sizeof(Row), n * sizeof(Row)), rows_host_.data());
}

void Generator::read_logits(uint32_t place, float* out) {
  const uint64_t bytes = n_vocab() * sizeof(float);
  device_.read(logits_.part(first_sequence(place) * bytes, bytes), out);
}

void Generator::evaluate(std::span<const int32_t> tokens,
                         const std::function<void(uint32_t, uint32_t, const float*)>& take_rows) {
  check_prompt(tokens);
  if (tokens.size() > n_ctx()) {
    throw Error(ErrorKind::kInput, "the text has " + std::to_string(tokens.size()) +
                                       " tokens, the context has room for " +
                                       std::to_string(n_ctx()) + ": " +
                                       std::to_string(tokens.size() - n_ctx()) + " too many");
  }
  const auto n = static_cast<uint32_t>(tokens.size());
  stop(0);
  places_[0].first_kept = 0;
  give_pages(0, n);
  pass_logits_host_.resize(size_t{n_logit_rows_} * n_vocab());
  std::vector<uint32_t> index(n_logit_rows_);
  prefill(0, tokens, 0, n, [&](uint32_t first, uint32_t n_rows) {
    for (uint32_t r = 0; r < n_rows; r += n_logit_rows_) {
      const uint32_t n_taken = std::min(n_logit_rows_, n_rows - r);
      for (uint32_t i = 0; i < n_logit_rows_; ++i) index[i] = r + std::min(i, n_taken - 1);
      device_.write(logit_index_, index.data());
      device_.run(logits_program_);
      device_.read(pass_logits_.part(0, uint64_t{n_taken} * n_vocab() * sizeof(float)),
                   pass_logits_host_.data());
      take_rows(first + r, n_taken, pass_logits_host_.data());
    }
  });
  hold(places_[0], tokens);
  places_[0].n_prompt = n;
  states_host_[0].n_sampled = 0;
}

namespace {

constexpr char kSavedMagic[8] = {'V', 'e', 's', 'p', 'e', 'r', 'K', '2'};

struct SavedHeader {
  char magic[8];
  uint64_t fingerprint;
  uint32_t kv_dtype, n_tokens;
  uint32_t first_kept, n_kept_positions;  // of layers with a sliding window
};

// Calls visit(page) for all pages, keys and values of every layer, that the first n_pages of a
// place's positions have.
template <class Visit>
void for_saved_pages(const KvCache& cache, uint32_t place, uint32_t n_pages, const Visit& visit) {
  const KvCache::Shape& shape = cache.shape();
  const uint64_t page_bytes =
      dtype_bytes(shape.dtype, uint64_t{shape.n_kv_heads} * shape.page_rows * shape.head_dim);
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    for (const Operand* pages : {&cache.keys(layer), &cache.values(layer)}) {
      for (uint32_t i = cache.first_kept_page(layer, n_pages); i < n_pages; ++i) {
        visit(pages->part(cache.page_of(layer, place, i) * page_bytes, page_bytes));
      }
    }
  }
}

uint64_t saved_page_bytes(const KvCache& cache, uint32_t n_pages) {
  const KvCache::Shape& shape = cache.shape();
  uint64_t n = 0;
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    n += n_pages - cache.first_kept_page(layer, n_pages);
  }
  return 2 * n *
         dtype_bytes(shape.dtype, uint64_t{shape.n_kv_heads} * shape.page_rows * shape.head_dim);
}

}  // namespace

std::vector<std::byte> Generator::save(uint32_t place) {
  const Place& at = places_[place];
  const KvCache& cache = model_.cache();
  const uint32_t n_tokens = static_cast<uint32_t>(at.held.size());
  const KvCache::Shape& shape = cache.shape();
  const uint32_t n_pages = (n_tokens + shape.page_rows - 1) / shape.page_rows;
  SavedHeader header{{},       fingerprint_,  static_cast<uint32_t>(shape.dtype),
                     n_tokens, at.first_kept, cache.n_kept_positions()};
  std::memcpy(header.magic, kSavedMagic, sizeof kSavedMagic);
  std::vector<std::byte> bytes(sizeof header + n_tokens * sizeof(int32_t) +
                               saved_page_bytes(cache, n_pages));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, at.held.data(), n_tokens * sizeof(int32_t));
  std::byte* to = bytes.data() + sizeof header + n_tokens * sizeof(int32_t);
  for_saved_pages(cache, place, n_pages, [&](const Operand& page) {
    device_.read(page, to);
    to += page.bytes;
  });
  return bytes;
}

void Generator::restore(uint32_t place, std::span<const std::byte> bytes) {
  const KvCache& cache = model_.cache();
  const KvCache::Shape& shape = cache.shape();
  SavedHeader header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kSavedMagic, sizeof kSavedMagic) != 0) {
    throw Error(ErrorKind::kInput, "expected keys and values that were saved before");
  }
  if (header.fingerprint != fingerprint_ || header.kv_dtype != static_cast<uint32_t>(shape.dtype)) {
    throw Error(ErrorKind::kInput, "it was saved with another model or another KV type");
  }
  // A context of another length keeps another number of positions: of no use, unless all are kept.
  // So is more than this context has room for.
  // Beams start from their prompt alone.
  if (has_beams() || header.n_kept_positions != cache.n_kept_positions() ||
      header.n_tokens > n_ctx()) {
    return;
  }
  const uint32_t n_pages = (header.n_tokens + shape.page_rows - 1) / shape.page_rows;
  const uint64_t wanted = sizeof header + uint64_t{header.n_tokens} * sizeof(int32_t) +
                          saved_page_bytes(cache, n_pages);
  if (bytes.size() != wanted) {
    throw Error(ErrorKind::kInput, "expected " + std::to_string(wanted) + " bytes, found " +
                                       std::to_string(bytes.size()));
  }
  std::vector<int32_t> tokens(header.n_tokens);
  std::memcpy(tokens.data(), bytes.data() + sizeof header, tokens.size() * sizeof(int32_t));
  const std::byte* from = bytes.data() + sizeof header + tokens.size() * sizeof(int32_t);
  for_saved_pages(cache, place, n_pages, [&](const Operand& page) {
    device_.write(page, from);
    from += page.bytes;
  });
  places_[place].first_kept = header.first_kept;
  places_[place].held = std::move(tokens);
}

}  // namespace vesper
